internal import Synchronization

/// Writes the tables of `Engine.ingest`: entries in ascending order of their keys.
///
/// ```swift
/// let writer = try engine.makeTableWriter(for: family)
/// for (key, value) in sorted { try writer.put(key, value) }
/// try engine.ingest(writer.finish(), into: family)
/// ```
///
/// Tables are files of the database that nothing names yet: those that are never ingested are removed with the last
/// reference to them, and after a crash by the next open. They have the size that compactions use on the last level, so
/// a writer of many entries makes several.
///
/// Complexity: an entry costs its encoding and its share of a write; memory is that of one table's buffers, index and
/// filter, which count in the budget. A writer belongs to one thread at a time.
public final class SortedTableWriter {
  private let engine: EngineCore
  private let family: FamilyState
  private var output: TableOutput?
  private var tables: [SortedTable] = []
  private var lastKey = ByteWriter(capacity: 64)
  private var isEmpty = true
  private var isEnded = false
  private var entriesUntilLook = SortedTableWriter.lookInterval

  /// The number of entries between two checks of a table's size.
  private static let lookInterval = 64

  init(_ engine: EngineCore, _ family: FamilyState) {
    self.engine = engine
    self.family = family
  }

  deinit {
    // The files of a closed engine belong to the next one, which removes unnamed files.
    if engine.isOpen { output?.discard() }
  }

  /// Adds a key after all others.
  ///
  /// Throws `.invalidArgument` if the key is not after the previous one, `.limitExceeded`, and `.closed`; nothing was
  /// added then. Throws errors of writing the file; the writer can't be used any more then.
  public func put(_ key: RawSpan, _ value: RawSpan) throws(EngineError) {
    try key.withByteView { (key) throws(EngineError) in
      try value.withByteView { (value) throws(EngineError) in try add(key, value) }
    }
  }

  /// Adds a key after all others; key and value are arrays.
  public func put(_ key: [UInt8], _ value: [UInt8]) throws(EngineError) {
    try unsafe put(key.span.bytes, value.span.bytes)
  }

  private func add(_ key: ByteView, _ value: ByteView) throws(EngineError) {
    try requireUsable()
    try BatchFormat.checkLimits(key: key, value: value, batchSize: 0)
    guard isEmpty || lastKey.view < key else {
      throw EngineError(
        .invalidArgument,
        "key \(key.printable) is not after the key before it, \(lastKey.view.printable): keys of a table must ascend")
    }
    do throws(EngineError) { try write(key, value) } catch {
      isEnded = true
      throw error
    }
    lastKey.removeAll()
    lastKey.append(key)
    isEmpty = false
  }

  private func write(_ key: ByteView, _ value: ByteView) throws(EngineError) {
    let output: TableOutput
    if let open = self.output {
      output = open
    } else {
      output = try TableOutput(engine.background, family, level: Limits.levelCount - 1, origin: .bulk)
      self.output = output
    }
    // Sequence zero is below every other sequence, so later writes to the family are newer.
    try output.builder.add(key, Trailer(.zero, .put), value)
    entriesUntilLook -= 1
    guard entriesUntilLook <= 0 || value.count > 64 << 10 else { return }
    entriesUntilLook = Self.lookInterval
    output.updateCharge()
    let plan = engine.background.plan
    let isFull =
      output.builder.estimatedFileSize >= plan.tableSizeMaximum
      || output.builder.growingSize >= plan.builderBytesMaximum(threadCount: engine.executor.parallelism)
    if isFull { try finishTable() }
  }

  private func finishTable() throws(EngineError) {
    guard let output else { return }
    // If this throws, `deinit` removes the file.
    let table = try output.finish()
    self.output = nil
    tables.append(SortedTable(engine, family, table))
  }

  /// Throws if the writer can't be used any more.
  ///
  /// After a close the directory may belong to another engine, so the writer must not write there.
  private func requireUsable() throws(EngineError) {
    try engine.requireOpen()
    guard !isEnded else {
      throw EngineError(.invalidArgument, "the writer of sorted tables was finished, or failed: make another one")
    }
  }

  /// Finishes and returns the tables, which are synced. The array is empty if no entry was added.
  ///
  /// Nothing can be added afterwards.
  public func finish() throws(EngineError) -> [SortedTable] {
    try requireUsable()
    isEnded = true
    try finishTable()
    defer { tables = [] }
    return tables
  }
}

/// A table that a `SortedTableWriter` has written, for `Engine.ingest`. Safe from any thread.
public final class SortedTable: Sendable {
  let engine: EngineCore
  let family: FamilyState
  let metadata: TableMetadata
  /// A Boolean value that indicates whether the table was passed to an ingestion, which then removes the file if it
  /// does not count.
  private let isTaken = Atomic<Bool>(false)

  init(_ engine: EngineCore, _ family: FamilyState, _ metadata: TableMetadata) {
    self.engine = engine
    self.family = family
    self.metadata = metadata
  }

  deinit {
    if !isTaken.load(ordering: .relaxed) { engine.removeUnnamedTable(metadata.number) }
  }

  /// Marks the table as used. Returns false if it was marked already.
  func take() -> Bool { !isTaken.exchange(true, ordering: .relaxed) }

  /// Undoes `take`, if the ingestion changed nothing.
  func giveBack() { isTaken.store(false, ordering: .relaxed) }

  /// The number of entries.
  public var entryCount: Int { Int(metadata.entryCount) }
  /// The size of the file in bytes.
  public var fileSize: UInt64 { metadata.fileSize }
  /// The first key.
  public var firstKey: [UInt8] { metadata.smallest.bytes }
  /// The last key.
  public var lastKey: [UInt8] { metadata.largest.bytes }
}
