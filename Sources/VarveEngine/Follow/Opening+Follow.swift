/// Opens a database that another process may be writing. It creates, locks, syncs and changes no file.
extension Opening {
  /// Opens a read-only engine, and returns it with the object that keeps it up to date with the writer.
  func openReadOnly() throws(EngineError) -> (engine: Engine, following: Following) {
    _ = try findDatabase()
    let fileSystem = environment.fileSystem
    let tail = try ManifestTail(directory: path, fileSystem: fileSystem)
    let manifest = Manifest.following(
      directory: path, fileSystem: fileSystem, state: tail.state, number: tail.number)
    // A read-only engine has no background work.
    let executor = environment.makeExecutor(1)
    let metrics = EngineMetrics(clock: environment.clock)
    if let listener = options.listener { _ = metrics.events.add(listener) }
    let views = FollowedViews()
    let core: EngineCore
    do throws(EngineError) {
      core = try makeCore(
        manifest, files: [], lock: nil, executor: executor, metrics: metrics, views: views,
        reserve: SpaceReserve(directory: path, size: nil, environment))
    } catch {
      executor.shutDown()
      metrics.events.finish()
      throw error
    }
    // From here on the core releases all resources when it is deallocated.
    let following = Following(self, core, views, tail)
    try following.begin()
    return (Engine(core), following)
  }
}

extension Following {
  /// Runs the first step, and checks the log as recovery would, unless the step ended at a commit that the writer has
  /// announced.
  ///
  /// A follower regards the end of the readable log as the present end of the writer's log; recovery distinguishes a
  /// torn tail from damage to durable data. A writer's concurrent work may look like damage to it, so a verdict counts
  /// only if the state did not change between two checks.
  func begin() throws(EngineError) {
    var first: EngineError?
    do throws(EngineError) { _ = try catchUp() } catch {
      // The error is deferred, because recovery's verdict on the same log takes precedence.
      first = error
    }
    // A log that was read up to the writer's last commit is not damaged before it.
    if first == nil, hasReadAnnounced { return }
    // A log that can't be read fast enough can't be judged either.
    if let first, first.code == .busy { throw first }
    var verdict = try judge()
    for _ in 0..<Self.judgementMaximum {
      guard verdict.error != nil else { break }
      let next = try judge()
      if next == verdict { break }
      verdict = next
    }
    // A writer that is this busy is alive, and the next follower or recovery checks again.
    if let error = verdict.error, try judge() == verdict { throw error }
    if let first { throw first }
  }

  private static var judgementMaximum: Int { 3 }

  /// The error that recovery would report, and the state that it refers to.
  private struct Verdict: Equatable {
    let error: EngineError?
    let manifestChanges: Int
    let announced: SequenceNumber?
    let segment: FileNumber?

    static func == (left: Verdict, right: Verdict) -> Bool {
      left.manifestChanges == right.manifestChanges && left.announced == right.announced
        && left.segment == right.segment
        && left.error?.description == right.error?.description
    }
  }

  private func judge() throws(EngineError) -> Verdict {
    try betweenSteps { () throws(EngineError) in
      _ = try manifest.poll()
      let announced = page?.announced
      let segment = page?.segment
      var found: EngineError?
      do throws(EngineError) { try judgeLog() } catch { found = error }
      return Verdict(error: found, manifestChanges: manifest.changeCount, announced: announced, segment: segment)
    }
  }

  private func judgeLog() throws(EngineError) {
    let files = try fileSystem.list(opening.path).compactMap { FileName($0) }
    let state = manifest.state
    guard state.oldestLog.value != 0 else { return try opening.requireNoContent(files) }
    let recovery = LogRecovery(
      directory: opening.path, fileSystem: fileSystem, numbers: files.compactMap(\.logNumber), oldest: state.oldestLog,
      cuts: state.recoveryCuts)
    _ = try recovery.replay { (_, _) throws(EngineError) in }
  }
}

extension ManifestState {
  /// The positions where earlier recoveries cut the log.
  var recoveryCuts: [FileNumber: LogRecovery.Cut] {
    Dictionary(uniqueKeysWithValues: logCuts.map { ($0.segment, .init(lifeID: $0.lifeID, end: $0.endOffset)) })
  }
}
