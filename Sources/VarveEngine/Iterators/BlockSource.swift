/// A child of a merge that may stand at the start of a stored block, which a compaction could copy
/// whole instead of row by row.
protocol BlockSource: InternalIterator, ~Copyable {
  /// Whether the iterator stands on the first entry of a stored block that holds puts alone, each of a
  /// user key of its own, and none of a key that a neighbouring block of the table has too.
  var startsPlainBlock: Bool { get }

  /// Whether the last entry of the block that it stands in is before `limit`. Requires: valid.
  func blockEnds(before limit: InternalKey) -> Bool

  /// To the first entry behind the block that it stands in. Requires: valid.
  mutating func nextBlock() throws(EngineError)
}
