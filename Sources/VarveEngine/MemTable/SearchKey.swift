/// The target of a search in the tree: an internal key whose first 32 bytes are also stored as four big-endian words,
/// so that a node's prefix is compared without a loop over bytes.
struct SearchKey {
  let key: ByteView
  let trailer: Trailer
  /// The first 32 bytes of the key, followed by zeros if it is shorter.
  let word0: UInt64
  let word1: UInt64
  let word2: UInt64
  let word3: UInt64

  @inline(__always)
  init(_ key: ByteView, _ trailer: Trailer) {
    self.key = key
    self.trailer = trailer
    word0 = key.head(from: 0)
    word1 = key.head(from: 8)
    word2 = key.head(from: 16)
    word3 = key.head(from: 24)
  }

  @inline(__always)
  init(_ target: InternalKey) { self.init(target.userKey, target.trailer) }

  /// Returns the eight bytes after the first `prefixSize`, with zeros after the end of the key.
  ///
  /// Requires that the key has at least `prefixSize` bytes. Unlike `ByteView.head`, it does not branch on the number
  /// of remaining bytes, which differs from node to node.
  @inline(__always)
  func head(after prefixSize: Int) -> UInt64 {
    let last = key.count &- 8
    if last < 0 { return word0 << UInt64(truncatingIfNeeded: prefixSize &* 8) }
    let start = prefixSize < last ? prefixSize : last
    // The shift is 64 for a key that ends with the prefix, which leaves zero.
    return key.load(start, as: UInt64.self).byteSwapped << UInt64(truncatingIfNeeded: (prefixSize &- start) &* 8)
  }

  /// Returns `word` with all but its first `size` bytes cleared. A `size` below zero counts as zero, and one above
  /// eight as eight.
  @inline(__always)
  static func mask(_ word: UInt64, first size: Int) -> UInt64 {
    if size <= 0 { return 0 }
    if size >= 8 { return word }
    return word & (UInt64.max << UInt64(truncatingIfNeeded: 64 &- size &* 8))
  }
}
