internal import FutexLocks
internal import Synchronization

/// What a stop asks, and handlers that wait for one.
extension TaskDispatcher {
  /// Lets no more tasks begin. Returns the attempts that run, or those whose handlers do not wait for a stop.
  func stop(leavingCallers: Bool) -> [TaskRun] {
    state.withLock { state in
      state.isStopping = true
      return state.running.values.filter { !leavingCallers || !state.stopCallers.contains($0.key) }
    }
  }

  /// The number of attempts that have or wait for a worker, and whether there is work to do now.
  var workload: (running: Int, hasWork: Bool) { workload(leavingCallers: false) }

  /// Returns the number of attempts that have or wait for a worker, and whether there is work to do now, with or without
  /// the attempts whose handlers wait for a stop.
  func workload(leavingCallers: Bool) -> (running: Int, hasWork: Bool) {
    state.withLock { state in
      let runs = leavingCallers ? state.hasOtherRuns : !state.running.isEmpty
      return (
        state.busyCount - (leavingCallers ? state.stopCallers.count : 0),
        state.isPumping || !state.settlements.isEmpty || runs || !state.requests.isEmpty
      )
    }
  }

  // MARK: - Handlers that stop the scheduler

  /// Returns whether the handler of an attempt runs, and belongs to this dispatcher.
  func isOfHandler(_ run: TaskRun) -> Bool {
    state.withLock { $0.running[run.id] === run || $0.abandonable[run.key] === run }
  }

  /// Notes that the handler of an attempt waits for a stop.
  func noteStopCaller(_ run: TaskRun) {
    state.withLock { state in
      if state.isOfHost(run), !run.state.withLock({ $0.isReleased }) { state.stopCallers.insert(run.key) }
    }
  }

  /// Whether a handler waits for a stop.
  var hasStopCallers: Bool { state.withLock { !$0.stopCallers.isEmpty } }

  /// Releases the workers of all handlers that do not wait for a stop.
  func abandonAll() {
    state.withLock { state in
      for run in state.abandonable.values where !state.stopCallers.contains(run.key) { state.release(run) }
    }
  }
}

extension TaskDispatcher.State {
  /// Whether an attempt runs whose handler does not wait for a stop.
  var hasOtherRuns: Bool {
    running.count > stopCallers.count || running.values.contains { !stopCallers.contains($0.key) }
  }

  /// Whether all handlers that run wait for a stop. They may be none.
  var areAllStopCallers: Bool { busyCount == stopCallers.count }
}
