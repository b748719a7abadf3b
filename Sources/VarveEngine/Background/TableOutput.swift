/// What flushes and compactions write tables with: the engine's background work, or, before there is any, the replay of
/// the log.
protocol TableMaker: Sendable {
  var tree: Tree { get }
  var options: EngineOptions { get }
  var plan: MemoryPlan { get }
  var executor: any BackgroundExecutor { get }
  var metrics: EngineMetrics { get }
  var picker: LeveledCompactionPicker { get }
}

/// A table that a flush or compaction writes: its file, its builder, and what becomes of them.
///
/// One job's. `write`, `finish` or `discard` ends it.
final class TableOutput {
  let number: FileNumber
  let builder: TableBuilder
  private let file: any File
  private let background: any TableMaker
  private let level: Int
  private let charge: MemoryCharge

  init(_ background: any TableMaker, _ family: FamilyState, level: Int, origin: TableOrigin) throws(EngineError) {
    self.background = background
    self.level = level
    number = background.tree.allocateFileNumber()
    file = try background.tree.environment.fileSystem.createFile(background.tree.path(.table(number)))
    var options = background.options.tableOptions(family.options, level: level, origin: origin)
    options.family = family.id
    options.familyName = family.name
    options.familyOptions = family.options.encoded
    options.bufferSize = background.plan.writeBufferSize(threadCount: background.executor.parallelism)
    builder = TableBuilder(
      file: file, number: number, tableID: background.tree.environment.random(), options: options)
    charge = MemoryCharge(builder.memorySize, to: background.tree.budget.account(.compaction))
  }

  /// Charges what the builder takes by now, and `more` that it is known to need.
  func updateCharge(expecting more: Int = 0) { charge.resize(to: builder.memorySize + more) }

  /// Writes the rest. The table is to be synced, and its directory, before anything names it.
  func write() throws(EngineError) -> WrittenTable {
    let summary = try builder.finish()
    return WrittenTable(metadata: TableMetadata(number: number, summary), level: level, file: file)
  }

  /// Writes the rest and syncs. The directory is the caller's to sync.
  func finish() throws(EngineError) -> TableMetadata {
    let table = try write()
    try WrittenTable.sync([table], background)
    return table.metadata
  }

  /// Gives up a file that no edit names.
  func discard() {
    file.close()
    background.tree.removeTables([number])
  }
}

/// A table whose bytes are all written, and may not survive a loss of power yet. It takes no memory but its file.
struct WrittenTable {
  let metadata: TableMetadata
  fileprivate let level: Int
  fileprivate let file: any File

  /// Syncs the files of tables and closes them. The directory is the caller's to sync.
  static func sync(_ tables: [WrittenTable], _ background: any TableMaker) throws(EngineError) {
    try background.tree.environment.fileSystem.sync(tables.map(\.file))
    for table in tables {
      table.file.close()
      background.metrics.events.emit(.tableCreated(.init(table.metadata, level: table.level)))
    }
  }

  func close() { file.close() }
}

extension TableMetadata {
  /// What a table says of itself.
  convenience init(number: FileNumber, _ summary: TableSummary) {
    let (smallest, largest) = (summary.smallestKey, summary.largestKey)
    var keys = ByteWriter(capacity: smallest.count + largest.count)
    keys.append(smallest)
    keys.append(largest)
    self.init(
      number: number, fileSize: summary.fileSize, tableID: summary.tableID,
      smallestKey: keys.view.slice(0, smallest.count), smallestTrailer: summary.smallestTrailer,
      largestKey: keys.view.dropFirst(smallest.count), largestTrailer: summary.largestTrailer,
      smallestSequence: summary.smallestSequence, largestSequence: summary.largestSequence,
      entryCount: summary.entryCount, tombstoneCount: summary.tombstoneCount,
      rangeTombstoneCount: summary.rangeTombstoneCount, rawSize: summary.rawSize)
  }
}

extension EngineOptions {
  func tableOptions(_ family: FamilyOptions, level: Int, origin: TableOrigin) -> TableOptions {
    var table = TableOptions()
    table.blockSize = blockSize
    let isLast = level == Limits.levelCount - 1
    table.compression = Compression(family.compression ?? (isLast ? lastLevelCompression : nil) ?? compression)
    table.bloomBitsPerKey = bloomBitsPerKey
    table.level = level
    table.origin = origin
    return table
  }
}
