public import Foundation
public import Varve

/// A schedule, as the database has it.
public struct TaskScheduleInfo: Hashable, Sendable {
  /// Its name.
  public let name: String
  /// The expression.
  public let expression: String
  /// The identifier of its time zone.
  public let zone: String
  /// What it does with times that have passed.
  public let rules: ScheduleRules
  /// The kind of its payloads.
  public let kind: String
  /// The queue of its tasks.
  public let queue: QueueName
  /// All times up to this one were looked at.
  public let lastSlot: Date
  /// The last task of it.
  public let lastTask: TaskID?

  init(_ name: String, _ record: ScheduleRecord) {
    self.name = name
    expression = record.expression
    zone = record.zone
    rules = record.rules
    kind = record.kind
    queue = QueueName(record.queue)
    lastSlot = WallTime.date(record.lastSlot)
    lastTask = record.lastTask
  }

  /// Its next times after a date; fewer where no more fit. Throws `TaskError.invalidValue` where the expression or the zone is unknown
  /// here.
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
  /// The schedules that programs have registered, by name.
  public func taskSchedules() throws -> [TaskScheduleInfo] {
    var schedules: [TaskScheduleInfo] = []
    var cursor = try tasks.config.cursor(StorageRange(prefix: [ConfigKeys.schedule]))
    while let (key, value) = try cursor.next() {
      schedules.append(TaskScheduleInfo(String(decoding: key.dropFirst(), as: UTF8.self), try ScheduleRecord(value)))
    }
    return schedules
  }

  /// The events that the database has kept (`TaskScheduler.Configuration.keptEvents`) after a number, the oldest first, with their
  /// numbers. At most the last 10,000 are there.
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
