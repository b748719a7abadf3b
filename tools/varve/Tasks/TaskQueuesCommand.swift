import ArgumentParser
import Foundation
import Varve
import VarveTasks

/// Lists queues, one line each.
struct QueuesCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "queues",
    abstract: "List the queues, and how many of their tasks are in each state.",
    discussion: """
      In a copy of a database, queues are held until varve tasks release releases them.
      A serial queue is blocked by its first task if that task is dead or parked: retry or purge that task.

      Example: varve tasks queues /data/example.varve --watch
      """)

  @OptionGroup var database: DatabaseArgument
  @OptionGroup var watching: WatchOption
  @OptionGroup var output: OutputOption

  func run() throws {
    let sink = try ByteSink.standardOutput()
    try watching.run(output, sink) {
      let rows = try TaskReading(path: database.path).reading { database in try database.read { try Self.rows($0) } }
      if output.json {
        for row in rows { try sink.writeJSON(row) }
        return
      }
      let states = TaskState.allCases
      let table =
        [["queue", "rules"] + states.map { "\($0)" }]
        + rows.map { row in
          [PrintableText.text(row.queue), row.mode] + states.map { "\(row.counts["\($0)"] ?? 0)" }
        }
      for line in TextTable.lines(table) { try sink.writeLine(line) }
    }
  }

  private static func rows(_ tx: ReadTransaction) throws -> [QueueRow] {
    let isHeld = try tx.areTasksHeld
    let blocked = Dictionary(grouping: try tx.blockedTaskQueues(), by: \.queue)
    return try tx.taskQueues().map { name in
      let (isPaused, isDraining) = try tx.taskQueueState(name)
      var counts: [String: Int] = [:]
      for state in TaskState.allCases { counts["\(state)"] = try tx.taskCount(in: name, state) }
      return QueueRow(
        queue: name.text, isHeld: isHeld, isPaused: isPaused, isDraining: isDraining,
        blockedBy: (blocked[name] ?? []).map(\.task.rawValue), counts: counts)
    }
  }
}

private struct QueueRow: Encodable {
  let queue: String
  let isHeld: Bool
  let isPaused: Bool
  let isDraining: Bool
  /// The dead or parked tasks for which the queue, or the tasks of a limit key, wait.
  let blockedBy: [UInt64]
  let counts: [String: Int]

  var mode: String {
    var words = [(isHeld, "held"), (isPaused, "paused"), (isDraining, "draining")].filter(\.0).map(\.1)
    if let first = blockedBy.first {
      words.append("blocked by task \(first)" + (blockedBy.count > 1 ? " and \(blockedBy.count - 1) more" : ""))
    }
    return words.isEmpty ? "-" : words.joined(separator: ", ")
  }
}

/// Lists the events that the database has kept.
struct EventsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "events",
    abstract: "List the events that the database has kept, the oldest first.",
    discussion: "Example: varve tasks events /data/example.varve --after 1200 --json")

  @OptionGroup var database: DatabaseArgument
  @Option(help: "Only events after the one with this number.") var after: UInt64 = 0
  @Option(help: "At most so many events.") var limit: Int?
  @OptionGroup var output: OutputOption

  func validate() throws {
    if let limit, limit < 0 { throw ValidationError("--limit is a count: \(limit) is below 0") }
  }

  func run() throws {
    let sink = try ByteSink.standardOutput()
    let events = try TaskReading(path: database.path).reading { database in
      try database.read { tx in try tx.taskEvents(after: after, limit: limit ?? .max) }
    }
    for (number, event) in events {
      let row = EventRow(number, event)
      try output.json ? sink.writeJSON(row) : sink.writeLine(row.text)
    }
    try sink.finish()
  }
}

struct EventRow: Encodable {
  let number: UInt64
  let date: String
  let event: String
  let task: UInt64
  let kind: String
  let queue: String
  let attempt: Int
  let detail: String?

  init(_ number: UInt64, _ event: TaskEvent) {
    self.number = number
    date = event.date.stamp
    self.event = "\(event.kind)"
    task = event.id.rawValue
    kind = event.payloadKind
    queue = event.queue.text
    attempt = event.attempt
    detail = event.detail
  }

  var text: String {
    [
      "\(number)", date, event, "task \(task)", PrintableText.text(kind), PrintableText.text(queue),
      "attempt \(attempt)", detail.map(JSONLine.quoted) ?? "-",
    ]
    .joined(separator: "\t")
  }
}

/// Lists schedules with their next times.
struct CronCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "cron",
    abstract: "List the schedules with their next times.",
    discussion: """
      A schedule that the program has not registered since its last start is not declared: nothing fires it, and it has \
      no next times. TaskScheduler.unschedule removes it.

      Example: varve tasks cron /data/example.varve --next 5
      """)

  @OptionGroup var database: DatabaseArgument
  @Option(help: "How many times of each schedule are printed.") var next = 1
  @OptionGroup var output: OutputOption

  func validate() throws {
    guard 0...1_000 ~= next else { throw ValidationError("--next is from 0 to 1000") }
  }

  func run() throws {
    let sink = try ByteSink.standardOutput()
    let schedules = try TaskReading(path: database.path).reading { database in
      try database.read { tx in try tx.taskSchedules() }
    }
    for schedule in schedules {
      // Missed times are made up for according to the schedule's rules, and are not listed.
      let times =
        schedule.isDeclared ? try schedule.next(next, after: max(schedule.lastSlot, Date())).map(\.stamp) : []
      let row = ScheduleRow(
        name: schedule.name, expression: schedule.expression, zone: schedule.zone, kind: schedule.kind,
        queue: schedule.queue.text, lastSlot: schedule.lastSlot.stamp, lastTask: schedule.lastTask?.rawValue,
        isDeclared: schedule.isDeclared, next: times)
      try output.json ? sink.writeJSON(row) : sink.writeLine(row.text)
    }
    try sink.finish()
  }
}

private struct ScheduleRow: Encodable {
  let name: String
  let expression: String
  let zone: String
  let kind: String
  let queue: String
  let lastSlot: String
  let lastTask: UInt64?
  let isDeclared: Bool
  let next: [String]

  var text: String {
    let times = isDeclared ? next : ["not declared by the program"]
    return ([name, expression, zone, kind, queue].map { PrintableText.text($0) } + times).joined(separator: "\t")
  }
}
