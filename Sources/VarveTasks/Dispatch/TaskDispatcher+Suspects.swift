internal import FutexLocks

/// Tasks that a process has died with: each begins its next attempt alone, so that another death shows which of them is
/// the cause. All methods are called with the dispatcher's lock held.
extension TaskDispatcher.State {
  /// The time for which such a task runs alone, for which it waits for others to end, and after it for which others may
  /// begin before the next such task.
  ///
  /// It is bounded because handlers may run for hours.
  static let aloneTime = Duration.seconds(10)

  /// Returns whether a task runs alone, so that no other one may begin.
  mutating func runsAlone(_ now: Duration) -> Bool {
    guard let suspect, suspect.hasBegun else { return false }
    if now < suspect.since + Self.aloneTime { return true }
    endAlone(now)
    return false
  }

  private mutating func endAlone(_ now: Duration) {
    suspect = nil
    othersEnd = now + Self.aloneTime
    setAloneTimer(othersEnd)
  }

  private mutating func setAloneTimer(_ end: Duration) {
    timers.insert(TaskTimers.Entry(deadline: end, wall: nil, suspending: nil, action: .suspect))
  }

  /// Lets a task begin that a process has died with, and returns `nil`, or returns the way in which the turn of its line
  /// ends because it has to wait.
  ///
  /// It begins when no other task runs. If others run for all of `aloneTime`, it begins beside them.
  mutating func waitAlone(_ id: TaskID, _ host: TaskDispatcher.Host) -> TurnEnd? {
    let now = host.clock.continuousNow
    if busyCount == 0 {
      // A read may have found its row again while it was set aside.
      aside[id] = nil
      suspect = TaskDispatcher.Suspect(id: id, since: now, hasBegun: true)
      setAloneTimer(now + Self.aloneTime)
      return nil
    }
    // The timer that was set with this time is kept until then.
    if now < othersEnd { return .postponed }
    guard let suspect, suspect.id == id else {
      suspect = TaskDispatcher.Suspect(id: id, since: now, hasBegun: false)
      setAloneTimer(now + Self.aloneTime)
      return .suspect
    }
    if now < suspect.since + Self.aloneTime { return .suspect }
    aside[id] = nil
    endAlone(now)
    return nil
  }

  /// Whether timers are needed for tasks of this kind.
  var needsAloneTimers: Bool {
    if suspect != nil || !postponed.isEmpty || !postponedTasks.isEmpty { return true }
    return othersEnd > .zero && host.map { $0.clock.continuousNow < othersEnd } ?? false
  }

  /// Lets the other tasks of a line overtake its first one, which a process has died with and which may not begin yet.
  /// Returns false if none may overtake it: then the line waits.
  mutating func setAside(_ entry: LineEntry, of line: TaskLine) -> Bool {
    if line.rules.isSerial || aside.count >= Self.asideMaximum { return false }
    aside[entry.id] = (line.id, entry)
    postponedTasks.append(entry.id)
    _ = line.popFirst()
    return true
  }

  /// Forgets that a task was set aside, because its row was removed.
  mutating func dropAside(_ id: TaskID, _ key: [UInt8]) {
    if let entry = aside[id]?.entry, entry.key == key { aside[id] = nil }
  }

  /// Takes tasks into account again that have to wait because a process has died with them.
  mutating func returnPostponed() {
    for id in postponed { if let line = lines[id] { enqueue(line) } }
    postponed = []
    let ids = postponedTasks
    postponedTasks = []
    for id in ids { if let (line, entry) = aside.removeValue(forKey: id) { insert(entry, line) } }
  }
}
