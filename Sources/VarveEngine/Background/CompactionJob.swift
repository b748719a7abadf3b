internal import Synchronization

/// Merges the inputs of a compaction into tables of its output level.
///
/// The keys are divided into parts of about equal size, one per thread. Each part merges its range, decides entry by
/// entry what stays (`CompactionIterator`), copies whole blocks if it may, and writes its own tables. The part that
/// ends last commits one edit for all parts, which deletes the inputs and adds the outputs.
///
/// A part that fails, or finds a dropped family or a closing engine, stops the others; all outputs are then removed,
/// unless the edit itself failed, which may count.
///
/// # Concurrency
/// `shared` is guarded by its mutex. No thread waits inside a job: the last part completes it.
final class CompactionJob: Sendable {
  /// The compaction, or `nil` after the end: a caller notified of the end may check that the files of the inputs are
  /// gone.
  private let work: Mutex<Compaction?>
  private let family: FamilyID
  private let background: BackgroundWork
  private let parts: [Part]
  private let snapshots: SnapshotIntervals
  private let shared: Mutex<Shared>
  private let isStopped = Atomic<Bool>(false)
  private let report: @Sendable (UInt64) -> Void
  private let eventReport: CompactionReport
  private let whenDone: @Sendable (Result<Void, EngineError>) -> Void

  /// A range of keys from `lower` up to but not including `upper`. A `lower` of `nil` means the first key, an `upper`
  /// of `nil` the end.
  private struct Part: Sendable {
    let lower: [UInt8]?
    let upper: [UInt8]?
  }

  private struct Shared: Sendable {
    var remaining: Int
    var outputs: [TableMetadata] = []
    var written: [FileNumber] = []
    var error: EngineError?
  }

  /// The number of entries between two checks of whether to stop.
  private static let entriesBetweenChecks = 1024

  init(
    _ compaction: Compaction, background: BackgroundWork, progress: @escaping @Sendable (UInt64) -> Void,
    whenDone: @escaping @Sendable (Result<Void, EngineError>) -> Void
  ) {
    work = Mutex(compaction)
    family = compaction.family
    self.background = background
    report = progress
    eventReport = CompactionReport(compaction, background)
    self.whenDone = whenDone
    let cuts = compaction.subcompactionBoundaries(count: background.executor.parallelism)
    parts = zip([nil] + cuts.map { Optional($0) }, cuts.map { Optional($0) } + [nil]).map { Part(lower: $0, upper: $1) }
    // The sequences are collected after the inputs were chosen. All entries of the inputs are visible, so the last
    // interval is settled.
    snapshots = SnapshotIntervals(background.snapshots.sequences { background.pipeline.visible })
    shared = Mutex(Shared(remaining: parts.count))
  }

  private var compaction: Compaction {
    // `complete` clears the work, after the last part.
    guard let compaction = work.withLock({ $0 }) else { fatalError("a compaction does not continue after its end") }
    return compaction
  }

  func start() {
    for part in parts { background.executor.submit("compaction", priority: .low) { [self] in run(part) } }
  }

  private func run(_ part: Part) {
    do throws(EngineError) { try merge(part) } catch {
      isStopped.store(true, ordering: .relaxed)
      shared.withLock { if $0.error == nil { $0.error = error } }
    }
    let isLast = shared.withLock { shared in
      shared.remaining -= 1
      return shared.remaining == 0
    }
    if isLast { complete() }
  }

  // MARK: - One part

  private func merge(_ part: Part) throws(EngineError) {
    let compaction = compaction
    guard let family = background.registry.find(family) else { throw Self.canceled }
    let tombstones = try tombstones(compaction)
    var entries = CompactionIterator(
      makeSource(compaction), snapshots: snapshots, deeper: DeeperKeys(compaction.older, in: compaction.range),
      zeroesSequences: compaction.isBottommost && compaction.outputLevel > 0, upper: part.upper,
      tombstones: tombstones.covering, merge: family.merge)
    if let lower = part.lower {
      try lower.withByteView { (lower) throws(EngineError) in try entries.seek(lower) }
    } else {
      try entries.seekToFirst()
    }
    var writer = unsafe PartWriter(
      job: self, family: family, level: compaction.outputLevel, tombstones: tombstones,
      shadows: ShadowEstimate(
        over: compaction.older, background.tree, openTableMaximum: background.plan.openTableCount),
      splitter: CompactionOutputSplitter(compaction),
      builderBytesMaximum: background.plan.builderBytesMaximum(threadCount: background.executor.parallelism),
      lower: part.lower)
    do throws(EngineError) {
      try copy(&entries, to: &writer)
      try writer.finish(before: part.upper)
    } catch {
      writer.discardOutput()
      throw error
    }
  }

  /// Returns the inputs as one merge: one run for each deeper level, and for each sublevel of level 0.
  private func makeSource(_ compaction: Compaction) -> MergingIterator<MergeSource> {
    var runs: [SortedRun] = []
    for input in compaction.inputs {
      if input.level == 0 {
        runs += LevelZero(input.tables.sorted(by: TableMetadata.isNewerFirst)).sublevels.reversed()
      } else {
        runs.append(SortedRun(input.tables))
      }
    }
    var merge = MergingIterator<MergeSource>(capacity: runs.count)
    let size = background.plan.readAheadSize(runCount: runs.count, threadCount: background.executor.parallelism)
    let buffers = ReadAhead.Options(size: size, account: background.tree.budget.account(.compaction))
    let opener = TableOpener(readers: background.tree, purpose: .compaction, buffers: buffers)
    for run in runs { merge.append(MergeSource(LevelIterator<TableIterator>(run, opener))) }
    return merge
  }

  /// Returns the range tombstones of all inputs.
  private func tombstones(_ compaction: Compaction) throws(EngineError) -> CompactionTombstones {
    let tables = compaction.inputTables.filter { $0.rangeTombstoneCount > 0 }
    if tables.isEmpty { return .none }
    var merge = RangeTombstoneMerge()
    for table in tables { merge.add(try background.tree.reader(table).rangeTombstones()) }
    return CompactionTombstones(merge, snapshots: snapshots, older: compaction.older)
  }

  private func copy(
    _ entries: inout CompactionIterator<MergeSource>, to writer: inout PartWriter
  ) throws(EngineError) {
    var untilCheck = Self.entriesBetweenChecks
    while entries.isValid {
      let builder = unsafe try writer.builder(for: entries.userKey)
      try unsafe builder.withGuaranteed { (builder) throws(EngineError) in try entries.move(into: builder) }
      untilCheck &-= 1
      if untilCheck == 0 {
        untilCheck = Self.entriesBetweenChecks
        try check()
        writer.reportProgress()
      }
    }
  }

  private static let canceled = EngineError(.canceled, "the compaction was given up")

  private func check() throws(EngineError) {
    if isStopped.load(ordering: .relaxed) || background.isClosing { throw Self.canceled }
    guard let family = background.registry.find(family), !family.isDropped else { throw Self.canceled }
  }

  /// The table that a part is writing.
  ///
  /// # Safety
  /// `builder` belongs to `output` and is released with it.
  @safe
  private struct PartWriter {
    let job: CompactionJob
    let family: FamilyState
    let level: Int
    let tombstones: CompactionTombstones
    /// The estimate of what the tombstones hide in tables that are not inputs.
    let shadows: ShadowEstimate
    var splitter: CompactionOutputSplitter
    let builderBytesMaximum: Int
    /// The lower bound of the next table's keys, or `nil` for the first key.
    var lower: [UInt8]?
    var output: TableOutput?
    /// The builder of `output`, stored separately, so that an entry costs no retain.
    var builder: Unmanaged<TableBuilder>?
    var reported: UInt64 = 0
    /// A Boolean value that indicates whether the builder takes about all the memory that it may.
    var isBuilderFull = false

    /// Returns the builder for the next key, of a new table if the splitter decides so. It is valid until the next
    /// call.
    @inline(__always)
    mutating func builder(for userKey: ByteView) throws(EngineError) -> Unmanaged<TableBuilder> {
      if let builder = unsafe builder {
        let size = unsafe builder.withGuaranteed { $0.endsWith(userKey) ? nil : $0.estimatedFileSize }
        guard let size, splitter.shouldSplit(before: userKey, currentSize: size) || isBuilderFull else {
          return unsafe builder
        }
        try finishOutput(before: userKey.bytes)
      } else {
        _ = splitter.shouldSplit(before: userKey, currentSize: 0)
      }
      let borrowed = unsafe Unmanaged.passUnretained(try begin().builder)
      unsafe builder = borrowed
      return unsafe borrowed
    }

    private mutating func begin() throws(EngineError) -> TableOutput {
      let output = try TableOutput(
        job.background, family, level: level, origin: .compaction)
      job.shared.withLock { $0.written.append(output.number) }
      self.output = output
      return output
    }

    /// Ends the last table. Remaining range tombstones get their own table, if necessary.
    mutating func finish(before upper: [UInt8]?) throws(EngineError) {
      if output == nil, tombstones.hasAny(from: lower, to: upper) { _ = try begin() }
      try finishOutput(before: upper)
    }

    /// Ends the table, whose keys are all before `upper`, with the range tombstones up to there.
    private mutating func finishOutput(before upper: [UInt8]?) throws(EngineError) {
      guard let output else { return }
      unsafe builder = nil
      reportProgress()
      tombstones.write(from: lower, to: upper, into: output.builder)
      lower = upper
      let table = try output.finish(shadows)
      self.output = nil
      reported = 0
      isBuilderFull = false
      job.shared.withLock { $0.outputs.append(table) }
    }

    mutating func discardOutput() {
      unsafe builder = nil
      output?.discard()
      output = nil
    }

    mutating func reportProgress() {
      guard let output else { return }
      let size = output.builder.estimatedFileSize
      if size > reported { job.report(size - reported) }
      reported = max(reported, size)
      output.updateCharge()
      // The limit leaves memory for the entries until the next check.
      let next = CompactionJob.entriesBetweenChecks * MemoryLayout<UInt64>.size
      isBuilderFull = output.builder.growingSize + next >= builderBytesMaximum
    }
  }

  // MARK: - All parts

  /// Installs the outputs, or removes them after a failure, and notifies the caller.
  ///
  /// This object may live slightly longer, in a thread that is returning from it, so it releases all tables before any
  /// caller is notified.
  private func complete() {
    let outcome = installOrRemove()
    work.withLock { $0 = nil }
    eventReport.end(outcome)
    whenDone(outcome)
  }

  private func installOrRemove() -> Result<Void, EngineError> {
    let result = shared.withLock { shared in
      defer { shared.outputs = [] }
      return shared
    }
    if let error = result.error {
      background.tree.removeTables(result.written)
      return .failure(error)
    }
    do throws(EngineError) {
      try install(result.outputs.sorted(by: TableMetadata.isSmallerFirst))
      return .success(())
    } catch {
      return .failure(error)
    }
  }

  private func install(_ outputs: [TableMetadata]) throws(EngineError) {
    let compaction = compaction
    if !outputs.isEmpty {
      do throws(EngineError) {
        try background.tree.requireEditSpace()
        try background.tree.environment.fileSystem.syncDirectory(background.tree.directory)
      } catch {
        background.tree.removeTables(outputs.map(\.number))
        throw error
      }
    }
    let dropped = try background.tree.commit(compaction.edit(outputs: outputs))
    if !dropped.isEmpty { throw Self.canceled }
    background.metrics.counters.addCompaction(
      into: compaction.outputLevel, read: compaction.inputSize, written: outputs.reduce(0) { $0 + $1.fileSize })
    eventReport.didWrite(outputs, level: compaction.outputLevel)
  }
}
