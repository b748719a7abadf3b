internal import Synchronization
@_spi(Extensions) internal import Varve

/// The loop that begins and ends attempts. It pauses while there is no work.
///
/// The dispatcher knows, under one lock, which tasks run and which are next. The scheduler reads rows, makes commits
/// and runs handlers, without that lock. A task crosses between the two six times:
///
/// ```
///  scheduler                                      dispatcher
///
///  beginPump                ◀── 1 wake ─────────  wakingHost (TaskDispatcher)
///    ▼
///  pump                     ─── 2 takeWork ────▶  takeEnds, takeDue, takeClaims (TaskDispatcher+State):
///    │                                            take(from:) decides which task is next
///    ▼
///  read                     ───────────────────▶  refill, loadFirst, loadTimers (TaskDispatcher+Work)
///    ▼
///  write (+Commit): one commit of what ended, what is due and what begins
///    ▼
///  begin                    ─── 3 hand ────────▶  waitForClaim (TaskDispatcher+Work), if a worker waits
///    ▼
///  work, execute: the handler
///    ▼
///  work                     ─── 4 finish ──────▶  beginAhead (TaskDispatcher+State): take(from:) decides which task
///    │                                            is next, if its claim was made ahead; it begins without a commit
///    ▼
///  pump                     ─── 5 takeWork ────▶  takeEnds (TaskDispatcher+State)
///    ▼
///  write, finish (+Commit)  ─── 6 didSettle ───▶  end (TaskDispatcher+State): the subqueue continues
/// ```
/// Attempts that end while a commit is made are part of the next one, so commits grow with the load. A turn of the loop
/// handles at most 512 tasks, and reads at most 512 rows of them. Tasks whose claims were made ahead in an earlier turn
/// begin without a commit, when a worker becomes free.
extension TaskScheduler {
  /// Starts the loop. It is called when there is work, and only if no other loop takes it.
  ///
  /// `start` is the number of the start whose work it does.
  func beginPump(_ start: UInt32) {
    dispatcher.worker.runIfOpen { [self] database in
      await pump(database, start)
    } orElse: { [self] in
      // The remaining work is done after the database is opened again.
      resumeAll()
    }
  }

  private func resumeAll() {
    dispatcher.detach()
    state.withLock { $0.isRunning = false }
    hub.finish()
    noteIdle()
  }

  private func pump(_ database: Database, _ start: UInt32) async {
    // A stop that has waited in vain may have detached the scheduler meanwhile.
    if !dispatcher.worker.isStopping, dispatcher.isHost(start) {
      do { try await prune() } catch { if !dispatcher.worker.isStopping { SchedulerLog.failed(logger, error) } }
    }
    while true {
      // A close waits for this loop. It may fail, so the loop then begins again, and until then no work is taken.
      if dispatcher.worker.isStopping { return beginPump(start) }
      let before = dispatcher.endCount.load(ordering: .acquiring)
      let isDiskFull = database.acceptsOnlyDeletes
      if isDiskFull, !dispatcher.isDiskFull { SchedulerLog.diskFull(logger) }
      guard let work = dispatcher.takeWork(start, isDiskFull: isDiskFull) else { break }
      if work.hasOnlyBegun, dispatcher.waitForEnd(after: before, of: work.begun) {
        dispatcher.putBack(begun: work.begun)
        continue
      }
      for run in dispatcher.hand(work.starts, of: start) { begin(run) }
      for error in work.damaged { SchedulerLog.damaged(logger, error) }
      for run in work.awaited { SchedulerLog.awaited(logger, run) }
      if !work.unhandled.isEmpty { await reportUnhandled(work.unhandled) }
      await read(work, database, start)
      let count = dispatcher.endCount.load(ordering: .acquiring)
      await commit(work, database, start)
      _ = dispatcher.waitForEnd(after: count, of: work.claims)
    }
    setAlarm()
    noteIdle()
  }

  /// Sets the alarm to the next time at which something is due.
  func setAlarm() {
    alarm.set({ dispatcher.nextDeadline }) { [weak self] in
      if let self, let host = dispatcher.timerFired() { host.wake() }
    }
  }

  // MARK: - Reading

  /// Reads the rows that subqueues and timers need from disk.
  ///
  /// If reading the rows of one subqueue fails, those of the others are read all the same.
  private func read(_ work: TurnWork, _ database: Database, _ start: UInt32) async {
    if work.refills.isEmpty, work.loads.isEmpty, work.timersFrom == nil { return }
    do {
      let failures = try await readAcknowledged(database) { tx in
        let live = try tx.tasks.parts.live
        var failures: [any Error] = []
        // The subqueues that are left are read in the next turn.
        let others =
          work.loads.count + (work.timersFrom == nil ? 0 : Self.timerMaximum)
          + (work.ageing.isEmpty ? 0 : Self.agedRowMaximum)
        var left = TurnWork.batchMaximum - others
        let before = left
        for (number, (subqueue, from)) in work.refills.enumerated() {
          if left <= 0 {
            dispatcher.refill(subqueue, from: from, nil, next: nil, of: start)
            continue
          }
          // As many rows of each subqueue, so that all of them begin tasks.
          let share = max(Self.refillMinimum, left / (work.refills.count - number))
          let maximum = min(left, share, Subqueue.refillCount)
          do { left -= try refill(subqueue, from, live, of: start, atMost: maximum) } catch {
            dispatcher.refill(subqueue, from: from, nil, next: nil, of: start)
            failures.append(error)
          }
        }
        dispatcher.noteTurn(rows: work.loads.count + (work.timersFrom == nil ? 0 : Self.timerMaximum) + before - left)
        for (subqueue, key) in work.loads {
          do { try loadFirst(subqueue, key, live, of: start) } catch {
            dispatcher.failLoads([subqueue], of: start)
            failures.append(error)
          }
        }
        if let from = work.timersFrom {
          do { try loadTimers(from, live, of: start, atMost: Self.timerMaximum) } catch {
            dispatcher.loadTimers(nil, next: nil, of: start)
            failures.append(error)
          }
        }
        return failures
      }
      guard let failure = failures.first else { return }
      SchedulerLog.failed(logger, failure)
      if !dispatcher.worker.isStopping { try? await clock.sleep(until: clock.continuousNow + .seconds(1)) }
    } catch {
      SchedulerLog.failed(logger, error)
      for (subqueue, from) in work.refills { dispatcher.refill(subqueue, from: from, nil, next: nil, of: start) }
      if work.timersFrom != nil { dispatcher.loadTimers(nil, next: nil, of: start) }
      dispatcher.failLoads(work.loads.map(\.subqueue), of: start)
      if !dispatcher.worker.isStopping { try? await clock.sleep(until: clock.continuousNow + .seconds(1)) }
    }
  }

  /// Reads as of the commit that the subqueues in memory reflect, or a later one.
  ///
  /// It waits until readers see that commit, which is slightly after it was acknowledged.
  func readAcknowledged<Result>(_ database: Database, _ body: (ReadTransaction) throws -> Result) async throws -> Result
  {
    let needed = dispatcher.acknowledged
    func attempt() throws -> Result? {
      try database.read { tx in tx.version < needed ? nil : try body(tx) }
    }
    while true {
      if let result = try attempt() { return result }
      await Task.yield()
    }
  }

  /// The maximum number of rows of timers that a turn reads.
  private static let timerMaximum = 3 * TurnWork.share
  /// The number of rows of a subqueue that a turn reads if it reads some.
  private static let refillMinimum = 32

  /// Reads the next tasks of a subqueue. Returns the number of rows that were read.
  @discardableResult
  func refill(
    _ subqueue: SubqueueID, _ from: [UInt8], _ live: Part, of start: UInt32, atMost maximum: Int = Subqueue.refillCount
  ) throws -> Int {
    var range = StorageRange(prefix: subqueue.begin)
    range.lower = from
    var entries: [QueuedTask] = []
    var (next, last): ([UInt8]?, [UInt8]?) = (nil, nil)
    var damagedCount = 0
    func add(_ key: [UInt8], _ value: [UInt8]) -> Bool {
      if entries.count + damagedCount >= maximum {
        next = key
        return false
      }
      last = key
      do { entries.append(try QueuedTask(key: key, value: value)) } catch {
        SchedulerLog.damaged(logger, error)
        damagedCount += 1
      }
      return true
    }
    do {
      try live.forEach(in: range) { key, value in add(Self.copied(key), Self.copied(value)) }
    } catch let error where TaskDamage.isLasting(error) {
      // The tasks that can't be read are left out.
      if let last { range.lower = last + [0] }
      let queue = dispatcher.name(subqueue.queue)?.text ?? "\(subqueue.queue)"
      try TaskDamage.forEachReadable(in: range, of: live) {
        SchedulerLog.unreadable(logger, "tasks of queue \(queue)", $0)
      } _: { key, value in
        add(key, value)
      }
    }
    recorder.noteSkipped(damagedCount + dispatcher.refill(subqueue, from: from, entries, next: next, of: start))
    return entries.count + damagedCount
  }

  /// Reads the first task of a subqueue. One that can't be read is left out.
  private func loadFirst(_ subqueue: SubqueueID, _ key: [UInt8], _ live: Part, of start: UInt32) throws {
    var value: [UInt8]?
    do { value = try live.get(key) } catch let error where TaskDamage.isLasting(error) {
      let queue = dispatcher.name(subqueue.queue)?.text ?? "\(subqueue.queue)"
      SchedulerLog.unreadable(logger, "a task of queue \(queue)", error)
    }
    dispatcher.loadFirst(subqueue, key, value, of: start)
  }

  /// Reads the next timers of tasks.
  func loadTimers(
    _ from: [UInt8], _ live: Part, of start: UInt32, atMost maximum: Int = Timers.taskMaximum
  ) throws {
    var range = StorageRange(prefix: [TaskPosition.Kind.timed.rawValue])
    range.lower = from
    var timers: [TimedTask] = []
    var (next, last): ([UInt8]?, [UInt8]?) = (nil, nil)
    let (now, continuous, wallSpans) = (clock.wallNow, clock.continuousNow, dispatcher.wallSpans)
    func add(_ key: [UInt8], _ value: [UInt8]) -> Bool {
      if timers.count == maximum {
        next = key
        return false
      }
      last = key
      do {
        let record = try TaskRecord(value)
        // A task that waits for a delay waits no longer than that, even if the wall clock was set meanwhile.
        let due = record.position.due
        let left = wallSpans.remaining(of: record.delay, due: due, at: continuous.milliseconds) ?? record.delay
        let wait = min(WallTime.wait(from: now, to: due), .milliseconds(left))
        timers.append(
          TimedTask(
            id: record.id, key: key, due: due,
            deadline: record.delay > 0 ? continuous + wait : nil))
      } catch { SchedulerLog.damaged(logger, error) }
      return true
    }
    do {
      try live.forEach(in: range) { key, value in add(Self.copied(key), Self.copied(value)) }
    } catch let error where TaskDamage.isLasting(error) {
      if let last { range.lower = last + [0] }
      try TaskDamage.forEachReadable(in: range, of: live) {
        SchedulerLog.unreadable(logger, "tasks that wait for a time", $0)
      } _: { key, value in
        add(key, value)
      }
    }
    dispatcher.loadTimers(timers, next: next, of: start)
  }

  private static func copied(_ bytes: RawSpan) -> [UInt8] {
    // Safety: the bytes are copied while they are lent.
    unsafe bytes.withUnsafeBytes { unsafe [UInt8]($0) }
  }

  // MARK: - Handlers

  /// Starts the handler of an attempt whose claim is committed.
  ///
  /// The handler has a Swift task of its own, so that it can be abandoned if it does not return.
  func begin(_ run: TaskRun) {
    noteBegin(run)
    let task = Task.detached { [self] in await work(from: run) }
    let isCancelled = run.state.withLock { state in
      state.task = task
      return state.isCancelling || state.isInterrupted
    }
    if isCancelled { task.cancel() }
  }

  /// Starts the time limit and the lease of an attempt, and reports its beginning if no commit does.
  private func noteBegin(_ run: TaskRun) {
    if run.isAhead { reportBegun(run) }
    if run.renewLease(clock) {
      dispatcher.insert(run.leaseTimer(clock))
      setAlarm()
    }
    if run.record.timeout > 0 {
      let limit = Duration.milliseconds(run.record.timeout)
      dispatcher.insert(
        Timers.Entry(
          deadline: clock.continuousNow + limit, wall: nil, suspending: clock.suspendingNow + limit,
          action: .timeout(run.id, epoch: run.epoch)))
      setAlarm()
    }
  }

  /// Runs the handler of an attempt, and then those of claimed attempts that wait for a worker.
  private func work(from first: TaskRun) async {
    var run = first
    while true {
      let begun = clock.continuousNow
      let end = await execute(run)
      let nanoseconds = (clock.continuousNow - begun).secondCount * 1e9
      let (host, next, isRefused) = dispatcher.finish(run, end, after: nanoseconds)
      if isRefused { recorder.noteRefusal(of: run) }
      host?.wake()
      guard let next = next ?? dispatcher.waitForClaim(after: nanoseconds) else { return }
      // A Swift task that was cancelled, or may still be, must not run another attempt.
      let task = run.state.withLock { state in
        defer { state.task = nil }
        return state.task
      }
      guard !Task.isCancelled, let task else { return begin(next) }
      noteBegin(next)
      let isCancelled = next.state.withLock { state in
        state.task = task
        return state.isCancelling || state.isInterrupted
      }
      if isCancelled { task.cancel() }
      run = next
    }
  }

  private func execute(_ run: TaskRun) async -> AttemptEnd {
    // The attempt may have been cancelled since it was claimed.
    if run.state.withLock({ $0.isInterrupted }) { return .interrupted }
    if run.state.withLock({ $0.isCancelling }) { return .failure("cancelled before it began", nil) }
    var end: AttemptEnd
    await reach("handler", isAfter: false, run)
    do {
      let outcome = try await dispatcher.worker.run(run) { try await run.handler.body(run, self) }
      if case .park(let signals) = outcome { try TaskDraft.check(signals: signals) }
      end = .outcome(outcome)
      // The handler has not finished its task, as one that throws has not.
      if case .retry = outcome, run.state.withLock({ $0.isInterrupted }) { end = .interrupted }
    } catch let error as UnreadablePayload {
      end = .unreadable("the payload can't be read: \(error.cause)")
    } catch {
      if run.state.withLock({ $0.isInterrupted }) {
        end = .interrupted
      } else {
        end = Self.failure(error, run)
      }
    }
    await reach("handler", isAfter: true, run)
    let isCompleted = run.state.withLock { state in
      // The handler's transaction around `complete` was rolled back: the outcome counts.
      if state.completesLater, !state.isSettled { state.isCompleting = false }
      return state.isCompleted
    }
    if isCompleted, let text = end.unlikeDone { SchedulerLog.ignored(logger, run, text) }
    return end
  }

  /// Returns the end of an attempt whose handler has thrown an error. A decision to park the task is ignored if its
  /// signals can't be used.
  private static func failure(_ error: any Error, _ run: TaskRun) -> AttemptEnd {
    let failures = Int(run.record.progress.failures) + 1
    let decision = run.handler.options.onError?(error, failures)
    if case .park(let signals) = decision {
      do { try TaskDraft.check(signals: signals) } catch let refusal { return .failure("\(refusal): \(error)", nil) }
    }
    return .failure("\(error)", decision)
  }
}
