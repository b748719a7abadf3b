internal import Varve

/// The slots of a schedule that are enqueued in one commit.
struct DueSlots: Sendable {
  let schedule: RegisteredSchedule
  var slots: [TaskSlot] = []
  /// The payload of each slot, or `nil` if making it has failed.
  var payloads: [[UInt8]?] = []
  var ids: [(first: UInt64, last: UInt64?)] = []
  var lastSlot: Int64 = 0
  /// The last of the slots that are made up for in further portions, or `nil` if none are.
  var portionsEnd: Int64?
  var missedCount = 0
  /// The number of the last acknowledged commit. In their subqueue, the tasks of the slots are after the tasks of that
  /// commit.
  var stamp: UInt64 = 0
  /// Whether the schedule itself must be stored, and no slots.
  var isNew = false

  /// Writes the tasks, and the last slot of the schedule, in the same commit. Returns the slots that have no task.
  func write(to changes: SchedulerChanges, now: Int64) throws -> MissedSlots {
    var missed = MissedSlots()
    let key = ConfigKeys.schedule(schedule.name)
    guard let value = try changes.parts.config.get(key) else { return missed }
    var record = try ScheduleRecord(value)
    // Another scheduler has processed the slots, or the schedule was replaced.
    guard record.lastSlot < lastSlot else { return missed }
    missed.passed = missedCount
    for ((slot, payload), id) in zip(zip(slots, payloads), ids) {
      guard let payload else {
        missed.failed += 1
        continue
      }
      if let last = id.last { try changes.parts.numbers.add(Int64(clamping: last), to: TaskNumbers.id) }
      let live = try record.lastTask.flatMap { try changes.parts.position(of: $0) == nil ? nil : $0 }
      if schedule.rules.overlap == .skip, live != nil {
        missed.overlapping += 1
        continue
      }
      let parent = schedule.rules.overlap == .queue ? live : nil
      // A queue that is being drained accepts no task, so the slot is skipped.
      let queue = try changes.add(schedule.options.queue)
      if queue.isDraining {
        missed.draining += 1
        continue
      }
      let task = TaskID(rawValue: id.first)
      try add(task, slot, payload, to: queue.number, after: parent, changes, now)
      record.lastTask = task
    }
    record.lastSlot = lastSlot
    try changes.parts.config.put(key, record.bytes)
    return missed
  }

  private func add(
    _ id: TaskID, _ slot: TaskSlot, _ payload: [UInt8], to queue: UInt32, after parent: TaskID?,
    _ changes: SchedulerChanges, _ now: Int64
  ) throws {
    let options = schedule.options
    // No transaction enqueues so many tasks, so no other task has this ordinal.
    let ordinal = 1 << 31 | UInt32(truncatingIfNeeded: id.rawValue & 0x7FFF_FFFF)
    var position = TaskPosition(
      parent == nil ? .queued : .blocked, queue: queue, priority: options.priority,
      sortKey: options.sortKey?.bytes ?? [], stamp: stamp, ordinal: ordinal)
    position.lane = SubqueueID.lane(options.limitKey)
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
}

/// The numbers of slots of a schedule that one commit leaves out, by the reason.
struct MissedSlots: Hashable, Sendable {
  /// Those that have passed, and that the rule for missed times leaves out.
  var passed = 0
  /// Those whose previous task had not ended, by the rule `Overlap.skip`.
  var overlapping = 0
  /// Those whose queue is drained.
  var draining = 0
  /// Those whose payload could not be made.
  var failed = 0

  /// Returns the event, or `nil` if no slot is left out.
  func event(_ schedule: RegisteredSchedule, _ now: Int64) -> TaskEvent? {
    let count = passed + overlapping + draining + failed
    if count == 0 { return nil }
    var detail = count == 1 ? "1 time of the schedule was left out" : "\(count) times of the schedule were left out"
    let reasons = [
      (overlapping, "because the task of an earlier time had not ended"), (draining, "because its queue is drained"),
      (failed, "because its task could not be made"),
    ]
    let texts = reasons.filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
    if !texts.isEmpty { detail += ": " + texts.joined(separator: ", ") }
    return TaskEvent(
      .slotMissed, TaskID(rawValue: 0), schedule.name, schedule.options.queue, attempt: 0, now, detail)
  }
}
