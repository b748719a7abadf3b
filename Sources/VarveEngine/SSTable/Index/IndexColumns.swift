/// The entries of an index block, stored by column.
///
/// # Format
///
///     header     0    1   width of an offset, 0...7
///                1    1   width of a content size, 0...4
///                2    1   width of a count of rows, 0...4
///                3    1   width of a count of tombstones, 0...4
///                4    1   width of a smallest sequence, 0...7
///                5    1   width of a largest sequence, 0...7
///                6    1   width of the flags, 0 or 1
///                7    1   zero
///                8    8   offset of the first block
///                16   8   smallest of the smallest sequences
///                24   8   smallest of the largest sequences
///                32   4   smallest size in the file, trailer included, s
///                36   4   smallest content size
///                40   4   smallest count of rows
///                44   4   smallest count of tombstones
///     offsets    for each of the n entries a slot, and one more
///     sizes, rows, tombstones, smallest, largest, flags
///                n slots each
///
/// The blocks of an index block are contiguous in the file. So block i begins at first offset + i * s + slot i, and
/// ends, including its trailer, at the start of the next block; the slot after the last one gives the end of the last
/// block. The slots of the other columns hold the difference from the smallest value, and those of the flags hold the
/// flags. A width is the smallest number of bytes that holds the column's largest slot, so a column of equal values
/// takes no bytes.
///
/// Entries written one by one took 40 bytes each. A compacted table of 32 MiB has 16,699 blocks and 187 KB of
/// partitions: 11 bytes for each block, including its separator.
///
/// # Safety
/// The columns are valid as long as the memory from which they were created.
@safe
struct IndexColumns {
  // On disk: never change.
  static let headerSize = 48
  private static let widthMaxima: [Int] = [7, 4, 4, 4, 7, 7, 1, 0]

  private let base: UnsafeRawPointer
  /// The number of bytes of all sections.
  let size: Int
  private let firstOffset: UInt64
  private let fileSizeMinimum: UInt64
  private let offsets: BlockColumn
  private let contentSizes: BlockColumn
  private let rows: BlockColumn
  private let tombstones: BlockColumn
  private let smallest: BlockColumn
  private let largest: BlockColumn
  private let flags: BlockColumn

  /// Creates the columns of `rowCount` entries at the start of `view`. Only `validate` may do so with bytes that were
  /// not validated.
  @inline(__always)
  init(_ view: ByteView, rowCount: Int) {
    unsafe base = view.base
    let widths = view.load(0, as: UInt64.self)
    var start = IndexColumns.headerSize
    var shift: UInt64 = 0
    @inline(__always)
    func column(_ count: Int) -> BlockColumn {
      let width = Int(truncatingIfNeeded: (widths &>> shift) & 0xff)
      let column = unsafe BlockColumn(base: view.base + start, width: width)
      start &+= width &* count
      shift &+= 8
      return column
    }
    offsets = column(rowCount &+ 1)
    contentSizes = column(rowCount)
    rows = column(rowCount)
    tombstones = column(rowCount)
    smallest = column(rowCount)
    largest = column(rowCount)
    flags = column(rowCount)
    size = start
    firstOffset = view.load(8, as: UInt64.self)
    fileSizeMinimum = UInt64(view.load(32, as: UInt32.self))
  }

  @inline(__always)
  private func base<Value: FixedWidthInteger>(_ offset: Int, as type: Value.Type) -> Value {
    unsafe Value(littleEndian: base.loadUnaligned(fromByteOffset: offset, as: type))
  }

  /// Returns the offset at which a block begins, or, after the last block, at which that ends.
  @inline(__always)
  private func offset(_ row: Int) -> UInt64 {
    firstOffset &+ UInt64(truncatingIfNeeded: row) &* fileSizeMinimum &+ offsets[row]
  }

  @inline(__always)
  func handle(_ row: Int) -> BlockHandle {
    let offset = offset(row)
    let fileSize = self.offset(row &+ 1) &- offset
    return BlockHandle(
      offset: offset, storedSize: UInt32(truncatingIfNeeded: fileSize &- UInt64(BlockTrailer.size)),
      contentSize: base(36, as: UInt32.self) &+ UInt32(truncatingIfNeeded: contentSizes[row]))
  }

  /// Returns the offset of the first of `rowCount` blocks, and the size of all of them. The size is below 2^64: of
  /// fewer than 2^31 rows (`IndexBlock.validate`), none is above 2^32, and a slot is below 2^56.
  func locations(_ rowCount: Int) -> (offset: UInt64, size: UInt64) {
    (firstOffset, offset(rowCount) &- firstOffset)
  }

  /// Returns the smallest sequence number of the block to which a row points.
  @inline(__always)
  func smallestSequence(_ row: Int) -> SequenceNumber {
    SequenceNumber((base(16, as: UInt64.self) &+ smallest[row]) & SequenceNumber.maximum.value)
  }

  func entry(_ row: Int) -> IndexEntry {
    IndexEntry(
      handle: handle(row),
      rowCount: base(40, as: UInt32.self) &+ UInt32(truncatingIfNeeded: rows[row]),
      tombstoneCount: base(44, as: UInt32.self) &+ UInt32(truncatingIfNeeded: tombstones[row]),
      smallestSequence: smallestSequence(row),
      largestSequence: SequenceNumber(
        (base(24, as: UInt64.self) &+ largest[row]) & SequenceNumber.maximum.value),
      flags: UInt8(truncatingIfNeeded: flags[row]))
  }

  /// Throws `.corruption` without a position unless `view` begins with the columns of `rowCount` entries and every
  /// handle has a possible size. `TableReader.check` checks whether the block lies in the file.
  static func validate(_ view: ByteView, rowCount: Int) throws(EngineError) {
    guard view.count >= headerSize else {
      throw .corruption("index block has \(view.count) bytes; expected at least \(headerSize)")
    }
    for (column, maximum) in widthMaxima.enumerated() where Int(view[column]) > maximum {
      throw .corruption(
        "column \(column) of the index block is \(view[column]) bytes wide; at most \(maximum) are allowed")
    }
    let columns = IndexColumns(view, rowCount: rowCount)
    guard columns.size + Block.headerSize <= view.count else {
      throw .corruption("columns of the index block take \(columns.size) bytes; the block has \(view.count)")
    }
    var before = columns.offsets[0]
    guard before == 0 else { throw .corruption("first block of the index begins at offset \(before); expected 0") }
    for row in 0..<rowCount {
      let next = columns.offsets[row &+ 1]
      let size = columns.fileSizeMinimum &+ next &- before
      guard next >= before, size >= UInt64(BlockTrailer.size), size <= UInt64(UInt32.max) else {
        throw .corruption("blocks of the index overlap at row \(row): from \(before) to \(next)")
      }
      before = next
    }
  }
}

/// Builds the columns of one index block.
struct IndexColumnsBuilder: ~Copyable {
  private var entries: [IndexEntry] = []

  /// The offset of the first block, or 0 if there is none.
  var firstOffset: UInt64 { entries.first?.handle.offset ?? 0 }

  /// The approximate number of bytes that the columns will take.
  var estimatedSize: Int { IndexColumns.headerSize + entries.count * 10 }

  /// Adds the entry of the block that follows those added before, regardless of the offset at which these begin.
  mutating func add(_ entry: IndexEntry) { entries.append(entry) }

  mutating func removeAll() { entries.removeAll(keepingCapacity: true) }

  /// Appends the sections. The first block begins at `firstOffset`.
  func append(firstOffset: UInt64, to writer: inout ByteWriter) {
    let fileSize = entries.map { UInt64($0.handle.fileSize) }
    let fileSizeMinimum = fileSize.min() ?? 0
    var slots: [UInt64] = [0]
    for size in fileSize { slots.append(slots[slots.count - 1] + size - fileSizeMinimum) }
    let contentSizes = Column(entries.map { UInt64($0.handle.contentSize) })
    let rows = Column(entries.map { UInt64($0.rowCount) })
    let tombstones = Column(entries.map { UInt64($0.tombstoneCount) })
    let smallest = Column(entries.map { $0.smallestSequence.value })
    let largest = Column(entries.map { $0.largestSequence.value })
    let columns = [
      Column(slots), contentSizes, rows, tombstones, smallest, largest,
      Column(entries.map { UInt64($0.flags) }, above: 0),
    ]
    for column in columns { writer.append(integer: UInt8(column.width)) }
    writer.append(integer: UInt8(0))
    writer.append(integer: firstOffset)
    writer.append(integer: smallest.minimum)
    writer.append(integer: largest.minimum)
    writer.append(integer: UInt32(fileSizeMinimum))
    writer.append(integer: UInt32(contentSizes.minimum))
    writer.append(integer: UInt32(rows.minimum))
    writer.append(integer: UInt32(tombstones.minimum))
    for column in columns { column.append(to: &writer) }
  }

  private struct Column {
    let minimum: UInt64
    let width: Int
    private let values: [UInt64]

    init(_ values: [UInt64], above minimum: UInt64? = nil) {
      self.values = values
      self.minimum = minimum ?? values.min() ?? 0
      width = BlockColumn.width((values.max() ?? self.minimum) - self.minimum)
    }

    func append(to writer: inout ByteWriter) {
      for value in values {
        let slot = value - minimum
        for byte in 0..<width { writer.append(integer: UInt8(truncatingIfNeeded: slot >> UInt64(8 * byte))) }
      }
    }
  }
}
