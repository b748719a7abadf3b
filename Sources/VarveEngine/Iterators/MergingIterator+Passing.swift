/// Seeks that skip what newer children have deleted in older ones. A table whose keys are all under a range tombstone
/// of a memtable is not opened.
extension MergingIterator where Child: ~Copyable {
  /// The number of children, from the first one on, that iterate over memory: those that are cheap to read first.
  var memoryChildCount: Int {
    for child in 0..<childCount where lowestKey(of: child) != nil { return child }
    return childCount
  }

  /// Returns a lower bound of the keys of all children, or nil if there are none. Children that iterate over memory
  /// are moved to their first entry; the others stay at their position.
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

  /// Seeks to `target`, or to the first entry if it is nil, but moves children from `rank` on directly to `end`:
  /// their entries before it are dead.
  ///
  /// Requires that neither key is a view of this iterator.
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
