/// The information that an index has about a block: its location and a summary of its contents.
///
/// `IndexColumns` defines its encoding. In a root of two levels the counts are those of all data blocks below.
///
/// A cursor skips a block whose smallest sequence number is not visible to it. A compaction copies a block whole if
/// no other input has keys inside it, and if it has no tombstones and no entry that only a snapshot needs.
struct IndexEntry: Hashable, Sendable {
  let handle: BlockHandle
  let rowCount: UInt32
  /// The number of deletes and single deletes.
  let tombstoneCount: UInt32
  let smallestSequence: SequenceNumber
  let largestSequence: SequenceNumber
  let flags: UInt8

  // The flags. On disk: never change.
  /// The flag of a block in which two entries have the same user key.
  static let severalVersions: UInt8 = 1
  /// The flag of a block whose first user key is the last one of the previous block.
  static let continuesBefore: UInt8 = 2
  /// The flag of a block whose last user key is the first one of the next block.
  static let continuesAfter: UInt8 = 4

  /// Whether the block has more than one version of a key, or a key that continues in a neighboring block.
  var hasSharedKeys: Bool { flags != 0 }

  /// Returns the entry of the same block at another offset, next to other blocks.
  func with(offset: UInt64, flags: UInt8) -> IndexEntry {
    IndexEntry(
      handle: BlockHandle(offset: offset, storedSize: handle.storedSize, contentSize: handle.contentSize),
      rowCount: rowCount, tombstoneCount: tombstoneCount, smallestSequence: smallestSequence,
      largestSequence: largestSequence, flags: flags)
  }
}
