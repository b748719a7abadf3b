public import Foundation
internal import Synchronization
internal import Varve

/// A schedule that the program has registered. Its stored form is a `ScheduleRecord`.
struct RegisteredSchedule: Sendable {
  let name: String
  let times: CronTimes
  let zone: TimeZone
  let rules: ScheduleRules
  let kind: String
  let version: UInt16
  let options: TaskOptions
  let payload: @Sendable (TaskSlot) throws -> [UInt8]
  /// The time from which on the slots of a schedule count that the database does not have yet, in milliseconds since
  /// 1970.
  var registered: Int64
  /// The time up to which slots have been processed, in milliseconds since 1970, or 0 if it has not been read from
  /// disk.
  var lastSlot: Int64 = 0
  /// The last of the slots that are made up for in portions, or `nil` if none are.
  var portionsEnd: Int64?
  /// The number of the registration. A schedule that is removed and registered again has another one.
  var number: UInt64 = 0

  /// The time in milliseconds since 1970 at which the first slot is due that has not been processed.
  var due: Int64? { times.next(after: lastSlot.flooredSecond).map { min($0 * 1_000, WallTime.latest) } }

  /// Returns whether a last slot is so long after the present time that the clock showed a wrong date then.
  ///
  /// A last slot that is at most a day ahead stays, so that no slot runs twice after the clock was set back.
  static func isWrong(_ lastSlot: Int64, at now: Int64) -> Bool { lastSlot > now + 86_400_000 }
}

/// The last slot of a schedule, as a commit has stored it.
struct StoredSlot: Sendable {
  let last: Int64
  /// The last of the slots that are made up for in further portions, or `nil` if none are.
  var portionsEnd: Int64?
  /// The last slot before, if it was at a wrong date.
  var wrong: Int64?
  /// The event that slots have no task, or `nil` if each has one.
  var missed: TaskEvent?
}

extension TaskScheduler {
  // MARK: - For programs

  /// Enqueues a task at the times that a cron expression specifies in a time zone. `payload` makes the payload of the
  /// task for a slot.
  ///
  /// Call this at each start of the program, before or after `start`. Each slot has one task, whatever happens to the
  /// process. Slots at which no scheduler ran tasks are made up for as `rules` say, if this expression was registered
  /// in this zone when they passed. A new schedule begins with the first slot after this call; in a copy of a database,
  /// with the first one after its tasks were released. A schedule whose expression or zone has changed begins in the
  /// same way, and the slots that the earlier expression has missed are not made up for. One whose rules, queue or
  /// payload have changed continues after its last slot. If that is more than a day after the present time, because the
  /// clock showed a wrong date, the schedule continues from now.
  ///
  /// ```swift
  /// try scheduler.schedule("report", "0 6 * * MON", in: TimeZone(identifier: "Europe/Lisbon")!) { slot in
  ///   Report(week: slot.date)
  /// }
  /// ```
  /// A schedule that was registered once stays in the database, also when the program does not register it any more.
  /// When a scheduler has run for a minute without it, it is inactive, and begins as a new one if it is registered
  /// again. `unschedule` removes it. To change the options of a schedule at run time, remove it first.
  ///
  /// Without `zone`, the times are those of GMT. `options` replace the defaults of the payload as a whole; a closure
  /// changes some of them.
  ///
  /// Throws `TaskError.invalidValue` for an expression that can't be parsed or never matches, for a name that is empty
  /// or has only white space, for options that a schedule can't have, which are `start`, `unique`, `dependsOn` and
  /// `group`, and for a name that is registered already; and `TaskError.tooLarge` for a name of more than 255 bytes.
  public func schedule<Payload: TaskPayload>(
    _ name: String, _ expression: String, in zone: TimeZone = .gmt, rules: ScheduleRules = ScheduleRules(),
    options: TaskOptions = Payload.defaults, payload: @escaping @Sendable (TaskSlot) throws -> Payload
  ) throws {
    let expression = try CronExpression(expression)
    try TaskDraft.check("the name of a schedule", name, atMost: 255)
    if options.start != .now || options.unique != nil || !options.dependsOn.isEmpty || options.group != nil {
      throw TaskError.invalidValue("schedule \"\(name)\": its tasks start with their slot, and alone")
    }
    if case .all(let count) = rules.missed, count < 1 {
      throw TaskError.invalidValue("schedule \"\(name)\": \(count) missed slots are made up for, expected 1 or more")
    }
    try TaskDraft.check(Payload.kind, [], options)
    let schedule = RegisteredSchedule(
      name: name, times: CronTimes(expression, LocalTime(zone)), zone: zone, rules: rules, kind: Payload.kind,
      version: Payload.version, options: options, payload: { try Array(payload($0).encoded()) },
      registered: WallTime.milliseconds(clock.wallNow))
    let isRunning = try state.withLock { state in
      if state.schedules[name] != nil { throw TaskError.invalidValue("schedule \"\(name)\" is registered already") }
      state.scheduleCount += 1
      state.schedules[name] = schedule
      state.schedules[name]?.number = state.scheduleCount
      return state.isRunning
    }
    // The schedules of a copy begin when its tasks are released.
    if isRunning, !dispatcher.areAllHeld { begin([name]) }
  }

  /// Removes a schedule, but not its tasks. Returns whether it existed.
  ///
  /// If the schedule is being stored at this time, the call waits for that first. A schedule that was removed may be
  /// registered again.
  @discardableResult
  public func unschedule(_ name: String) async throws -> Bool {
    // A stop waits for this call. If no scheduler runs, the call is only that of the program.
    let isCounted = workGate.enter()
    defer { if isCounted { workGate.leave() } }
    let wasRegistered = state.withLock { $0.schedules.removeValue(forKey: name) != nil }
    // A commit that is storing the schedule ends first.
    let wasStored = try await scheduleMutex.withLock { [database] in
      try await database.commitIndependently(label: "tasks: unschedule") { parts in
        let config = try TaskParts(parts).config
        guard try config.get(ConfigKeys.schedule(name)) != nil else { return false }
        try config.delete(ConfigKeys.schedule(name))
        return true
      }
    }
    return wasRegistered || wasStored
  }

  // MARK: - Times

  func startSchedules() async throws {
    try await declareSchedules()
    for name in state.withLock({ $0.schedules.keys.sorted() }) {
      do {
        try await scheduleMutex.withLock { [self] in try await store(name) }
        wait(for: name)
      } catch let error where TaskDamage.isLasting(error) {
        SchedulerLog.unreadable(logger, "schedule \(name)", error)
      }
    }
    await lookForUnregistered()
  }

  /// Stores which schedules the program has registered by now, unless that is stored already.
  private func declareSchedules() async throws {
    let value = ConfigKeys.declared(Set(state.withLock { $0.schedules.keys }))
    let stored = try await database.read { tx in try tx.tasks.config.get(ConfigKeys.declared) }
    if stored == value || (stored == nil && value.isEmpty) { return }
    try await database.commitIndependently(label: "tasks: schedules") { parts in
      try TaskParts(parts).config.put(ConfigKeys.declared, value)
    }
  }

  /// Leaves out the slots of a schedule that have passed, because their tasks can't be written.
  func skipSlots(of name: String) {
    guard let schedule = state.withLock({ $0.schedules[name] }) else { return }
    let now = WallTime.milliseconds(clock.wallNow)
    let last = RegisteredSchedule.isWrong(schedule.lastSlot, at: now) ? now : max(schedule.lastSlot, now)
    set(StoredSlot(last: last), for: schedule)
    wait(for: name)
  }

  private func store(_ name: String) async throws {
    guard let schedule = state.withLock({ $0.schedules[name] }) else { return }
    let now = WallTime.milliseconds(clock.wallNow)
    let stored = try await database.commitIndependently(label: "tasks: schedule") { parts in
      try Self.store(schedule, in: try TaskParts(parts).config, now)
    }
    note(stored, for: schedule)
  }

  /// Notes the last slot of a schedule that is committed.
  private func note(_ stored: StoredSlot, for schedule: RegisteredSchedule) {
    if let wrong = stored.wrong { SchedulerLog.wrongDate(logger, schedule.name, last: wrong, now: stored.last) }
    set(stored, for: schedule)
  }

  /// Lets the loop store the schedules again whose last slot is at a wrong date, as the present time shows.
  func correctSchedules() {
    // The schedules of a copy begin when its tasks are released.
    if dispatcher.areAllHeld { return }
    let now = WallTime.milliseconds(clock.wallNow)
    let names = state.withLock { state in
      state.schedules.values.filter { RegisteredSchedule.isWrong($0.lastSlot, at: now) }.map(\.name).sorted()
    }
    if !names.isEmpty { begin(names) }
  }

  /// Stores a schedule as the program has registered it, and returns its last slot: now if the one that it had is at a
  /// wrong date.
  ///
  /// The last slot of another expression, or of a schedule that was inactive, says nothing about the slots since then:
  /// the schedule begins when it is registered, but repeats no slot after the clock was set back.
  private static func store(_ schedule: RegisteredSchedule, in config: Part, _ now: Int64) throws -> StoredSlot {
    let key = ConfigKeys.schedule(schedule.name)
    let old = try config.get(key).map { try ScheduleRecord($0) }
    var last = old?.lastSlot ?? schedule.registered
    let isWrong = RegisteredSchedule.isWrong(last, at: now)
    if let old {
      let isSame = old.expression == schedule.times.expression.text && old.zone == schedule.zone.identifier
      if old.isInactive { last = max(last, now) } else if !isSame { last = max(last, schedule.registered) }
    }
    var record = ScheduleRecord(
      expression: schedule.times.expression.text, zone: schedule.zone.identifier, kind: schedule.kind,
      queue: schedule.options.queue.text, rules: schedule.rules, lastSlot: isWrong ? now : last)
    record.lastTask = old?.lastTask
    if record != old { try config.put(key, record.bytes) }
    let declared = try config.get(ConfigKeys.declared).map { try ConfigKeys.declared($0) } ?? []
    if !declared.contains(schedule.name) {
      try config.put(ConfigKeys.declared, ConfigKeys.declared(declared.union([schedule.name])))
    }
    return StoredSlot(last: record.lastSlot, wrong: isWrong ? last : nil)
  }

  /// Begins the schedules of a copy whose tasks were released.
  func beginSchedules() {
    let now = WallTime.milliseconds(clock.wallNow)
    let names = state.withLock { state in
      let names = state.schedules.keys.sorted()
      for name in names { state.schedules[name]?.registered = now }
      return names
    }
    begin(names)
    waitForRegistrations()
  }

  /// Lets the loop store some schedules, and wait for their slots.
  ///
  /// The loop does it, and no Swift task of its own, so that callers that wait until no work is left, and a stop, also
  /// wait for this.
  private func begin(_ names: [String]) {
    for name in names {
      dispatcher.insert(
        Timers.Entry(deadline: clock.continuousNow, wall: nil, suspending: nil, action: .schedule(name)))
    }
    if let host = dispatcher.timerFired() { host.wake() }
  }

  /// Sets the last slot of a schedule, unless it was removed, and may have been registered again, meanwhile.
  private func set(_ stored: StoredSlot, for schedule: RegisteredSchedule) {
    state.withLock { state in
      guard state.schedules[schedule.name]?.number == schedule.number else { return }
      state.schedules[schedule.name]?.lastSlot = stored.last
      state.schedules[schedule.name]?.portionsEnd = stored.portionsEnd
    }
  }

  /// Sets the timer for the next slot of a schedule.
  private func wait(for name: String) {
    guard let schedule = state.withLock({ $0.schedules[name] }), let slot = schedule.due else { return }
    let delay = WallTime.wait(from: clock.wallNow, to: slot)
    dispatcher.insert(
      Timers.Entry(
        deadline: clock.continuousNow + max(delay, .zero), wall: slot, suspending: nil, action: .schedule(name)))
  }

  /// Returns the slots, at most `maximum`, and the tasks to enqueue for them, of schedules whose time may have come,
  /// and the names of those that are left for the next turn.
  func dueSlots(
    _ names: [String], _ now: Int64, atMost maximum: Int = TurnWork.batchMaximum
  ) -> (due: [DueSlots], left: [String]) {
    var all: [DueSlots] = []
    var room = maximum
    for (index, name) in names.enumerated() {
      if room == 0 { return (all, Array(names[index...])) }
      guard let schedule = state.withLock({ $0.schedules[name] }) else { continue }
      let due = dueSlots(schedule, now, atMost: room)
      all.append(due)
      // A schedule with missed slots, whose days were searched, is the last one of its turn.
      room = due.missedCount > 0 ? 0 : room - due.slots.count
    }
    return (all, [])
  }

  private func dueSlots(_ schedule: RegisteredSchedule, _ now: Int64, atMost maximum: Int) -> DueSlots {
    var due = DueSlots(schedule: schedule)
    // A schedule that was registered after the start is first stored, or read from disk. One whose last slot is at a
    // wrong date is stored again.
    if schedule.lastSlot == 0 || RegisteredSchedule.isWrong(schedule.lastSlot, at: now) {
      due.isNew = true
      return due
    }
    let passed = PassedSlots(
      schedule.times, schedule.rules, after: schedule.lastSlot, portionsEnd: schedule.portionsEnd, now: now,
      atMost: maximum)
    due.slots = passed.late.map { TaskSlot(schedule.name, $0, isLate: true) }
    if let onTime = passed.onTime { due.slots.append(TaskSlot(schedule.name, onTime, isLate: false)) }
    due.missedCount = passed.missedCount
    due.lastSlot = passed.last
    due.portionsEnd = passed.portionsEnd
    for slot in due.slots {
      do {
        due.payloads.append(try schedule.payload(slot))
      } catch {
        // The slot is skipped, and the program's log has the reason.
        SchedulerLog.slot(logger, slot, error)
        due.payloads.append(nil)
      }
    }
    due.ids = due.slots.map { _ in dispatcher.takeIDs(1) }
    due.stamp = dispatcher.acknowledged.number
    return due
  }

  /// Writes slots of a schedule, or the schedule itself if it must be stored. Returns its last slot, or `nil` if the
  /// schedule was removed meanwhile.
  func write(_ due: DueSlots, to changes: SchedulerChanges, _ now: Int64) throws -> StoredSlot? {
    if due.isNew {
      let isRegistered = state.withLock { $0.schedules[due.schedule.name]?.number == due.schedule.number }
      return isRegistered ? try Self.store(due.schedule, in: changes.parts.config, now) : nil
    }
    let missed = try due.write(to: changes, now: now).event(due.schedule, now)
    if let missed, configuration.keptEvents.contains(.slotMissed) {
      try TaskEventRecord.put(missed, takeEventNumbers(1), to: changes.parts.events)
    }
    return StoredSlot(last: due.lastSlot, portionsEnd: due.portionsEnd, missed: missed)
  }

  /// Notes that slots are committed, which were the last ones of their schedules, and waits for the next ones, and for
  /// those of schedules that are left.
  func endSlots(_ all: [DueSlots], _ lastSlots: [StoredSlot?], left: [String]) {
    for name in left { wait(for: name) }
    for (due, stored) in zip(all, lastSlots) {
      guard let stored else { continue }
      note(stored, for: due.schedule)
      if let missed = stored.missed { hub.send([missed]) }
      wait(for: due.schedule.name)
    }
  }
}
