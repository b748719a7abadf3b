/// The environment in which flushes and compactions write tables: the engine's background work, or, during open, the
/// replay of the log.
protocol TableMaker: Sendable {
  var tree: Tree { get }
  var options: EngineOptions { get }
  var plan: MemoryPlan { get }
  var executor: any BackgroundExecutor { get }
  var metrics: EngineMetrics { get }
  var picker: LeveledCompactionPicker { get }
}

/// A table that a flush or compaction writes: its file, its builder, and its completion.
///
/// Used by one job. `write`, `finish` or `discard` ends it.
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

  /// Charges the builder's current memory, and `more` that it is known to need.
  func updateCharge(expecting more: Int = 0) { charge.resize(to: builder.memorySize + more) }

  /// Writes the rest of the table. The table and its directory must be synced before any edit names it.
  ///
  /// `shadows` estimates what its tombstones hide.
  func write(_ shadows: ShadowEstimate? = nil) throws(EngineError) -> WrittenTable {
    let summary = try builder.finish { shadows?.size($0, $1) }
    return WrittenTable(metadata: TableMetadata(number: number, summary), level: level, file: file)
  }

  /// Writes the rest of the table and syncs it. The caller must sync the directory.
  func finish(_ shadows: ShadowEstimate? = nil) throws(EngineError) -> TableMetadata {
    let table = try write(shadows)
    try WrittenTable.sync([table], background)
    return table.metadata
  }

  /// Discards a file that no edit names.
  func discard() {
    file.close()
    background.tree.removeTables([number])
  }
}

/// A table whose bytes are all written, but may not survive a power loss yet. The value retains only its file.
struct WrittenTable {
  let metadata: TableMetadata
  fileprivate let level: Int
  fileprivate let file: any File

  /// Syncs the files of tables and closes them. The caller must sync the directory.
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
  /// Creates the metadata from the summary of a written table.
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
      rangeTombstoneCount: summary.rangeTombstoneCount, rawSize: summary.rawSize, hidden: summary.hidden,
      shadowedSize: summary.shadowedSize)
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
