internal import Synchronization
internal import Varve

/// The operations that handlers call.
extension TaskScheduler: CompletingHost {
  func report(_ fraction: Double, _ note: String?, of run: TaskRun) {
    let (progress, now) = (HandlerProgress(fraction, note), clock.continuousNow)
    let isDue = run.state.withLock { state in
      state.progress = progress
      if state.isSettled { return false }
      if let last = state.progressWritten, now < last + .seconds(1) { return false }
      state.progressWritten = now
      return true
    }
    if !isDue { return }
    let (id, claim) = (run.id, run.claimKey)
    // Other processes read the progress from the database. If it can't be written, the next report may be.
    guard workGate.enter() else { return }
    Task.detached { [database, workGate] in
      defer { workGate.leave() }
      try? await database.commitIndependently(label: "tasks: progress") { parts in
        let parts = try TaskParts(parts)
        if try parts.live.get(claim) != nil { try parts.config.put(ConfigKeys.progress(id), progress.bytes) }
      }
    }
  }

  func keep(_ result: [UInt8], of run: TaskRun) throws {
    if result.count > TaskLimits.resultSize {
      throw TaskError.tooLarge(what: "a result", size: result.count, limit: TaskLimits.resultSize)
    }
    try requireLease(run)
    run.state.withLock { $0.result = result }
  }

  func group(of run: TaskRun) throws -> TaskGroupInfo? { try database.read { tx in try tx.taskGroup(run.id) } }

  var incarnation: UInt64 { dispatcher.incarnation }

  func renewLease(_ run: TaskRun) throws {
    try requireLease(run)
    _ = run.renewLease(clock)
  }

  func requireLease(_ run: TaskRun) throws {
    if run.state.withLock({ $0.isSettled }) { throw TaskError.leaseLost(run.id) }
  }

  func checkpoint(_ bytes: [UInt8], of run: TaskRun) async throws {
    if bytes.count > TaskLimits.checkpointSize {
      throw TaskError.tooLarge(what: "a checkpoint", size: bytes.count, limit: TaskLimits.checkpointSize)
    }
    try requireLease(run)
    await reach("checkpoint", isAfter: false, run)
    let (id, claim) = (run.id, run.claimKey)
    let last = run.state.withLock { $0.step }
    let isWritten = try await Self.shielded { [database] in
      try await database.commitIndependently(label: "tasks: checkpoint") { parts in
        let live = try TaskParts(parts).live
        if try live.get(claim) == nil { return false }
        if last > 0 { try live.delete(TaskKeys.step(id, last)) }
        try live.put(TaskKeys.step(id, last + 1), bytes)
        return true
      }
    }
    if !isWritten { throw TaskError.leaseLost(id) }
    run.state.withLock { state in
      state.step = last + 1
      state.checkpoint = bytes
    }
    await reach("checkpoint", isAfter: true, run)
  }

  /// Runs an operation that a handler may still perform after it was cancelled, so that what it has done so far is
  /// kept.
  private static func shielded<Result: Sendable>(
    _ body: @escaping @Sendable () async throws -> Result
  ) async throws -> Result {
    Task.isCancelled ? try await Task.detached { try await body() }.value : try await body()
  }

  func lastCheckpoint(of run: TaskRun) throws -> [UInt8]? {
    let (step, bytes) = run.state.withLock { ($0.step, $0.checkpoint) }
    if step == 0 || bytes != nil { return bytes }
    return try database.read { tx in try tx.tasks.parts.live.get(TaskKeys.step(run.id, step)) }
  }

  /// The maximum number of times that the transaction of `complete` is tried.
  private static let completeAttempts = 8

  /// Runs the transaction of `complete`, and runs it again if something that it read was meanwhile changed, or if it
  /// has waited in vain for a long transaction that has the writer.
  static func completing<Result: Sendable>(
    _ run: TaskRun, _ body: @Sendable () async throws -> Result
  ) async throws -> Result {
    for _ in 1..<completeAttempts {
      do { return try await body() } catch let error as DatabaseError where error.code == .conflict {
        await Task.yield()
      } catch let error as DatabaseError where error.code == .writerBusy {
        // A stop does not wait for the writer again.
        if run.state.withLock({ $0.isInterrupted || $0.isCancelling }) { throw error }
      }
    }
    return try await body()
  }

  func complete<Result: Sendable>(
    _ run: TaskRun, _ body: @escaping @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result {
    let isMine = run.state.withLock { state in
      // An earlier call within a transaction of the handler may have been rolled back with it.
      if state.isSettled || state.isCancelling || (state.isCompleting && !state.completesLater) { return false }
      state.isCompleting = true
      state.completesLater = false
      return true
    }
    if !isMine {
      // A task that is being cancelled still belongs to the attempt.
      if run.state.withLock({ $0.isSettled }) { recorder.noteRefusal(of: run) }
      throw TaskError.leaseLost(run.id)
    }
    await reach("complete", isAfter: false, run)
    do {
      let (database, now) = (database, WallTime.milliseconds(clock.wallNow))
      let durability: StorageDurability? = run.rules.strictDurableOrder ? .power : nil
      let result = try await Self.shielded {
        try await Self.completing(run) {
          try await database.write(durability: durability) { tx in
            let tasks = try tx.tasks
            tasks.completing = run.id
            defer { tasks.completing = nil }
            let result = try body(tx)
            let plan = try TaskPlan(Settlement(run: run, end: .outcome(.done)), run.rules, now: now, chance: 0)
            guard try tasks.write(plan.edit) else { throw TaskError.leaseLost(run.id) }
            try tasks.settle(run.id, as: .done)
            try self.keepDone(run, now, in: tx)
            // Within a transaction of the handler this write is a savepoint: the task is done if that one is committed.
            tx.onCommit { [self] in didComplete(run) }
            return result
          }
        }
      }
      run.state.withLock { state in
        if !state.isSettled { state.completesLater = true }
      }
      await reach("complete", isAfter: true, run)
      return result
    } catch {
      run.state.withLock { $0.isCompleting = false }
      if (error as? TaskError) == .leaseLost(run.id) { recorder.noteRefusal(of: run) }
      throw error
    }
  }

  private func didComplete(_ run: TaskRun) {
    run.state.withLock { state in
      state.isSettled = true
      state.isCompleted = true
      state.isCompleting = false
    }
    dispatcher.didSettle(run, nil, [], isDone: true)
    reportDone(run)
  }
}
