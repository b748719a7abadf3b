/// What an index says of a block without reading it: where it is and what it holds.
///
/// # Format
/// 40 bytes: handle (16), count of rows (4), count of tombstones (4), smallest sequence (7 bytes) and
/// flags (1), largest sequence (7 bytes) and zero (1). In a root of two levels the counts are those of
/// all data blocks below.
///
/// A cursor skips a block whose smallest sequence it does not see. A compaction copies a block whole
/// that no other input has keys within, that has no tombstones and nothing for a snapshot to keep.
struct IndexEntry: Hashable, Sendable {
  let handle: BlockHandle
  let rowCount: UInt32
  /// Deletes and single deletes.
  let tombstoneCount: UInt32
  private let smallestWord: UInt64
  private let largestWord: UInt64

  // On disk: never change.
  static let size = 40
  /// Two entries of the block have one user key.
  static let severalVersions: UInt8 = 1
  /// The first user key of the block is the last one of the block before.
  static let continuesBefore: UInt8 = 2
  /// The last user key of the block is the first one of the block behind.
  static let continuesAfter: UInt8 = 4

  init(
    handle: BlockHandle, rowCount: UInt32, tombstoneCount: UInt32, smallestSequence: SequenceNumber,
    largestSequence: SequenceNumber, flags: UInt8
  ) {
    self.handle = handle
    self.rowCount = rowCount
    self.tombstoneCount = tombstoneCount
    smallestWord = smallestSequence.value | UInt64(flags) << 56
    largestWord = largestSequence.value
  }

  /// Reads the value of an index row, which has 40 bytes.
  @inline(__always)
  init(_ view: ByteView) {
    handle = BlockHandle(view)
    rowCount = view.load(16, as: UInt32.self)
    tombstoneCount = view.load(20, as: UInt32.self)
    smallestWord = view.load(24, as: UInt64.self)
    largestWord = view.load(32, as: UInt64.self)
  }

  func append(to writer: inout ByteWriter) {
    handle.append(to: &writer)
    writer.append(integer: rowCount)
    writer.append(integer: tombstoneCount)
    writer.append(integer: smallestWord)
    writer.append(integer: largestWord)
  }

  @inline(__always)
  var smallestSequence: SequenceNumber { SequenceNumber(smallestWord & SequenceNumber.maximum.value) }
  @inline(__always)
  var largestSequence: SequenceNumber { SequenceNumber(largestWord & SequenceNumber.maximum.value) }
  var flags: UInt8 { UInt8(smallestWord >> 56) }

  /// Whether the block has more than one version of a key, or a key that goes on in a neighbour.
  var hasSharedKeys: Bool { flags != 0 }

  /// The same block at another place, in other company.
  func with(offset: UInt64, flags: UInt8) -> IndexEntry {
    IndexEntry(
      handle: BlockHandle(offset: offset, storedSize: handle.storedSize, contentSize: handle.contentSize),
      rowCount: rowCount, tombstoneCount: tombstoneCount, smallestSequence: smallestSequence,
      largestSequence: largestSequence, flags: flags)
  }
}

extension Block {
  /// The entry in a row of an index block, whose values were checked to have its size.
  @inline(__always)
  func indexEntry(_ row: Int) -> IndexEntry {
    // All values of an index have one size, so a row's value is where its number says.
    IndexEntry(unsafe ByteView(base: values + row &* IndexEntry.size, count: IndexEntry.size))
  }

  /// Throws unless every value is an index entry.
  static func validateIndex(_ content: ByteView) throws(EngineError) {
    try validate(content)
    let layout = BlockLayout(content)
    guard layout.rowCount == 0 || (layout.valueSizeMinimum == IndexEntry.size && layout.offsetWidth == 0) else {
      throw .corruption("an index with values that are no index entries")
    }
  }
}
