/// Seeks that spare children what newer ones have deleted: a table all of whose keys are under a range tombstone of a
/// memtable is not even opened.
extension MergingIterator where Child: ~Copyable {
  /// How many children, from the first one on, lie in memory: those that are cheap to look at first.
  var memoryChildCount: Int {
    for child in 0..<childCount where lowestKey(of: child) != nil { return child }
    return childCount
  }

  /// The first key that any child may have; nil if none has any. Children that lie in memory are moved to their first
  /// entry, the others stay where they are.
  mutating func findLowestKey() throws(EngineError) -> ByteView? {
    var lowest: ByteView?
    for child in 0..<childCount {
      guard let key = try firstKey(of: child) else { continue }
      if lowest.map({ key.compare($0) < 0 }) ?? true { lowest = key }
    }
    return lowest
  }

  private mutating func firstKey(of child: Int) throws(EngineError) -> ByteView? {
    if let key = lowestKey(of: child) { return key }
    return try firstKey(inMemory: child)
  }

  /// As `seek` to `target`, or to the first entry where that is nil; but children from `rank` on go to `end` at once:
  /// what they have before it is dead.
  ///
  /// Requires: neither is a view of this iterator.
  mutating func seek(_ target: InternalKey?, passing rank: Int, to end: InternalKey) throws(EngineError) {
    try seekEach { (child, number) throws(EngineError) in
      if number >= rank {
        try child.seek(end)
      } else if let target {
        try child.seek(target)
      } else {
        try child.seekToFirst()
      }
    }
  }
}
