/// Binary search in a block: first over the heads of bundles, then over the suffixes of one bundle.
///
/// Both searches compare eight bytes as one integer, and compare further bytes only if these are equal.
extension Block {
  /// Returns the first row at or after (key, trailer), or `rowCount` if all rows are before it.
  @inline(__always)
  func lowerBound(_ key: ByteView, _ trailer: Trailer) -> Int {
    let shared = prefixSize < key.count ? prefixSize : key.count
    if shared > 0 {
      let order = unsafe Block.compareBytes(key.base, prefixBase, shared)
      if order != 0 { return order < 0 ? 0 : rowCount }
    }
    // A key that ends inside the prefix is before all keys that have the prefix.
    if key.count < prefixSize { return 0 }
    let rest = key.dropFirst(prefixSize)
    let bundleIndex = lastBundleBefore(rest, trailer)
    if bundleIndex < 0 { return 0 }
    return lowerBound(rest, trailer, in: bundleIndex)
  }

  /// Returns the first row at or after (key, trailer) if it has this key, or nil.
  @inline(__always)
  func row(of key: ByteView, _ trailer: Trailer) -> Int? {
    let row = lowerBound(key, trailer)
    return row == rowCount || !hasKey(row, key) ? nil : row
  }

  /// Returns the last bundle whose first row is before (block prefix + rest, trailer), or -1 if there is none.
  @inline(__always)
  private func lastBundleBefore(_ rest: ByteView, _ trailer: Trailer) -> Int {
    let head = rest.head()
    var low = 0
    var high = bundleCount
    while low < high {
      let middle = (low &+ high) >> 1
      let other = self.head(middle)
      let isBefore: Bool
      if other != head {
        isBefore = other < head
      } else {
        isBefore = compareFirst(ofBundle: middle, rest, trailer) < 0
      }
      low = isBefore ? middle &+ 1 : low
      high = isBefore ? high : middle
    }
    return low &- 1
  }

  /// Compares the first row of a bundle with (block prefix + rest, trailer). The prefix and the first suffix are
  /// contiguous bytes.
  @inline(never)
  private func compareFirst(ofBundle index: Int, _ rest: ByteView, _ trailer: Trailer) -> Int {
    let bundle = bundle(index)
    let row = index << Block.bundleShift
    let first = unsafe ByteView(base: bundle.base, count: bundle.prefixSize &+ suffix(row, bundle).count)
    let order = first.compare(rest)
    return order != 0 ? order : Block.compare(self.trailer(row), trailer)
  }

  /// Returns the first row at or after the target in a bundle whose first row is before it, or the first row of the
  /// next bundle.
  @inline(__always)
  private func lowerBound(_ rest: ByteView, _ trailer: Trailer, in index: Int) -> Int {
    let bundle = bundle(index)
    let first = index << Block.bundleShift
    let end = rowCount &- first < Block.bundleSize ? rowCount : first &+ Block.bundleSize
    let shared = bundle.prefixSize < rest.count ? bundle.prefixSize : rest.count
    if shared > 0 {
      let order = unsafe Block.compareBytes(rest.base, bundle.base, shared)
      if order != 0 { return order < 0 ? first : end }
    }
    if rest.count < bundle.prefixSize { return first }
    let tail = rest.dropFirst(bundle.prefixSize)
    let head = tail.head()
    var low = first &+ 1
    var high = end
    while low < high {
      let middle = (low &+ high) >> 1
      let suffix = suffix(middle, bundle)
      let other = Block.head(suffix)
      let isBefore: Bool
      if other != head {
        isBefore = other < head
      } else {
        isBefore = compareTail(middle, suffix, tail, trailer) < 0
      }
      low = isBefore ? middle &+ 1 : low
      high = isBefore ? high : middle
    }
    return low
  }

  @inline(__always)
  private func compareTail(_ row: Int, _ suffix: ByteView, _ tail: ByteView, _ trailer: Trailer) -> Int {
    let shared = suffix.count < tail.count ? suffix.count : tail.count
    let order = unsafe Block.compareBytes(suffix.base, tail.base, shared)
    if order != 0 { return order }
    if suffix.count != tail.count { return suffix.count &- tail.count }
    return Block.compare(self.trailer(row), trailer)
  }

  /// Returns a negative number, zero or a positive number if the first trailer sorts before, equal to or after the
  /// second: the larger word comes first.
  @inline(__always)
  private static func compare(_ left: Trailer, _ right: Trailer) -> Int {
    left.word == right.word ? 0 : (left.word > right.word ? -1 : 1)
  }

  /// Returns `ByteView.head` of bytes inside a block, where eight bytes can always be read.
  @inline(__always)
  private static func head(_ suffix: ByteView) -> UInt64 {
    let word = unsafe UInt64(bigEndian: suffix.base.loadUnaligned(as: UInt64.self))
    if suffix.count >= 8 { return word }
    return word & ~(UInt64.max >> UInt64(truncatingIfNeeded: suffix.count &* 8))
  }

  /// Compares the key of a row with `key`. Returns a negative number, zero or a positive number.
  @inline(__always)
  func compareKey(_ row: Int, _ key: ByteView) -> Int {
    let order = comparePart(prefix, key)
    if order != 0 { return order }
    let bundle = bundle(row >> Block.bundleShift)
    let rest = key.dropFirst(prefixSize)
    let restOrder = comparePart(bundle.prefix, rest)
    if restOrder != 0 { return restOrder }
    return suffix(row, bundle).compare(rest.dropFirst(bundle.prefixSize))
  }

  /// Compares the first part of a row's key with the first bytes of `key`. Returns zero only if `key` begins with the
  /// part.
  @inline(__always)
  private func comparePart(_ part: ByteView, _ key: ByteView) -> Int {
    let shared = part.count < key.count ? part.count : key.count
    if shared > 0 {
      let order = unsafe Block.compareBytes(part.base, key.base, shared)
      if order != 0 { return order }
    }
    return part.count > key.count ? 1 : 0
  }

  /// Returns whether a row has exactly this key.
  @inline(__always)
  func hasKey(_ row: Int, _ key: ByteView) -> Bool {
    let bundle = bundle(row >> Block.bundleShift)
    let suffix = suffix(row, bundle)
    let before = prefixSize &+ bundle.prefixSize
    guard key.count == before &+ suffix.count else { return false }
    return unsafe Block.compareBytes(key.base, prefixBase, prefixSize) == 0
      && Block.compareBytes(key.base + prefixSize, bundle.base, bundle.prefixSize) == 0
      && Block.compareBytes(key.base + before, suffix.base, suffix.count) == 0
  }

  /// Compares two short byte ranges like `memcmp`, without a call.
  @inline(__always)
  private static func compareBytes(_ left: UnsafeRawPointer, _ right: UnsafeRawPointer, _ count: Int) -> Int {
    var offset = 0
    while count &- offset >= 8 {
      let first = unsafe UInt64(bigEndian: left.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
      let second = unsafe UInt64(bigEndian: right.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
      if first != second { return first < second ? -1 : 1 }
      offset &+= 8
    }
    let first = unsafe ByteView(base: left, count: count).head(from: offset)
    let second = unsafe ByteView(base: right, count: count).head(from: offset)
    return first == second ? 0 : (first < second ? -1 : 1)
  }

  /// Compares the internal key of a row with `target`.
  func compare(_ row: Int, _ target: InternalKey) -> Int {
    let order = compareKey(row, target.userKey)
    return order != 0 ? order : Block.compare(trailer(row), target.trailer)
  }
}
