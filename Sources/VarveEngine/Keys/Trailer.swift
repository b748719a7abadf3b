/// The second half of an internal key: the sequence in the upper 56 bits, the kind in the lower 8.
///
/// Internal keys sort by user key ascending, then by trailer **descending**: of one key the newest
/// entry comes first.
struct Trailer: Hashable, Sendable {
  let word: UInt64

  @inline(__always)
  init(word: UInt64) { self.word = word }

  @inline(__always)
  init(_ sequence: SequenceNumber, _ kind: EntryKind) {
    word = (sequence.value << 8) | UInt64(kind.rawValue)
  }

  /// The trailer that sorts before every entry with a sequence of at most `sequence`: where a search
  /// for what is visible at `sequence` begins.
  @inline(__always)
  init(seek sequence: SequenceNumber) {
    word = (sequence.value << 8) | UInt64(EntryKind.seekMaximum)
  }

  @inline(__always)
  var sequence: SequenceNumber { SequenceNumber(word >> 8) }
  @inline(__always)
  var rawKind: UInt8 { UInt8(truncatingIfNeeded: word) }
  /// Nil for a kind that this version does not know.
  @inline(__always)
  var kind: EntryKind? { EntryKind(rawValue: rawKind) }
}

/// A user key and a trailer: one entry's position in the order.
struct InternalKey: Sendable {
  let userKey: ByteView
  let trailer: Trailer

  @inline(__always)
  init(_ userKey: ByteView, _ trailer: Trailer) {
    self.userKey = userKey
    self.trailer = trailer
  }

  /// Negative, zero or positive as `self` sorts before, with or after `other`.
  @inline(__always)
  func compare(_ other: InternalKey) -> Int {
    let order = userKey.compare(other.userKey)
    if order != 0 { return order }
    if trailer.word == other.trailer.word { return 0 }
    return trailer.word > other.trailer.word ? -1 : 1
  }
}
