public import Foundation
public import Varve

/// A schedule as the database stores it.
public struct TaskScheduleInfo: Hashable, Encodable, Sendable {
  /// The name of the schedule.
  public let name: String
  /// The cron expression.
  public let expression: String
  /// The identifier of the time zone.
  public let zone: String
  /// The rules for times that have passed without a scheduler, and for tasks that overlap.
  public let rules: ScheduleRules
  /// The kind of the payloads.
  public let kind: String
  /// The queue of the tasks.
  public let queue: QueueName
  /// The time up to which the slots of the schedule have been processed: for a schedule that has not fired yet, that of
  /// its registration.
  public let lastSlot: Date
  /// The last task that the schedule has enqueued, or `nil` if there is none.
  public let lastTask: TaskID?
  /// Whether the program has registered the schedule since its scheduler last started. If not, nothing fires it, and
  /// once the scheduler has run for a minute without it, it begins as a new one if it is registered again.
  public let isDeclared: Bool
  /// Whether a scheduler has run for a minute without the schedule.
  let isInactive: Bool

  /// Creates the description of a stored schedule. `declared` has the names of those that the program has registered,
  /// or is nil if no scheduler with a version that notes them has started.
  init(_ name: String, _ record: ScheduleRecord, declared: Set<String>?) {
    isDeclared = declared?.contains(name) ?? !record.isInactive
    self.name = name
    expression = record.expression
    zone = record.zone
    rules = record.rules
    kind = record.kind
    queue = QueueName(record.queue)
    lastSlot = WallTime.date(record.lastSlot)
    lastTask = record.lastTask
    isInactive = record.isInactive
  }

  /// Returns the next times after a date, in ascending order: `count` of them, or fewer if no more exist.
  ///
  /// Throws `TaskError.invalidValue` if the expression or the time zone is not known here.
  public func next(_ count: Int, after date: Date) throws -> [Date] {
    let expression = try CronExpression(expression)
    guard let zone = TimeZone(identifier: zone) else {
      throw TaskError.invalidValue("schedule \"\(name)\": the time zone \"\(zone)\" is not known here")
    }
    var dates: [Date] = []
    var last = date
    while dates.count < count, let next = expression.next(after: last, in: zone) {
      dates.append(next)
      last = next
    }
    return dates
  }
}

extension ReadTransaction {
  /// Returns the schedules that programs have registered, ordered by name.
  public func taskSchedules() throws -> [TaskScheduleInfo] {
    var schedules: [TaskScheduleInfo] = []
    let declared = try tasks.config.get(ConfigKeys.declared).map { try ConfigKeys.declared($0) }
    var cursor = try tasks.config.cursor(StorageRange(prefix: [ConfigKeys.schedule]))
    while let (key, value) = try cursor.next() {
      let name = String(decoding: key.dropFirst(), as: UTF8.self)
      schedules.append(TaskScheduleInfo(name, try ScheduleRecord(value), declared: declared))
    }
    return schedules
  }

  /// Returns the events that the database has kept after a number, the oldest first, each with its number.
  ///
  /// `TaskScheduler.Configuration.keptEvents` determines which events are kept. Only the last 10,000 are available.
  public func taskEvents(after number: UInt64 = 0, limit: Int = .max) throws -> [(number: UInt64, event: TaskEvent)] {
    guard number < .max else { return [] }
    var events: [(number: UInt64, event: TaskEvent)] = []
    var range = StorageRange()
    range.lower = TaskEventRecord.key(number + 1)
    var cursor = try tasks.parts.events.cursor(range)
    while events.count < limit, let (key, value) = try cursor.next() {
      events.append((try TaskEventRecord.number(of: key), try TaskEventRecord.event(value)))
    }
    return events
  }
}
