/// A decoded index block, a partition or the root: rows of separators, and an entry for the block to which each row
/// points.
///
/// # Format
///
///     columns    the entries (`IndexColumns`)
///     rows       a block (`Block`) whose keys are the separators; its values are empty
///
/// A block counts its sections from its end, so the columns before it don't matter to it, and a search reads the
/// entry only of the row that it found.
///
/// # Safety
/// An index block is valid as long as the memory from which it was created.
struct IndexBlock {
  let separators: Block
  let entries: IndexColumns

  /// Creates an index block without rows.
  init() {
    self.init(validated: IndexBlock.empty)
  }

  private static let empty: ByteView = {
    let size = IndexColumns.headerSize + Block.headerSize
    let memory = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
    unsafe memory.initializeMemory(as: UInt8.self, repeating: 0, count: size)
    return unsafe ByteView(base: UnsafeRawPointer(memory), count: size)
  }()

  /// Creates an index block from a validated content.
  @inline(__always)
  init(validated content: ByteView) {
    entries = IndexColumns(content, rowCount: IndexBlock.rowCount(content))
    separators = Block(validated: content.dropFirst(entries.size))
  }

  @inline(__always)
  var rowCount: Int { separators.rowCount }

  @inline(__always)
  func lowerBound(_ key: ByteView, _ trailer: Trailer) -> Int { separators.lowerBound(key, trailer) }

  /// Returns the block to which the first row at or after (key, trailer) points, or nil if all rows are before it.
  @inline(__always)
  func handle(_ key: ByteView, _ trailer: Trailer) -> BlockHandle? {
    let row = lowerBound(key, trailer)
    return row == rowCount ? nil : entries.handle(row)
  }

  /// Throws `.corruption` without a position unless every access to rows and entries is inside the content.
  static func validate(_ content: ByteView) throws(EngineError) {
    guard content.count >= IndexColumns.headerSize + Block.headerSize else {
      throw .corruption(
        "index block has \(content.count) bytes; expected at least \(IndexColumns.headerSize + Block.headerSize)")
    }
    let rowCount = rowCount(content)
    // Each row takes at least a byte: if nothing else, a part of its bundle's head.
    guard rowCount <= content.count &* Block.bundleSize else {
      throw .corruption(
        "index block of \(content.count) bytes claims \(rowCount) rows; at most \(content.count &* Block.bundleSize) fit"
      )
    }
    try IndexColumns.validate(content, rowCount: rowCount)
    let size = IndexColumns(content, rowCount: rowCount).size
    let rows = content.dropFirst(size)
    try Block.validate(rows)
    let valuesSize = BlockLayout(rows).valuesSize
    guard valuesSize == 0 else { throw .corruption("index block has \(valuesSize) bytes of values; expected 0") }
  }

  @inline(__always)
  private static func rowCount(_ content: ByteView) -> Int {
    Int(content.load(content.count &- Block.headerSize, as: UInt32.self))
  }
}
