/// Who knows the open reader of each table, and opens it when it is first needed.
protocol TableReaders: AnyObject, Sendable {
  /// The reader of a table, counted: it stays open as long as the caller holds it.
  func reader(_ table: TableMetadata) throws(EngineError) -> TableReader
}

/// How a level opens its tables: through whom, what for, and what it needn't see.
///
/// The one existential call is paid per table opened, never per entry.
struct TableOpener: Sendable {
  let readers: any TableReaders
  let purpose: ReadPurpose
  /// Blocks with nothing at or below this sequence are left out unread.
  var visible = SequenceNumber.maximum
  /// What compactions read into.
  var buffers = ReadAhead.Options()

  func open(_ table: TableMetadata) throws(EngineError) -> TableIterator {
    try readers.reader(table).makeIterator(purpose, visible: visible, buffers: buffers)
  }
}

extension TableIterator: OpenableIterator {
  static func open(_ table: TableMetadata, _ opener: TableOpener) throws(EngineError) -> TableIterator {
    try opener.open(table)
  }
}

extension TableIterator: BlockSource {
  var startsPlainBlock: Bool {
    guard isAtBlockStart, storedBlock != nil, let entry = blockEntry, !entry.hasSharedKeys else { return false }
    // Kinds are a column only where they differ: without one the base holds the kind of all.
    return block.kinds.width == 0 && UInt8(truncatingIfNeeded: block.trailerBase) == EntryKind.put.rawValue
  }
}

extension LevelIterator: BlockSource where Table: BlockSource & ~Copyable {
  var startsPlainBlock: Bool { withCurrent { $0.startsPlainBlock } }

  func blockEnds(before limit: InternalKey) -> Bool { withCurrent { $0.blockEnds(before: limit) } }

  mutating func nextBlock() throws(EngineError) { try step { (table) throws(EngineError) in try table.nextBlock() } }
}
