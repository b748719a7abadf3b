import ArgumentParser
import Foundation
import Varve
import VarveEngine
import VarveTasks

/// Shows and changes the tasks of a database without the types of their payloads.
struct TasksCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "tasks",
    abstract: "Show the tasks of a database, and change them.",
    discussion: """
      Commands that show something can also read a database that is in use. Commands that change something do so \
      themselves if no other process has the database open for writing. Otherwise they put commands into the \
      database's inbox, which the process that runs the tasks applies at once, or at its next start; with --wait they \
      wait until it has, and print what was changed. If commands wait in the inbox when no process has the database \
      open, they are applied first; those that set or remove objects only the program can apply, so that the change \
      then waits after them in the inbox.

      Example: varve tasks queues /data/example.varve
      Example: varve tasks list /data/example.varve --state dead
      Example: varve tasks retry /data/example.varve --queue images
      """,
    subcommands: [
      QueuesCommand.self, TaskListCommand.self, TaskShowCommand.self, EventsCommand.self, CronCommand.self,
      RetryCommand.self, CancelCommand.self, PauseCommand.self, ResumeCommand.self, DrainCommand.self,
      ReleaseCommand.self,
      PurgeCommand.self,
    ])
}

/// Reads the tasks of a database, even while another process writes.
struct TaskReading {
  let path: String

  /// Opens the database without writing to it. Throws if it has no tasks.
  func reading<Result>(_ body: (Database) throws -> Result) throws -> Result {
    var options = DatabaseOptions()
    options.createsIfMissing = false
    options.isReadOnly = true
    guard try Self.knowsTasks(path) else { throw ToolError(.answerIsNo, "the database \"\(path)\" has no tasks") }
    let database = try Database.open(at: path, options: options) { TaskStorage.handle }
    let result: Result
    do { result = try body(database) } catch {
      try? database.close()
      throw Self.explained(error, path)
    }
    try database.close()
    return result
  }

  /// Returns the error to report. If the tasks were not corrected since a repair of the database, or since a program
  /// that does not know them has changed it, the error says what to do.
  private static func explained(_ error: any Error, _ path: String) -> any Error {
    guard let found = error as? DatabaseError, found.code == .definitionDiffers,
      found.message.contains("is stale on disk")
    else { return error }
    return ToolError(
      .cannotOpen,
      "the tasks of \"\(path)\" can't be read: the database was repaired, or changed by a program that does not know "
        + "them; open it once with the program that runs them, or change a task with this tool, which corrects them")
  }

  /// Makes the tasks of a database consistent after a repair, if it has tasks. Opening it for writing does that.
  static func makeConsistent(at path: String) throws {
    guard try knowsTasks(path) else { return }
    try DatabaseOwner.assume(of: path)
    var options = DatabaseOptions()
    options.createsIfMissing = false
    try Database.open(at: path, options: options) { TaskStorage.handle }.close()
  }

  private static func knowsTasks(_ path: String) throws -> Bool {
    var options = DatabaseOptions()
    options.createsIfMissing = false
    options.isReadOnly = true
    let plain = try Database.open(at: path, options: options)
    let knowsTasks = plain.knownExtensions.contains(TaskStorage.handle.name)
    try plain.close()
    return knowsTasks
  }
}

/// The options for printing repeatedly.
struct WatchOption: ParsableArguments {
  @Flag(help: "Print again at each interval, until the command is interrupted.") var watch = false
  @Option(help: "Seconds between two outputs of --watch, from 0.1. (default: 1.0)") var interval: Double?
  @Option(help: "End --watch after so many outputs.") var outputs: Int?

  func validate() throws {
    if let interval, !(0.1...86_400 ~= interval) {
      throw ValidationError("--interval is from 0.1 to 86400 seconds")
    }
    if let outputs, outputs < 1 { throw ValidationError("--outputs is at least 1") }
    guard watch || (outputs == nil && interval == nil) else {
      throw ValidationError("--outputs and --interval are about repeated outputs: use them with --watch")
    }
  }

  func run(_ output: OutputOption, _ sink: ByteSink, _ body: () throws -> Void) throws {
    var made = 0
    while true {
      // In a terminal the table is printed over the previous one: move the cursor home, and clear the screen below it.
      if watch, !output.json, StandardOutput.isTerminal { try sink.write("\u{1b}[H\u{1b}[J") }
      try body()
      if watch, !output.json, !StandardOutput.isTerminal { try sink.writeLine("") }
      try sink.flush()
      made += 1
      if !watch || made == outputs { return try sink.finish() }
      SystemClock().pause(UInt64((interval ?? 1) * 1e9))
    }
  }
}

/// The options that select the tasks of a command.
struct TaskQueryOptions: ParsableArguments {
  @Option(help: "Only the task with this id.") var id: UInt64?
  @Option(help: "Only tasks of this queue.") var queue: String?
  @Option(
    help: "Only tasks in this state: blocked, scheduled, ready, running, retryWait, parked, done, dead or cancelled.")
  var state: [String] = []
  @Option(help: "Only tasks whose payloads have this kind.") var kind: String?
  @Option(help: "Only tasks with this tag.") var tag: String?

  /// Throws if the options select all tasks.
  func requireSelection() throws {
    if id == nil, queue == nil, state.isEmpty, kind == nil, tag == nil {
      throw ValidationError("say which tasks: --id, --queue, --state, --kind or --tag")
    }
  }

  func validate() throws {
    for name in state where Self.states[name] == nil {
      throw ValidationError("\"\(name)\" is not a state; expected \(Self.states.keys.sorted().joined(separator: ", "))")
    }
  }

  private static let states = Dictionary(uniqueKeysWithValues: TaskState.allCases.map { ("\($0)", $0) })

  var query: TaskQuery {
    var query = TaskQuery.all
    if let id { query = query.and(.id(TaskID(rawValue: id))) }
    if let queue { query = query.and(.queue(QueueName(queue))) }
    if let kind { query = query.and(.kind(kind)) }
    if let tag { query = query.and(.tag(tag)) }
    if !state.isEmpty { query = query.and(.states(Set(state.compactMap { Self.states[$0] }))) }
    return query
  }
}

extension Date {
  /// The time as the command line prints it: UTC, to the millisecond.
  var stamp: String { ISO8601Format(Date.ISO8601FormatStyle(includingFractionalSeconds: true)) }
}
