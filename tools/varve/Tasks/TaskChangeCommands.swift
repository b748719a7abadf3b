import ArgumentParser
import Varve
import VarveTasks

struct RetryCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "retry",
    abstract: "Make tasks ready: those that are parked or wait for a time, and those that are dead or cancelled.",
    discussion: "Example: varve tasks retry /data/example.varve --queue images --state dead")

  @OptionGroup var database: DatabaseArgument
  @OptionGroup var tasks: TaskQueryOptions
  @OptionGroup var wait: WaitOption
  @OptionGroup var output: OutputOption

  func validate() throws {
    if tasks.isEmpty { throw ValidationError("say which tasks: --id, --queue, --state, --kind or --tag") }
  }

  func run() throws {
    let query = tasks.query
    try TaskChange(path: database.path, wait: wait).count(
      "retried", output,
      { tx in try tx.retryNow(query) + tx.revive(query) },
      { batch in
        batch.retryNow(query)
        batch.revive(query)
      })
  }
}

struct CancelCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "cancel",
    abstract: "Cancel tasks that wait; those that run are cancelled by the process that runs them.",
    discussion: "Example: varve tasks cancel /data/example.varve --tag campaign-7")

  @OptionGroup var database: DatabaseArgument
  @OptionGroup var tasks: TaskQueryOptions
  @OptionGroup var wait: WaitOption
  @OptionGroup var output: OutputOption

  func validate() throws {
    if tasks.isEmpty { throw ValidationError("say which tasks: --id, --queue, --state, --kind or --tag") }
  }

  func run() throws {
    let query = tasks.query
    try TaskChange(path: database.path, wait: wait).count(
      "cancelled", output, { try $0.cancel(query) }, { $0.cancel(query) })
  }
}

struct PurgeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "purge",
    abstract: "Delete tasks: those that have ended, or with --state others.",
    discussion: """
      Without --state and --id, the command deletes the selected tasks that are done, dead or cancelled; without any \
      option, it deletes all of these. Tasks that run stay.

      Example: varve tasks purge /data/example.varve --queue images
      """)

  @OptionGroup var database: DatabaseArgument
  @OptionGroup var tasks: TaskQueryOptions
  @OptionGroup var wait: WaitOption
  @OptionGroup var output: OutputOption

  func run() throws {
    var query = tasks.query
    if tasks.state.isEmpty, tasks.id == nil { query = query.and(.states([.done, .dead, .cancelled])) }
    let chosen = query
    try TaskChange(path: database.path, wait: wait).count(
      "deleted", output, { try $0.delete(chosen) }, { $0.delete(chosen) })
  }
}

/// The arguments of a command that changes a queue.
struct QueueArguments: ParsableArguments {
  @OptionGroup var database: DatabaseArgument
  @Argument(help: "The name of the queue.") var queue: String
  @Flag(help: "Also change a queue that has never had a task.") var create = false
  @OptionGroup var wait: WaitOption
  @OptionGroup var output: OutputOption

  func validate() throws {
    let size = queue.utf8.count
    guard 1...QueueName.sizeMaximum ~= size else {
      throw ValidationError("the name of a queue has \(size) bytes, expected 1 to \(QueueName.sizeMaximum)")
    }
  }

  func change(
    _ what: String, _ direct: (WriteTransaction, QueueName) throws -> Void,
    _ inbox: (inout TaskInbox.Batch, QueueName) -> Void
  ) throws {
    let name = QueueName(queue)
    var change = TaskChange(path: database.path, wait: wait)
    if !create { change.queue = name }
    try change.queue(what, output, { try direct($0, name) }, { inbox(&$0, name) })
  }
}

struct PauseCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "pause", abstract: "Start no task of a queue any more, until resume.",
    discussion: "Example: varve tasks pause /data/example.varve images")

  @OptionGroup var target: QueueArguments

  func run() throws {
    try target.change("paused", { try $0.pause($1) }, { $0.pause($1) })
  }
}

struct ResumeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "resume", abstract: "Start tasks of a queue again, and let it take tasks again.",
    discussion: "Example: varve tasks resume /data/example.varve images")

  @OptionGroup var target: QueueArguments

  func run() throws {
    try target.change("resumed", { try $0.resume($1) }, { $0.resume($1) })
  }
}

struct ReleaseCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "release", abstract: "Let the tasks of a copy of a database run.",
    discussion: """
      A backup has the tasks of the database, which the database itself runs: a copy starts none of them until this \
      command releases them.

      Example: varve tasks release /backup/example.varve
      """)

  @OptionGroup var database: DatabaseArgument
  @OptionGroup var wait: WaitOption
  @OptionGroup var output: OutputOption

  func run() throws {
    let wereHeld = try TaskChange(path: database.path, wait: wait).make(
      { try $0.releaseTasks() }, { $0.releaseTasks() }, answer: { $0 != [0] })
    if output.json {
      print(wereHeld.map { "{\"released\":\($0)}" } ?? "{\"sent\":true}")
    } else if let wereHeld {
      print(wereHeld ? "released" : "not released: the tasks of this database are not held")
    } else {
      print("sent to the process that has the database open")
    }
  }
}

struct DrainCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "drain", abstract: "Let a queue take no tasks any more, until resume; those that it has are run.",
    discussion: "Example: varve tasks drain /data/example.varve images")

  @OptionGroup var target: QueueArguments

  func run() throws {
    try target.change("draining", { try $0.drain($1) }, { $0.drain($1) })
  }
}
