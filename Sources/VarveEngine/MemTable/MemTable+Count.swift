/// How many entries lie between two keys.
extension MemTable {
  /// Entries of keys from `lower` (included) up to `upper` (excluded; nil: to the end), all versions counted.
  /// Exact while nothing is inserted; entries that are inserted meanwhile count or not.
  ///
  /// Any thread, no lock. Complexity: O(log n + leaves between), without a look at the entries of those.
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
