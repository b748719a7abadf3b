/// Creates a checkpoint of an engine in use (`Engine.checkpoint`).
///
/// # Steps
/// 1. Flush commits that are not logged.
/// 2. Check that the target is free, and so is the name in its directory under which the checkpoint is built. A lock in
///    that directory excludes a second checkpoint to the same target, and an engine.
/// 3. Pin the log. Take the state of the MANIFEST and the end of the log together between two commits, which defines
///    the checkpoint's commit. The state keeps its tables from being removed.
/// 4. Link or copy tables, and copy the segments of the log up to that end.
/// 5. Write the MANIFEST: the state, and a cut of the log's last segment at the end. Then write CURRENT.
/// 6. Rename the directory.
///
/// Each step is durable before the next. Until the end of 6 the target is unchanged.
///
/// # Why the log is copied
/// A checkpoint of tables alone would need no copy, but would first flush every family, which stalls writers and leaves
/// many small tables. The copy is at most the bound of the log, sequential, and read from the page cache.
///
/// # Recovery of a copied segment
/// A copy is equivalent to its original: header, life id and records are the same bytes, so the chain of predecessors
/// is intact. The records of a sealed segment end where its successor states; the last segment ends at the cut that the
/// MANIFEST names, as after a clean close, so a missing byte there is damage and not a torn tail.
struct CheckpointJob {
  private let engine: EngineCore
  private let directory: DirectoryUnderConstruction
  private var workspace: String { directory.workspace }
  /// The file system of the database.
  private var source: any FileSystem { engine.environment.fileSystem }
  /// The file system of the checkpoint.
  private var target: any FileSystem { directory.fileSystem }
  private var pipeline: CommitPipeline { engine.pipeline }

  /// The number of times that the log may continue in a new segment after a failed sync before the checkpoint gives up.
  private static let attemptsMaximum = 4

  /// A Boolean value that indicates whether tables can be linked.
  private let isSameFileSystem: Bool

  /// Prepares a job whose target is found by the descriptor of its parent.
  init(engine: EngineCore, target: String, on fileSystem: (any FileSystem)?) throws(EngineError) {
    self.engine = engine
    isSameFileSystem = fileSystem == nil
    var found = fileSystem ?? engine.environment.fileSystem
    if let parent = Opening.parent(of: target), try found.attributes(parent)?.isDirectory == true {
      found = try found.anchored(at: parent)
    }
    directory = DirectoryUnderConstruction(target, purpose: "a checkpoint", suffix: "checkpoint", found)
  }

  /// The state of the database at one commit.
  private struct Cut {
    var state: ManifestState
    /// The segments to copy, oldest first, and the ends of their records.
    let segments: [(number: FileNumber, end: Int)]
    let sequence: SequenceNumber
    /// The generation of the log, which changes if the log is restarted.
    let generation: UInt64
  }

  func run() throws(EngineError) -> CheckpointReport {
    if isSameFileSystem { try directory.requireOutside(engine.path) }
    let holdsUnlogged = pipeline.lead { lead in engine.registry.all.contains { $0.state.holdsUnlogged(lead) } }
    if holdsUnlogged { try engine.background.flushAll() }
    try directory.prepare()
    do throws(EngineError) {
      let lock = try target.lock(workspace + "/" + FileName.lock.name)
      defer { lock.release() }
      let report = try build()
      try directory.install()
      return report
    } catch {
      directory.discard()
      throw error
    }
  }

  // MARK: - 3. The commit

  /// Takes the state and the end of the log between two commits. The log must be pinned.
  private func takeCut() throws(EngineError) -> Cut {
    try pipeline.lead { (lead) throws(EngineError) in
      pipeline.restartIfBroken(lead)
      if let cause = pipeline.poisonError {
        throw EngineError(.readOnly, "no checkpoint of an engine that takes no more writes", cause: cause)
      }
      let log = pipeline.log
      var state = engine.tree.state
      let last = log.current(lead)
      var edit = VersionEdit()
      // The edit includes sequences that left no entry.
      edit.lastSequence = pipeline.visible
      edit.incarnation = engine.environment.random()
      edit.logCuts = [.init(segment: last.number, lifeID: last.lifeID, endOffset: UInt64(last.tail))]
      let segments = log.segmentEnds.filter { $0.number >= state.oldestLog }
      try state.apply(edit)
      state.dropVolatileTables()
      return Cut(state: state, segments: segments, sequence: pipeline.visible, generation: log.generation)
    }
  }

  // MARK: - 4 and 5. The files

  private func build() throws(EngineError) -> CheckpointReport {
    let pin = pipeline.log.pin()
    defer {
      pipeline.log.unpin(pin)
      // This releases segments that a flush wanted to free meanwhile. One that can't be moved to the pool is an orphan.
      pipeline.log.release(before: engine.tree.state.oldestLog)
    }
    for _ in 0..<Self.attemptsMaximum {
      let cut = try takeCut()
      var report = CheckpointReport(sequence: cut.sequence)
      do throws(EngineError) { try copyLog(cut, &report) } catch {
        guard wasRestarted(since: cut) else { throw error }
      }
      // After a failed sync the pages of a segment can't be trusted, and the copy may have less than was written.
      if wasRestarted(since: cut) {
        try remove(logsOf: cut)
        continue
      }
      try withExtendedLifetime(cut.state) { (state) throws(EngineError) in
        try addTables(of: state, &report)
        try target.syncDirectory(workspace)
        let manifest = try Manifest.create(
          directory: workspace, fileSystem: target, state: state, random: engine.environment.random)
        manifest.close()
      }
      return report
    }
    throw EngineError(
      .inputOutput, "the log's syncs fail again and again; no checkpoint was made", cause: pipeline.log.syncError,
      file: engine.path)
  }

  private func wasRestarted(since cut: Cut) -> Bool {
    pipeline.log.isBroken || pipeline.log.generation != cut.generation
  }

  private func copyLog(_ cut: Cut, _ report: inout CheckpointReport) throws(EngineError) {
    for (number, end) in cut.segments {
      let name = FileName.log(number).name
      try source.copyFile(engine.path + "/" + name, to: workspace + "/" + name, on: target, size: UInt64(end))
      report.segmentsCopied += 1
      report.logBytesCopied += UInt64(end)
    }
  }

  private func remove(logsOf cut: Cut) throws(EngineError) {
    for (number, _) in cut.segments {
      let path = workspace + "/" + FileName.log(number).name
      if try target.attributes(path) != nil { try target.remove(path) }
    }
  }

  private func addTables(of state: ManifestState, _ report: inout CheckpointReport) throws(EngineError) {
    var canLink = isSameFileSystem
    for family in state.families.values.sorted(by: { $0.id < $1.id }) {
      for level in 0..<Limits.levelCount {
        for table in family.version.tables(level: level) {
          try TaskCancellation.check()
          if engine.background.endsRequests {
            throw EngineError(.canceled, "the engine closes")
          }
          let name = FileName.table(table.number).name
          if canLink { canLink = try link(name) }
          if canLink {
            report.tablesLinked += 1
            continue
          }
          try source.copyFile(
            engine.path + "/" + name, to: workspace + "/" + name, on: target, size: table.fileSize)
          report.tablesCopied += 1
          report.tableBytesCopied += table.fileSize
        }
      }
    }
  }

  /// Links a file. Returns false if the file system can't.
  private func link(_ name: String) throws(EngineError) -> Bool {
    do throws(EngineError) {
      try self.target.link(engine.path + "/" + name, to: workspace + "/" + name)
      return true
    } catch {
      switch error.code {
      // The codes stand for another device, no support of hard links, or too many links of one file. All are handled
      // alike.
      case .inputOutput, .permissionDenied: return false
      default: throw error
      }
    }
  }
}
