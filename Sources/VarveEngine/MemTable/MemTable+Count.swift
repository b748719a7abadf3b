/// Counting the entries between two keys.
extension MemTable {
  /// Returns the number of entries, of all versions, with keys from `lower` (included) up to `upper` (excluded; nil
  /// for no bound).
  ///
  /// The count is exact while nothing is inserted; concurrent insertions may or may not be counted. Safe from any
  /// thread, without a lock. Complexity: O(log n + leaves between), without reading the entries of those leaves.
  func entryCount(from lower: ByteView, to upper: ByteView?) -> Int {
    if let upper, upper.compare(lower) <= 0 { return 0 }
    let start = tree.firstEntry(atOrAfter: SearchKey(lower, Trailer(word: .max)))
    if start.isNone { return 0 }
    let end = upper.map { tree.firstEntry(atOrAfter: SearchKey($0, Trailer(word: .max))) } ?? .none
    var count = -start.index
    var offset = start.leaf
    while offset != 0 {
      if offset == end.leaf { return max(count + end.index, 0) }
      let leaf = tree.node(offset)
      let version = leaf.beginRead()
      let entryCount = leaf.count
      let right = leaf.links.right
      guard leaf.isUnchanged(since: version) else { continue }
      count += entryCount
      offset = right
    }
    return max(count, 0)
  }
}
