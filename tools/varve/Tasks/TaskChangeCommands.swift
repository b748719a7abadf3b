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

  func validate() throws { try tasks.requireSelection() }

  func run() throws {
    let query = tasks.query
    try TaskChange(path: database.path, wait: wait, tasks).count(
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

  func validate() throws { try tasks.requireSelection() }

  func run() throws {
    let query = tasks.query
    try TaskChange(path: database.path, wait: wait, tasks).count(
      "cancelled", output, { try $0.cancel(query) }, { $0.cancel(query) })
  }
}

struct PurgeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "purge",
    abstract: "Delete tasks: those that have ended, or with --state others.",
    discussion: """
      Without --state and --id, the command deletes the selected tasks that are done, dead or cancelled. Tasks that \
      run stay.

      A task that waits for a deleted one counts it as done, and is ready to run when it waits for no other task. The \
      command prints how many these are, unless another process makes the change.

      Example: varve tasks purge /data/example.varve --queue images
      """)

  @OptionGroup var database: DatabaseArgument
  @OptionGroup var tasks: TaskQueryOptions
  @OptionGroup var wait: WaitOption
  @OptionGroup var output: OutputOption

  func validate() throws { try tasks.requireSelection() }

  func run() throws {
    var query = tasks.query
    if tasks.state.isEmpty, tasks.id == nil { query = query.and(.states([.done, .dead, .cancelled])) }
    let chosen = query
    let made = try TaskChange(path: database.path, wait: wait, tasks).make(
      { tx in
        let released = try Self.releasedCount(chosen, tx)
        return Deleted(deleted: try tx.delete(chosen), released: released)
      }, { $0.delete(chosen) }, answer: { Deleted(deleted: $0.reduce(0, +), released: nil) })
    guard let made else { return TaskChange.printSent(output) }
    if output.json { return print(JSONText.line(made)) }
    let released = made.released ?? 0
    let waited = Count.text(released, "task that waited for them is", plural: "tasks that waited for them are")
    print("\(made.deleted) deleted" + (released == 0 ? "" : ", and \(waited) ready now"))
  }

  /// What the command has changed.
  private struct Deleted: Encodable {
    let deleted: Int
    /// The number of tasks that are ready because they waited for deleted ones, or `nil` if it is not known.
    let released: Int?
  }

  /// Returns the number of tasks that wait only for tasks of a selection, and are not in it themselves.
  private static func releasedCount(_ query: TaskQuery, _ tx: ReadTransaction) throws -> Int {
    let blocked = try tx.tasks(.state(.blocked))
    if blocked.isEmpty { return 0 }
    let deleted = Set(try tx.tasks(query).map(\.id))
    return blocked.count { task in
      !task.parents.isEmpty && !deleted.contains(task.id) && deleted.isSuperset(of: task.parents)
    }
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
    if !create { (change.queue, change.hint) = (name, "--create changes it before that") }
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
    guard let wereHeld else { return TaskChange.printSent(output) }
    if output.json { return print("{\"released\":\(wereHeld)}") }
    print(wereHeld ? "released" : "not released: the tasks of this database are not held")
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
