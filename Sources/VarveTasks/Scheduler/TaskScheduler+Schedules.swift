public import Foundation
internal import Synchronization
internal import Varve

/// A schedule of the program: what is on disk of it is a `ScheduleRecord`.
struct RegisteredSchedule: Sendable {
  let name: String
  let expression: CronExpression
  let zone: TimeZone
  let rules: ScheduleRules
  let kind: String
  let version: UInt16
  let options: TaskOptions
  let payload: @Sendable (TaskSlot) throws -> [UInt8]
  /// All times up to this one were looked at, in milliseconds since 1970.
  var lastSlot: Int64 = 0

  func next(after time: Int64) -> Int64? {
    expression.next(after: WallTime.date(time), in: zone).map { WallTime.milliseconds($0) }
  }
}

extension TaskScheduler {
  // MARK: - For programs

  /// Enqueues a task at the times of an expression, as the clocks of a time zone show them: `payload` makes it, for its slot. To be called
  /// at each start of the program, before `start` or after it. Each slot has one task, whatever happens to the process; slots of a time
  /// in which nothing ran tasks are made up for as `rules` say. A schedule that is new begins with the next slot; one whose expression,
  /// zone or rules are others than before continues after its last slot.
  ///
  /// ```swift
  /// try scheduler.schedule("report", "0 6 * * MON", in: TimeZone(identifier: "Europe/Lisbon")!) { slot in
  ///   Report(week: slot.date)
  /// }
  /// ```
  /// A schedule that was registered once stays in the database, and does nothing while no program registers it; `unschedule` removes it.
  ///
  /// Throws `TaskError.invalidValue` for an expression that can't be read or never fits, for an empty name or one of more than 255 bytes,
  /// for options that a schedule can't have, which are `start`, `unique`, `dependsOn` and `group`, and for a name that is registered.
  public func schedule<Payload: TaskPayload>(
    _ name: String, _ expression: String, in zone: TimeZone = .gmt, rules: ScheduleRules = ScheduleRules(),
    options: TaskOptions = Payload.defaults, payload: @escaping @Sendable (TaskSlot) throws -> Payload
  ) throws {
    let expression = try CronExpression(expression)
    guard 1...255 ~= name.utf8.count else {
      throw TaskError.invalidValue("the name of a schedule has \(name.utf8.count) bytes, expected 1 to 255")
    }
    if options.start != .now || options.unique != nil || !options.dependsOn.isEmpty || options.group != nil {
      throw TaskError.invalidValue("schedule \"\(name)\": its tasks start with their slot, and alone")
    }
    if case .all(let count) = rules.missed, count < 1 {
      throw TaskError.invalidValue("schedule \"\(name)\": \(count) missed slots are made up for, expected 1 or more")
    }
    try TaskDraft.check(Payload.kind, [], options)
    let schedule = RegisteredSchedule(
      name: name, expression: expression, zone: zone, rules: rules, kind: Payload.kind, version: Payload.version,
      options: options, payload: { try Array(payload($0).encoded()) })
    let isRunning = try state.withLock { state in
      if state.schedules[name] != nil { throw TaskError.invalidValue("schedule \"\(name)\" is registered already") }
      state.schedules[name] = schedule
      return state.isRunning
    }
    // Those of a copy begin with its release.
    if isRunning, !dispatcher.areAllHeld {
      dispatcher.insert(
        TaskTimers.Entry(deadline: clock.continuousNow, wall: nil, suspending: nil, action: .schedule(name)))
      if let host = dispatcher.timerFired() { host.wake() }
    }
  }

  /// Removes a schedule: its tasks stay. Returns whether there was one.
  @discardableResult
  public func unschedule(_ name: String) async throws -> Bool {
    let wasRegistered = state.withLock { $0.schedules.removeValue(forKey: name) != nil }
    let wasStored = try await database.commitAside(label: "tasks: unschedule") { parts in
      let config = try TaskParts(parts).config
      guard try config.get(ConfigKeys.schedule(name)) != nil else { return false }
      try config.delete(ConfigKeys.schedule(name))
      return true
    }
    return wasRegistered || wasStored
  }

  // MARK: - Times

  func startSchedules() async throws {
    for name in state.withLock({ $0.schedules.keys.sorted() }) {
      try await store(name)
      wait(for: name)
    }
  }

  /// The schedule as the program says it, at the slot that the disk has.
  private func store(_ name: String) async throws {
    guard let schedule = state.withLock({ $0.schedules[name] }) else { return }
    let now = WallTime.milliseconds(clock.wallNow)
    let last = try await database.commitAside(label: "tasks: schedule") { parts in
      let config = try TaskParts(parts).config
      let key = ConfigKeys.schedule(name)
      let old = try config.get(key).map { try ScheduleRecord($0) }
      var record = ScheduleRecord(
        expression: schedule.expression.text, zone: schedule.zone.identifier, kind: schedule.kind,
        queue: schedule.options.queue.text, rules: schedule.rules, lastSlot: old?.lastSlot ?? now)
      record.lastTask = old?.lastTask
      if record != old { try config.put(key, record.bytes) }
      return record.lastSlot
    }
    state.withLock { $0.schedules[name]?.lastSlot = last }
  }

  /// The next slot of a schedule is waited for.
  private func wait(for name: String) {
    guard let schedule = state.withLock({ $0.schedules[name] }), let slot = schedule.next(after: schedule.lastSlot)
    else { return }
    let delay = WallTime.wait(from: clock.wallNow, to: slot)
    dispatcher.insert(
      TaskTimers.Entry(
        deadline: clock.continuousNow + max(delay, .zero), wall: slot, suspending: nil, action: .schedule(name)))
  }

  /// Slots that the scheduler goes through at once, at most.
  private static let slotMaximum = 10_000

  /// What is to be enqueued for schedules whose time may have come.
  func dueSlots(_ names: [String], _ now: Int64) -> [DueSlots] {
    var all: [DueSlots] = []
    for name in names {
      guard let schedule = state.withLock({ $0.schedules[name] }) else { continue }
      all.append(dueSlots(schedule, now))
    }
    return all
  }

  private func dueSlots(_ schedule: RegisteredSchedule, _ now: Int64) -> DueSlots {
    var due = DueSlots(schedule: schedule)
    // One that was registered after the start is read from disk first.
    if schedule.lastSlot == 0 {
      due.isNew = true
      return due
    }
    var slots: [Int64] = []
    var last = schedule.lastSlot
    while let slot = schedule.next(after: last), slot <= now, slots.count < Self.slotMaximum {
      slots.append(slot)
      last = slot
    }
    // A slot less than a minute ago that no other follows is on time.
    let onTime = slots.last.flatMap { $0 > now - 60_000 ? $0 : nil }
    let late = onTime == nil ? slots : Array(slots.dropLast())
    let oldest = schedule.rules.grace.map { now - $0.milliseconds } ?? .min
    let inGrace = late.filter { $0 >= oldest }
    let madeUp: ArraySlice<Int64> =
      switch schedule.rules.missed {
      case .skip: []
      case .latest: onTime == nil ? inGrace.suffix(1) : []
      case .all(let count): inGrace.suffix(count)
      }
    due.slots = madeUp.map { TaskSlot(schedule.name, $0, isLate: true) }
    if let onTime { due.slots.append(TaskSlot(schedule.name, onTime, isLate: false)) }
    due.missedCount = late.count - madeUp.count
    due.lastSlot = slots.last ?? schedule.lastSlot
    for slot in due.slots {
      do {
        due.payloads.append(try schedule.payload(slot))
      } catch {
        // The slot is left out, and the program's log says why.
        TaskLog.slot(logger, slot, error)
        due.payloads.append(nil)
      }
    }
    due.ids = due.slots.map { _ in dispatcher.takeIDs(1) }
    due.stamp = dispatcher.acknowledged.number
    if due.missedCount > 0, configuration.keptEvents.contains(.slotMissed) { due.eventNumber = takeEventNumbers(1) }
    return due
  }

  /// Slots are committed.
  func endSlots(_ all: [DueSlots]) {
    for due in all {
      let name = due.schedule.name
      if due.isNew {
        // The disk is read beside the loop, and the slot waited for then.
        Task.detached { [self] in
          do { try await store(name) } catch { return TaskLog.failed(logger, error) }
          wait(for: name)
          setAlarm()
        }
        continue
      }
      state.withLock { $0.schedules[name]?.lastSlot = due.lastSlot }
      if due.missedCount > 0 { hub.send([due.missed(WallTime.milliseconds(clock.wallNow))]) }
      wait(for: name)
    }
  }
}

/// The slots of a schedule that are enqueued in one commit.
struct DueSlots: Sendable {
  let schedule: RegisteredSchedule
  var slots: [TaskSlot] = []
  /// Nil: making it has failed.
  var payloads: [[UInt8]?] = []
  var ids: [(first: UInt64, last: UInt64?)] = []
  var lastSlot: Int64 = 0
  var missedCount = 0
  /// The last commit: tasks of a schedule stand after those of this one.
  var stamp: UInt64 = 0
  var eventNumber: UInt64?
  var isNew = false

  /// Writes the tasks and the cursor: both, or neither.
  func write(to changes: AsideChanges, now: Int64) throws {
    if isNew { return }
    let key = ConfigKeys.schedule(schedule.name)
    guard let value = try changes.parts.config.get(key) else { return }
    var record = try ScheduleRecord(value)
    // Another scheduler was faster, or the schedule is another one.
    guard record.lastSlot < lastSlot else { return }
    for ((slot, payload), id) in zip(zip(slots, payloads), ids) {
      guard let payload else { continue }
      if let last = id.last { try changes.parts.numbers.add(Int64(clamping: last), to: TaskNumbers.id) }
      let live = try record.lastTask.flatMap { try changes.parts.position(of: $0) == nil ? nil : $0 }
      if schedule.rules.overlap == .skip, live != nil { continue }
      let parent = schedule.rules.overlap == .queue ? live : nil
      // A queue that is drained takes no task: the slot is left out.
      let queue = try changes.add(schedule.options.queue)
      if queue.isDraining { continue }
      let task = TaskID(rawValue: id.first)
      try add(task, slot, payload, to: queue.number, after: parent, changes, now)
      record.lastTask = task
    }
    record.lastSlot = lastSlot
    try changes.parts.config.put(key, record.bytes)
    if let eventNumber { try TaskEventRecord.put(missed(now), eventNumber, to: changes.parts.events) }
  }

  private func add(
    _ id: TaskID, _ slot: TaskSlot, _ payload: [UInt8], to queue: UInt32, after parent: TaskID?,
    _ changes: AsideChanges, _ now: Int64
  ) throws {
    let options = schedule.options
    // No transaction has so many tasks, so that the number is given once.
    let ordinal = 1 << 31 | UInt32(truncatingIfNeeded: id.rawValue & 0x7FFF_FFFF)
    var position = TaskPosition(
      parent == nil ? .line : .blocked, queue: queue, priority: options.priority,
      sortKey: options.sortKey?.bytes ?? [], stamp: stamp, ordinal: ordinal)
    position.lane = LineID.lane(options.limitKey)
    var record = TaskRecord(
      id: id, progress: TaskProgress(parent == nil ? .ready : .blocked), position: position, enqueued: now,
      kind: schedule.kind, version: schedule.version, payload: payload, options)
    var extras = TaskExtras()
    extras.limitKey = options.limitKey
    extras.headers = options.headers
    extras.schedule = schedule.name
    extras.slot = WallTime.milliseconds(slot.date)
    extras.isLate = slot.isLate
    record.extras = extras
    try changes.add(record, after: parent)
  }

  func missed(_ now: Int64) -> TaskEvent {
    TaskEvent(
      .slotMissed, TaskID(rawValue: 0), schedule.name, schedule.options.queue, attempt: 0, now,
      "\(missedCount) times of the schedule were left out")
  }
}
