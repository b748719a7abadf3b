internal import FutexLocks

/// Tasks that a process has died with: each begins its next attempt alone, so that another death shows which of them is
/// the cause. All methods are called with the dispatcher's lock held.
extension TaskDispatcher.State {
  /// Returns whether a task runs alone, so that no other one may begin.
  mutating func runsAlone(_ now: Duration) -> Bool {
    guard let suspect = holds.suspect, suspect.hasBegun else { return false }
    if now < suspect.since + TaskHolds.aloneTime { return true }
    endAlone(now)
    return false
  }

  private mutating func endAlone(_ now: Duration) {
    holds.suspect = nil
    holds.othersEnd = now + TaskHolds.aloneTime
    setAloneTimer(holds.othersEnd)
  }

  private mutating func setAloneTimer(_ end: Duration) {
    timers.insert(TaskTimers.Entry(deadline: end, wall: nil, suspending: nil, action: .suspect))
  }

  /// Lets a task begin that a process has died with, and returns `nil`, or returns the way in which the turn of its
  /// line ends because it has to wait.
  ///
  /// It begins when no other task runs. If others run for all of `TaskHolds.aloneTime`, it begins while they run.
  mutating func waitAlone(_ id: TaskID, _ host: TaskDispatcher.Host) -> TurnEnd? {
    let now = host.clock.continuousNow
    if running.busyCount == 0 {
      holds.beginSuspect(id)
      holds.suspect = TaskHolds.Suspect(id: id, since: now, hasBegun: true)
      setAloneTimer(now + TaskHolds.aloneTime)
      return nil
    }
    // The timer that was set with this time is kept until then.
    if now < holds.othersEnd { return .postponed }
    guard let suspect = holds.suspect, suspect.id == id else {
      holds.suspect = TaskHolds.Suspect(id: id, since: now, hasBegun: false)
      setAloneTimer(now + TaskHolds.aloneTime)
      return .suspect
    }
    if now < suspect.since + TaskHolds.aloneTime { return .suspect }
    holds.beginSuspect(id)
    endAlone(now)
    return nil
  }

  /// Takes tasks into account again that have to wait because a process has died with them.
  mutating func returnPostponed() {
    let (waiting, tasks) = holds.takePostponed()
    for id in waiting { if let line = lines[id] { lines.enqueue(line) } }
    for (line, entry) in tasks { insert(entry, line) }
  }
}
