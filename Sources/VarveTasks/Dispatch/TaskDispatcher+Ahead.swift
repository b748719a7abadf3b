internal import FutexLocks
internal import Synchronization

/// Claims that are made before a worker is free, so that their tasks begin without a commit.
///
/// Such a claim changes neither the state of the task nor its position. Which task begins next is decided when a worker
/// is free, by the same rules as for all tasks. All methods are called with the dispatcher's lock held.
extension TaskDispatcher.State {
  /// The maximum number of claims that are made ahead for each worker.
  static let aheadMaximum = 15
  /// The time in nanoseconds for whose attempts claims are made ahead.
  static let aheadNanoseconds = 1e6

  /// Makes claims of the next tasks in line ahead, so that they begin without a commit: as many as the workers run in a
  /// millisecond.
  mutating func takeAhead(_ work: inout TaskWork, _ host: TaskDispatcher.Host) {
    if wantingClaims.isEmpty { return }
    let wanting = wantingClaims
    wantingClaims = []
    var room = host.workers * Self.aheadMaximum - ahead.count
    let share = max(1, room / wanting.count)
    for id in wanting {
      guard let line = lines[id] else { continue }
      line.wantsClaims = false
      // The tasks of a serial queue are claimed in the commits that end those before them. Those of a queue with a rate
      // are claimed together with their tokens.
      if !host.claimsAhead || line.rules.isSerial || line.family.hasRate || line.family.isPaused { continue }
      room -= makeAhead(of: line, atMost: min(share, room, work.left), &work, host)
    }
  }

  /// Makes claims of the next tasks of a line ahead, and returns their number.
  private mutating func makeAhead(
    of line: TaskLine, atMost maximum: Int, _ work: inout TaskWork, _ host: TaskDispatcher.Host
  ) -> Int {
    let workers = min(host.workers, line.runningMaximum)
    var (number, count) = (0, 0)
    while number < min(line.entryCount, workers * Self.aheadMaximum), count < maximum {
      let entry = line.entry(number)
      number += 1
      if claim(of: entry) != nil || held[entry.id] != nil || left[entry.id] != nil { continue }
      // All other tasks are claimed when they begin.
      guard !entry.isSuspect, ahead[entry.id] == nil, let value = entry.value,
        let stored = try? TaskRecord(value, stamp: entry.stamp), !stored.mayHaveBegun,
        let handler = handlers.find(stored.kind, line.name)
      else { continue }
      // The tasks after one that takes long wait for it.
      guard let duration = line.family.duration(of: handler) else { break }
      let wanted = workers * min(Self.aheadMaximum, Int(Self.aheadNanoseconds / duration))
      guard number <= wanted, let run = Self.run(stored, line, handler, host, isAhead: true) else { break }
      ahead[run.id] = TaskDispatcher.ClaimAhead(run: run)
      work.ahead.append(run)
      count += 1
    }
    return count
  }

  /// Drops the claim of a task that was made ahead, because the task's row was removed.
  mutating func dropAhead(_ id: TaskID, _ key: [UInt8]) {
    guard let claim = ahead[id], claim.run.stored.position.revision == LineEntry.revision(of: key) else { return }
    dropAhead(id)
  }

  /// Drops the claim of a task that was made ahead. A claim whose commit is being made is deleted after it.
  mutating func dropAhead(_ id: TaskID) {
    guard let claim = ahead.removeValue(forKey: id) else { return }
    if claim.isWritten { strayClaims.append(claim.run.claimKey) }
  }

  /// Takes the attempts of which a row is to note that they have begun: those that have begun before the last turn and
  /// still run, or all that run if the loop has nothing else to do.
  ///
  /// So the row costs nothing for handlers that are quick.
  mutating func takeUnnoted(_ work: inout TaskWork) {
    if unnoted.isEmpty { return }
    unnoted.removeAll { run, _ in run.state.withLock { $0.isSettled } }
    let areAll = work.isEmpty
    var rest: [(run: TaskRun, turn: UInt64)] = []
    for (run, turn) in unnoted {
      guard areAll || turn + 1 < self.turn, work.left > 0 else {
        rest.append((run, turn))
        continue
      }
      run.state.withLock { $0.isNoted = true }
      work.begun.append(run)
    }
    unnoted = rest
    work.hasOnlyBegun = areAll && !work.begun.isEmpty
  }
}
