/// What an index says of a block without reading it: where it is and what it holds.
///
/// How it lies in the file, `IndexColumns` says. In a root of two levels the counts are those of all data
/// blocks below.
///
/// A cursor skips a block whose smallest sequence it does not see. A compaction copies a block whole
/// that no other input has keys within, that has no tombstones and nothing for a snapshot to keep.
struct IndexEntry: Hashable, Sendable {
  let handle: BlockHandle
  let rowCount: UInt32
  /// Deletes and single deletes.
  let tombstoneCount: UInt32
  let smallestSequence: SequenceNumber
  let largestSequence: SequenceNumber
  let flags: UInt8

  // Flags. On disk: never change.
  /// Two entries of the block have one user key.
  static let severalVersions: UInt8 = 1
  /// The first user key of the block is the last one of the block before.
  static let continuesBefore: UInt8 = 2
  /// The last user key of the block is the first one of the block after.
  static let continuesAfter: UInt8 = 4

  /// Whether the block has more than one version of a key, or a key that continues in a neighbour.
  var hasSharedKeys: Bool { flags != 0 }

  /// The same block at another position, in other company.
  func with(offset: UInt64, flags: UInt8) -> IndexEntry {
    IndexEntry(
      handle: BlockHandle(offset: offset, storedSize: handle.storedSize, contentSize: handle.contentSize),
      rowCount: rowCount, tombstoneCount: tombstoneCount, smallestSequence: smallestSequence,
      largestSequence: largestSequence, flags: flags)
  }
}
