internal import Synchronization

/// Builds an extension of many rows by tables, without the writer: the first build of an extension that catches up from
/// the feed.
///
/// ```
///  rows at a snapshot ─▶ hooks ─▶ Spill, in memory ─┬─ full ─▶ sorted ─▶ families of a run, and the record says so
///          ▲  next chunk, another snapshot │        │          (another thread; meanwhile the next spill is filled)
///          └───────────────────────────────┘        └─ all rows given ─▶ merged ─▶ tables ─▶ the empty families
///                                                                (two threads, a part each)
///                                                                                            │
///                                    ready ◀─ the feed's changes received (`CatchingUp`) ◀─ stale since the beginning
/// ```
/// From the beginning of the build on, the extension receives no changes, because the feed contains them. Rows may
/// therefore be read at several snapshots one after the other, and a row that changes before or after it was read is
/// delivered again in its current state.
///
/// # State on disk
/// While everything fits into memory, there is none: the record is in the state *building*, without a row. With the
/// first run it changes to *ingesting*, with the position in the feed at which the build began, the number of runs, and
/// the last row in them. Runs are families, which an ingestion makes durable before the record names them; runs that no
/// record names are dropped. If the process ends before the last commit, tables that are in the families of the parts
/// already are dropped with these families, and the runs are merged again.
///
/// # Limits
/// An extension may put to its parts, insert into counted ones, and add to counters. The entries of a counted part are
/// counted while they are merged. If it does anything else (`Spill.refusal`), or the feed
/// was trimmed, everything that was collected is discarded, and the extension is built by puts.
struct IngestedBuild {
  private let core: DatabaseCore
  private let registered: RegisteredExtension
  private let build: ExtensionBuild
  private let spill: Spill
  private let parts: PartSet
  private var position: FeedPosition
  private var runCount: UInt32 = 0
  private var watermark: [UInt8] = []
  /// The run that is being written.
  private var writing: WrittenRun?
  /// The memory of a written run, for reuse.
  private var emptied: [SpillRun]?

  private struct WrittenRun {
    let thread: BuildThread
    let runs: SealedRuns
    /// The mark for the record once the run is written.
    let mark: ExtensionRecord.IngestionMark
  }

  /// Runs to which no more entries are added.
  private struct SealedRuns: @unchecked Sendable {
    // Sendable: one thread at a time has the runs, and gives each of them to one other thread, whose end it waits for.
    let list: [SpillRun]
  }

  /// Creates the build. Returns `nil` if the extension has to be built by puts.
  init?(_ core: DatabaseCore, _ registered: RegisteredExtension, _ build: ExtensionBuild) throws {
    guard registered.traits.canBeIngested, core.backend.offersIngestion, core.feed.isOn else { return nil }
    self.core = core
    self.registered = registered
    self.build = build
    let record = registered.record
    let snapshot = try core.backend.snapshot()
    if case .ingesting(let mark) = record.state {
      (position, runCount, watermark) = (mark.position, mark.runCount, mark.watermark)
      guard try Self.hasFeed(core, position, snapshot) else { return nil }
    } else {
      guard record.state == .building(watermark: []),
        record.parts.allSatisfy({ !$0.isBuilt || $0.watermark == [] })
      else { return nil }
      position = FeedPosition(after: snapshot.version)
      guard try Self.rowCount(core, registered, snapshot) >= core.extensions.rowsForIngestion.load(ordering: .relaxed)
      else { return nil }
    }
    spill = Spill(registered)
    parts = record.parts.indices.reduce(into: []) { parts, index in
      if record.parts[index].isBuilt { parts.formUnion(PartSet(part: index)) }
    }
  }

  private static func rowCount(
    _ core: DatabaseCore, _ registered: RegisteredExtension, _ snapshot: any StorageSnapshot
  ) throws -> Int {
    let transaction = ReadTransaction(database: core, snapshot: snapshot)
    defer { transaction.end() }
    return try core.catalog.collections.reduce(0) { count, info in
      registered.traits.scope.contains(info.name) ? try count + transaction.count(info) : count
    }
  }

  /// Returns whether the feed still contains the changes since the beginning of the build. If it is damaged, it does
  /// not.
  private static func hasFeed(
    _ core: DatabaseCore, _ position: FeedPosition, _ snapshot: any StorageSnapshot
  ) throws -> Bool {
    do { return try CatchUpChanges(core.catalog, snapshot, at: position) != nil } catch let error as DatabaseError
      where error.code == .corruption
    { return false }
  }

  // MARK: - Steps

  /// Passes all rows to the extension, and leaves it to catch up. Returns false if it has to be built by puts;
  /// everything that was collected is discarded then.
  mutating func run() throws -> Bool {
    // The other thread must have ended in any case, because the families that it writes may be dropped.
    defer { try? writing?.thread.wait() }
    while let isLast = try give() {
      registered.reportProgress()
      if isLast { return try finish() }
      guard spill.byteCount >= bound else { continue }
      guard try Self.hasFeed(core, position, try core.backend.snapshot()) else { return false }
      try writeRun()
    }
    return false
  }

  private var bound: Int { core.extensions.spillSize.load(ordering: .relaxed) }

  /// Runs `body`. If it throws because the extension was unregistered, throws the error for that instead.
  private func whileRegistered<Result>(_ body: () throws -> Result) throws -> Result {
    do { return try body() } catch {
      try build.requireRegistered()
      throw error
    }
  }

  /// Passes the next rows. Returns true if they were the last, and `nil` if the extension does something that can't be
  /// collected.
  private mutating func give() throws -> Bool? {
    if core.isClosing { throw WriterQueue.closedError }
    try build.requireRegistered()
    let before = spill.mark
    let transaction = try WriteTransaction(
      database: core, snapshot: try core.backend.snapshot(), label: build.label, spill: spill)
    defer { transaction.end() }
    do {
      let chunk = try ThreadFrame.run(transaction) { transaction in try give(transaction) }
      if let refusal = spill.refusal {
        DatabaseLog.builtByPuts(name: registered.name, reason: refusal)
        return nil
      }
      watermark = chunk.reached ?? watermark
      var progress = registered.progress
      progress.rowsDone += chunk.count
      registered.set(progress)
      return chunk.isLast
    } catch {
      if let refusal = spill.refusal {
        DatabaseLog.builtByPuts(name: registered.name, reason: refusal)
        return nil
      }
      spill.cut(to: before)
      throw transaction.doom == nil ? error : ExtensionBuild.failure(error)
    }
  }

  private struct Chunk {
    var reached: [UInt8]?
    var count = 0
    var isLast = false
  }

  private func give(_ transaction: WriteTransaction) throws -> Chunk {
    var chunk = Chunk()
    let open = try transaction.dooming { try transaction.open(registered) }
    let infos = core.catalog.collections.filter { registered.traits.scope.contains($0.name) }
    var scan = BuildScan(infos, after: watermark, transaction)
    var last: (info: CollectionInfo, key: [UInt8])?
    while chunk.count < ExtensionBuild.chunkRows, spill.byteCount < bound, spill.refusal == nil {
      guard let (info, key, row) = try scan.next() else {
        chunk.isLast = true
        break
      }
      try transaction.give(row, key, info, to: open, parts: parts)
      last = (info, key)
      chunk.count += 1
    }
    chunk.reached = last.map { $0.info.scanKey($0.key) }
    try transaction.flushExtensions()
    try transaction.check()
    // The transaction must not contain anything else that a commit would do.
    let hasMore = !transaction.changes.isEmpty || transaction.custom != nil || !transaction.completions.isEmpty
    if hasMore || !transaction.appliedHandlers.isEmpty { _ = spill.refuse("wants more than its parts of a commit") }
    return chunk
  }

  // MARK: - Runs

  /// Begins to write the collected entries into families of a run, while the next rows are collected.
  private mutating func writeRun() throws {
    try settleRun()
    let record = registered.record
    let written = spill.runs.indices.filter { !spill.runs[$0].isEmpty }
    // The writer is held so that a concurrent unregistration drops these families, too.
    let families = try core.write(build.terms) { _ in
      try build.requireRegistered()
      return try written.map { part in
        let name = record.spillFamilyName(record.parts[part], run: runCount)
        return try core.backend.createFamily(name, options: .uncompressed)
      }
    }
    let runs = SealedRuns(list: spill.takeRuns(leaving: emptied))
    emptied = nil
    let thread = BuildThread(on: core.writerExecutor) { [core] in
      for (part, family) in zip(written, families) { try Self.write([], runs.list[part], into: family, core) { _ in } }
    }
    let mark = ExtensionRecord.IngestionMark(position: position, runCount: runCount + 1, watermark: watermark)
    writing = WrittenRun(thread: thread, runs: runs, mark: mark)
  }

  /// Waits until the families of the run are durable, and then adds the run to the record.
  private mutating func settleRun() throws {
    guard let run = writing else { return }
    writing = nil
    try whileRegistered { try run.thread.wait() }
    try core.write(build.terms) { transaction in
      try build.requireRegistered()
      var record = registered.record
      record.state = .ingesting(run.mark)
      try registered.save(record, transaction, as: build.role)
    }
    runCount = run.mark.runCount
    for run in run.runs.list { run.removeAll() }
    emptied = run.runs.list
  }

  /// Merges the entries of runs and memory for a part into a family. `note` receives each key.
  private static func write(
    _ runs: [StorageFamily], _ run: SpillRun, into family: StorageFamily, _ core: DatabaseCore,
    note: (RawSpan) -> Void
  ) throws {
    run.sort()
    let tables = try core.backend.beginIngestion(into: family)
    var merge = SpillMerge(runs, of: try core.backend.snapshot(), run)
    try merge.forEach {
      if core.isClosing { throw WriterQueue.closedError }
    } _: { key, value in
      try tables.put(key, value)
      note(key)
    }
    try tables.finish()
  }

  /// Merges the entries of a counted part, and puts their counts into the family of the counts.
  private static func writeCounted(
    _ runs: [StorageFamily], _ run: SpillRun, into family: StorageFamily, counts: StorageFamily, _ core: DatabaseCore
  ) throws {
    var maker = RunMaker()
    try write(runs, run, into: family, core) { maker.add($0) }
    let tables = try core.backend.beginIngestion(into: counts)
    for piece in maker.pieces {
      let (key, value) = (RunFormat.key(piece.separator), RunFormat.value(piece.count))
      try unsafe tables.put(key.span.bytes, value.span.bytes)
    }
    try tables.finish()
    core.runTrees.forget(family)
  }

  // MARK: - The end

  /// Puts the collected entries into the families of the parts, and updates the record. Returns false if the feed was
  /// trimmed.
  private mutating func finish() throws -> Bool {
    try settleRun()
    emptied = nil
    guard try Self.hasFeed(core, position, try core.backend.snapshot()) else { return false }
    let record = registered.record
    let runs = try runFamilies(record)
    let written = record.parts.indices.filter { !spill.runs[$0].isEmpty || !runs[$0].isEmpty }
    try dropUnfinished()
    // The writer is held for the same reason as in `writeRun`.
    let families = try core.write(build.terms) { _ in
      try build.requireRegistered()
      return try written.map { part in
        let companion = registered.traits.companions[part]
        return (try registered.makeFamily(part), try companion.map { try registered.makeFamily($0) })
      }
    }
    let memory = SealedRuns(list: written.map { spill.runs[$0] })
    let merged = written.map { runs[$0] }
    try whileRegistered {
      try BuildThread.forEach(below: written.count, on: core.writerExecutor) { [core] index in
        let (family, counts) = families[index]
        if let counts {
          try Self.writeCounted(merged[index], memory.list[index], into: family, counts: counts, core)
        } else {
          try Self.write(merged[index], memory.list[index], into: family, core) { _ in }
        }
      }
    }
    let failure = try core.write(.beforeDrop(registered.name, isOfBuild: true)) { transaction in
      try build.requireRegistered()
      var record = registered.record
      for index in record.parts.indices where parts.contains(PartSet(part: index)) {
        record.parts[index].watermark = nil
      }
      record.state = .stale(position)
      try registered.save(record, transaction, as: build.role)
      return build.role == .shadow ? SharedStateFailure.Box() : build.sharing(registered, transaction)
    }
    try build.dropDeadFamilies()
    if let error = failure.error { throw SharedStateFailure(cause: error) }
    return true
  }

  /// Returns the families of the runs by the index of the part, the earliest run first.
  private func runFamilies(_ record: ExtensionRecord) throws -> [[StorageFamily]] {
    if runCount == 0 { return record.parts.map { _ in [] } }
    var known: [String: StorageFamily] = [:]
    for family in try core.backend.families() { known[family.name] = family }
    return record.parts.map { part in
      // A run without a family for a part has no entries of it.
      (0..<runCount).compactMap { known[record.spillFamilyName(part, run: $0)] }
    }
  }

  /// Drops the families of parts that an earlier attempt in this session has written without reaching its commit.
  private func dropUnfinished() throws {
    guard !registered.families.allSatisfy({ $0 == nil }) else { return }
    // If the outcome of that commit is unknown, it may have happened; this write throws then.
    try core.write(.beforeDrop(registered.name, isOfBuild: true)) { transaction in
      try build.requireRegistered()
      try registered.save(registered.record, transaction, as: build.role)
    }
    registered.forgetFamilies()
    try build.dropDeadFamilies()
  }
}
