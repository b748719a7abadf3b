import ArgumentParser
import Foundation
import Varve
import VarveTasks

/// Lists tasks, one line each.
struct TaskListCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "list",
    abstract: "List tasks: those of a queue in the order in which they run.",
    discussion: """
      The command prints a line with the names of the columns, and one line for each task, with tabs between: id, \
      state, queue, kind, attempt, when it is due or was enqueued, its progress, and its last error. Without --queue it \
      searches all tasks.

      Example: varve tasks list /data/example.varve --queue images --state ready --limit 20
      Example: varve tasks list /data/example.varve --state dead --count
      """)

  @OptionGroup var database: DatabaseArgument
  @OptionGroup var tasks: TaskQueryOptions
  @Option(help: "At most so many tasks.") var limit: Int?
  @Flag(help: "Print how many there are.") var count = false
  @OptionGroup var watching: WatchOption
  @OptionGroup var output: OutputOption

  func validate() throws {
    if let limit, limit < 0 { throw ValidationError("--limit is a count: \(limit) is below 0") }
  }

  func run() throws {
    let sink = try ByteSink.standardOutput()
    try watching.run(output, sink) {
      let found = try TaskReading(path: database.path).reading { database in
        try database.read { tx in try tx.tasks(tasks.query, limit: limit ?? .max) }
      }
      if count {
        return output.json ? try sink.writeJSON(["count": found.count]) : try sink.writeLine("\(found.count)")
      }
      if !output.json { try sink.writeLine(TaskRow.columns) }
      for task in found {
        let row = TaskRow(task)
        try output.json ? sink.writeJSON(row) : sink.writeLine(row.text)
      }
    }
  }
}

/// Shows one task with everything that the database stores of it.
struct TaskShowCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "show",
    abstract: "Show a task: its payload, its errors, and what has happened to it.",
    discussion: """
      If the task does not exist, the exit status is 1. The command lists the events of the task \
      that the database keeps. "waits for" says why the task does not run, as far as the database \
      stores it: limits, workers and handlers are known only to the process that runs the tasks.

      Example: varve tasks show /data/example.varve 4711
      """)

  @OptionGroup var database: DatabaseArgument
  @Argument(help: "The id of the task.") var id: UInt64
  @OptionGroup var output: OutputOption

  func run() throws {
    let sink = try ByteSink.standardOutput()
    let (task, events) = try TaskReading(path: database.path).reading { database in
      try database.read { tx in
        (
          try tx.task(TaskID(rawValue: id)),
          try tx.taskEvents().filter { $0.event.id.rawValue == id }.map { EventRow($0.number, $0.event) }
        )
      }
    }
    guard let task else { throw ToolError(.answerIsNo, "task \(id) does not exist") }
    var row = TaskRow(task)
    row.events = events
    if output.json {
      try sink.writeJSON(row)
    } else {
      for line in row.lines { try sink.writeLine(line) }
    }
    try sink.finish()
  }
}

struct TaskRow: Encodable {
  let id: UInt64
  let state: String
  let queue: String
  let kind: String
  let version: UInt16
  let payload: String
  let priority: UInt8
  let attempt: UInt32
  let failures: UInt32
  let crashes: UInt32
  let snoozes: UInt32
  let enqueued: String
  let due: String?
  let tags: [String]
  let errors: [String]
  let signals: [String]
  let limitKey: String?
  let uniqueKey: String?
  let isUnique: Bool
  let parents: [UInt64]
  let waitsFor: [String]
  let maxAttempts: Int?
  let timeout: Double?
  let group: UInt64?
  let result: String?
  let schedule: String?
  let progress: Double?
  let note: String?
  var events: [EventRow]?

  init(_ task: TaskInfo) {
    id = task.id.rawValue
    state = "\(task.progress.state)"
    queue = task.queue.text
    kind = task.kind
    version = task.version
    payload = String(decoding: task.payload, as: UTF8.self)
    priority = task.priority
    attempt = task.progress.attempt
    failures = task.progress.failures
    crashes = task.progress.crashes
    snoozes = task.progress.snoozes
    enqueued = Date(timeIntervalSince1970: Double(task.enqueued) / 1_000).stamp
    due = task.due.map { Date(timeIntervalSince1970: Double($0) / 1_000).stamp }
    tags = task.tags
    errors = task.errors
    signals = task.signals.map(\.text)
    limitKey = task.limitKey
    uniqueKey = task.unique?.key
    isUnique = task.unique != nil
    parents = task.parents.map(\.rawValue)
    waitsFor = task.waitsFor.map(\.description)
    maxAttempts = task.maxAttempts
    timeout = task.timeout.map { Double($0.components.seconds) + Double($0.components.attoseconds) * 1e-18 }
    group = task.group?.rawValue
    result = task.result.map { String(decoding: $0, as: UTF8.self) }
    schedule = task.slot.map { "\($0.schedule) \($0.date.stamp)\($0.isLate ? ", late" : "")" }
    progress = task.handlerProgress?.fraction
    note = task.handlerProgress?.note
  }

  /// The names of the columns of a list.
  static let columns = "task\tstate\tqueue\tkind\tattempt\tdue or enqueued\tprogress\tlast error"

  /// The task as a line of a list.
  var text: String {
    [
      "\(id)", state, PrintableText.text(queue), PrintableText.text(kind), "attempt \(attempt)",
      due.map { "due \($0)" } ?? enqueued, progress.map { "\(Int(($0 * 100).rounded(.down))) %" } ?? "-",
      errors.last.map(JSONLine.quoted) ?? "-",
    ].joined(separator: "\t")
  }

  /// The lines that `show` prints.
  var lines: [String] {
    var lines = [
      "task      \(id)", "state     \(state)",
      "queue     \(PrintableText.text(queue)), priority \(priority)",
      "kind      \(PrintableText.text(kind)), version \(version)", "payload   \(PrintableText.text(payload))",
      "enqueued  \(enqueued)",
    ]
    if let due { lines.append("due       \(due)") }
    for reason in waitsFor { lines.append("waits for \(PrintableText.text(reason))") }
    if waitsFor.isEmpty, state == "ready" {
      lines.append("waits for its turn, a limit, a worker or a handler, or for a scheduler that runs it")
    }
    let most = maxAttempts.map { " of \($0)" } ?? ""
    lines.append("attempts  \(attempt)\(most), failures \(failures), crashes \(crashes), snoozes \(snoozes)")
    if let timeout { lines.append("timeout   \(timeout) s for each attempt") }
    if isUnique { lines.append("unique    \(uniqueKey.map { PrintableText.text($0) } ?? "by its payload")") }
    if let progress { lines.append("progress  \(progress)\(note.map { " \(JSONLine.quoted($0))" } ?? "")") }
    if !tags.isEmpty { lines.append("tags      \(PrintableText.text(tags.joined(separator: ", ")))") }
    if !signals.isEmpty { lines.append("signals   \(PrintableText.text(signals.joined(separator: ", ")))") }
    if let limitKey { lines.append("limit key \(PrintableText.text(limitKey))") }
    if let group { lines.append("group     \(group)") }
    if let schedule { lines.append("schedule  \(PrintableText.text(schedule))") }
    if let result { lines.append("result    \(PrintableText.text(result))") }
    for error in errors { lines.append("error     \(JSONLine.quoted(error))") }
    for event in events ?? [] { lines.append("event     \(event.text)") }
    return lines
  }
}
