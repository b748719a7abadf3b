/// An object that holds the open reader of each table, and opens it when it is first needed.
protocol TableReaders: AnyObject, Sendable {
  /// Returns the reader of a table, retained: it stays open as long as the caller holds it.
  func reader(_ table: TableMetadata) throws(EngineError) -> TableReader
}

/// The parameters with which a level opens its tables: the source of the readers, the purpose of the reads, and which
/// blocks to skip.
///
/// The existential call is paid once for each table opened, never for each entry.
struct TableOpener: Sendable {
  let readers: any TableReaders
  let purpose: ReadPurpose
  /// The sequence number at or below which a block must have an entry. Other blocks are skipped without a read.
  var visible = SequenceNumber.maximum
  /// The buffers into which compactions read.
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
    // A block has a column of kinds only if they differ. Without it, the base holds the kind of all entries.
    return block.kinds.width == 0 && UInt8(truncatingIfNeeded: block.trailerBase) == EntryKind.put.rawValue
  }
}

extension LevelIterator: BlockSource where Table: BlockSource & ~Copyable {
  var startsPlainBlock: Bool { withCurrent { $0.startsPlainBlock } }

  func blockEnds(before limit: InternalKey) -> Bool { withCurrent { $0.blockEnds(before: limit) } }

  mutating func nextBlock() throws(EngineError) { try step { (table) throws(EngineError) in try table.nextBlock() } }
}
