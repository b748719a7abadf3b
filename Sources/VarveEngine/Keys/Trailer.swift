/// The second part of an internal key: the sequence number in the upper 56 bits, the kind in the lower 8.
///
/// Internal keys sort by user key ascending, and then by trailer **descending**, so the newest entry of a key comes
/// first.
struct Trailer: Hashable, Sendable {
  let word: UInt64

  @inline(__always)
  init(word: UInt64) { self.word = word }

  @inline(__always)
  init(_ sequence: SequenceNumber, _ kind: EntryKind) {
    word = (sequence.value << 8) | UInt64(kind.rawValue)
  }

  /// Creates the trailer that sorts before every entry with a sequence number of at most `sequence`. A search for the
  /// entries visible at `sequence` begins there.
  @inline(__always)
  init(seek sequence: SequenceNumber) {
    word = (sequence.value << 8) | UInt64(EntryKind.seekMaximum)
  }

  @inline(__always)
  var sequence: SequenceNumber { SequenceNumber(word >> 8) }
  @inline(__always)
  var rawKind: UInt8 { UInt8(truncatingIfNeeded: word) }
  /// The kind, or nil if this version does not know it.
  @inline(__always)
  var kind: EntryKind? { EntryKind(rawValue: rawKind) }
}

/// A user key and a trailer, which together determine the position of an entry in the order.
struct InternalKey: Sendable {
  let userKey: ByteView
  let trailer: Trailer

  @inline(__always)
  init(_ userKey: ByteView, _ trailer: Trailer) {
    self.userKey = userKey
    self.trailer = trailer
  }

  /// Returns a negative number, zero or a positive number if `self` sorts before, equal to or after `other`.
  @inline(__always)
  func compare(_ other: InternalKey) -> Int {
    let order = userKey.compare(other.userKey)
    if order != 0 { return order }
    if trailer.word == other.trailer.word { return 0 }
    return trailer.word > other.trailer.word ? -1 : 1
  }
}
