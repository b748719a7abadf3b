internal import FutexLocks

/// Tasks that a process has died with: each begins its next attempt alone, so that another death shows which of them is
/// the cause. All methods are called with the dispatcher's lock held.
extension TaskDispatcher.State {
  /// Returns whether a task runs alone, so that no other one may begin.
  mutating func runsAlone(_ now: Duration) -> Bool {
    guard let suspect = holds.suspect, suspect.hasBegun else { return false }
    if now < suspect.since + Holds.aloneTime { return true }
    endAlone(now)
    return false
  }

  private mutating func endAlone(_ now: Duration) {
    holds.suspect = nil
    holds.othersEnd = now + Holds.aloneTime
    setAloneTimer(holds.othersEnd)
  }

  private mutating func setAloneTimer(_ end: Duration) {
    timers.insert(Timers.Entry(deadline: end, wall: nil, suspending: nil, action: .suspect))
  }

  /// Lets a task begin that a process has died with, and returns `nil`, or returns the way in which the turn of its
  /// subqueue ends because it has to wait.
  ///
  /// It begins when no other task runs. If others run for all of `Holds.aloneTime`, it begins while they run.
  mutating func waitAlone(_ id: TaskID, _ host: TaskDispatcher.Host) -> TurnEnd? {
    let now = host.clock.continuousNow
    if running.busyCount == 0 {
      holds.beginSuspect(id)
      holds.suspect = Holds.Suspect(id: id, since: now, hasBegun: true)
      setAloneTimer(now + Holds.aloneTime)
      return nil
    }
    // The timer that was set with this time is kept until then.
    if now < holds.othersEnd { return .postponed }
    guard let suspect = holds.suspect, suspect.id == id else {
      holds.suspect = Holds.Suspect(id: id, since: now, hasBegun: false)
      setAloneTimer(now + Holds.aloneTime)
      return .suspect
    }
    if now < suspect.since + Holds.aloneTime { return .suspect }
    holds.beginSuspect(id)
    endAlone(now)
    return nil
  }

  /// Takes tasks into account again that have to wait because a process has died with them.
  mutating func returnPostponed() {
    let (waiting, tasks) = holds.takePostponed()
    for id in waiting { if let subqueue = subqueues[id] { subqueues.enqueue(subqueue) } }
    for (subqueue, entry) in tasks { insert(entry, subqueue) }
  }
}
