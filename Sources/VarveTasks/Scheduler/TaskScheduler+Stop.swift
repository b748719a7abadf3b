internal import Synchronization
internal import Varve

/// Stopping a scheduler.
///
/// A handler may stop the scheduler that runs it. The stop first ends all other attempts, and then lets the call of the
/// handler return. It ends when the end of this attempt is committed, too.
extension TaskScheduler {
  /// Stops the scheduler: no further task begins. Handlers have `drainTimeout` to return and are then cancelled.
  ///
  /// Tasks that are not finished run again at the next start, as if the attempt had not been made: those whose handlers
  /// throw, or return `.retry`, after they were cancelled. A handler that does not return within `abandonAfter` either
  /// is left running, and its task runs again beside it at the next start.
  ///
  /// When the method returns, the scheduler does not use the database any more, which can be closed. Handlers that were
  /// left running may still use it.
  ///
  /// If the database is closed without a stop, the handlers that run are not cancelled, and can't use it any more. Their
  /// tasks also run again at the next start, as if the attempts had not been made. If the process ends without a stop
  /// or a close, the next start counts a crash for each task that runs.
  ///
  /// In a handler, the method returns when all other attempts have ended, except those whose handlers also wait for a
  /// stop. The scheduler stops when the handler has returned and its outcome is stored: `Database.close()` in its
  /// asynchronous form waits for that, and the blocking form throws `.writerBusy` until then.
  ///
  /// The method has its full effect even if the caller's Swift task is cancelled.
  public func stop() async {
    if let run = ownRun { return await stop(in: run) }
    await Task.detached { [self] in await stop(draining: configuration.drainTimeout) }.value
  }

  /// The attempt whose handler runs the current code, or `nil` if no handler of this scheduler does.
  var ownRun: TaskRun? {
    guard let run = DatabaseWorker.call as? TaskRun, dispatcher.isOfHandler(run) else { return nil }
    return run
  }

  private func stop(in run: TaskRun) async {
    TaskLog.stops(logger, run)
    let isDelaying = dispatcher.worker.delayClose()
    Task.detached { [self] in
      await stop(draining: configuration.drainTimeout)
      if isDelaying { dispatcher.worker.endDelay() }
    }
    dispatcher.noteStopCaller(run)
    await withCheckedContinuation { continuation in
      let isOver = state.withLock { state in
        if !state.isRunning || state.waitsForStopCallers { return true }
        state.stopCallers.append(continuation)
        return false
      }
      if isOver { return continuation.resume() }
      // It may be the last one that a stop has waited for.
      noteIdle()
    }
  }

  func stop(draining limit: Duration) async { await turns.run { [self] in await stopNow(draining: limit) } }

  private func stopNow(draining limit: Duration) async {
    guard state.withLock({ $0.isRunning }) else { return resumeStopCallers() }
    closeInbox()
    _ = dispatcher.stop(leavingCallers: false)
    state.withLock { $0.leavesStopCallers = true }
    await endRuns(draining: limit, leavingCallers: true)
    // None of these returns before it is resumed.
    let hasCallers = dispatcher.hasStopCallers
    state.withLock { ($0.leavesStopCallers, $0.waitsForStopCallers) = (false, true) }
    resumeStopCallers()
    if hasCallers { await endRuns(draining: limit, leavingCallers: false) }
    try? await noteTime()
    alarm.set({ nil }, {})
    dispatcher.detach()
    state.withLock { ($0.isRunning, $0.waitsForStopCallers) = (false, false) }
    resumeStopCallers()
    await endInbox()
    await sideWork.close()
    resumeIdle()
  }

  private func resumeStopCallers() {
    let callers = state.withLock { state in
      defer { state.stopCallers = [] }
      return state.stopCallers
    }
    for caller in callers { caller.resume() }
  }

  /// Ends the attempts that run, or those whose handlers do not wait for a stop.
  private func endRuns(draining limit: Duration, leavingCallers: Bool) async {
    if limit > .zero { await waitForRuns(limit) }
    for run in dispatcher.stop(leavingCallers: leavingCallers) {
      run.state.withLock { $0.isInterrupted = true }
      run.state.withLock { $0.task }?.cancel()
    }
    await waitForRuns(configuration.abandonAfter)
    let left = dispatcher.workload(leavingCallers: leavingCallers).running
    if left == 0 { return }
    TaskLog.left(logger, left)
    let runs = dispatcher.stop(leavingCallers: leavingCallers)
    await interrupt(runs)
    await reportAbandoned(runs)
    if leavingCallers { dispatcher.abandonAll() }
  }

  /// Settles the attempts of handlers that do not return.
  ///
  /// When the method returns, their tasks are in line again, as if the attempts had not been made.
  private func interrupt(_ runs: [TaskRun]) async {
    let host = dispatcher.settle(runs.filter { $0.settle() }.map { TaskSettlement(run: $0, end: .interrupted) })
    state.withLock { $0.leavesHandlers = true }
    host?.wake()
    // The limit is by the system's clock, because the wait is for a commit.
    await waitForRuns(.seconds(10), SystemSchedulerClock())
    state.withLock { $0.leavesHandlers = false }
  }

  /// Returns when no handler runs and all attempts are settled, or after a time.
  private func waitForRuns(_ limit: Duration, _ other: (any SchedulerClock)? = nil) async {
    let clock = other ?? self.clock
    let deadline = clock.continuousNow + limit.clipped
    await withTaskGroup { group in
      group.addTask { await self.waitUntilIdle() }
      group.addTask { try? await clock.sleep(until: deadline) }
      await group.next()
      group.cancelAll()
    }
  }
}
