import ArgumentParser
import Varve
import VarveEngine
@_spi(Tool) import VarveTasks

/// Whether a command waits for the process that applies its commands.
struct WaitOption: ParsableArguments {
  @Flag(
    help: ArgumentHelp(
      "If another process has the database open, wait until it has made the change, and print what was changed.",
      discussion: "If it has not within --timeout, the exit status is 1, and the change stays requested."))
  var wait = false
  @Option(help: "The seconds that --wait waits at most, from 0.1. (default: 30.0)") var timeout: Double?
  var seconds: Double { timeout ?? 30 }

  func validate() throws {
    guard let timeout else { return }
    guard timeout >= 0.1, timeout <= 86_400 else { throw ValidationError("--timeout is from 0.1 to 86400 seconds") }
    guard wait else { throw ValidationError("--timeout is about --wait: use it with that") }
  }
}

/// Changes tasks directly, or through the inbox if another process has the database open for writing.
struct TaskChange {
  let path: String
  let wait: WaitOption
  /// The queue that must exist, or `nil` if the change is not one of a queue.
  var queue: QueueName?
  /// What the message about a queue that does not exist ends with.
  var hint: String?

  init(path: String, wait: WaitOption) {
    self.path = path
    self.wait = wait
  }

  /// Creates a change of selected tasks. The queue that the selection names must exist.
  init(path: String, wait: WaitOption, _ tasks: TaskQueryOptions) {
    self.init(path: path, wait: wait)
    queue = tasks.queue.map { QueueName($0) }
  }

  /// Returns the result of `direct`, or what `answer` makes of the changes that another process has counted, or `nil`
  /// if the commands were sent to the inbox and are not waited for.
  func make<Result>(
    _ direct: (WriteTransaction) throws -> Result, _ inbox: (inout TaskInbox.Batch) -> Void,
    answer: ([Int]) -> Result
  ) throws -> Result? {
    try DatabaseOwner.assume(of: path)
    // A database without tasks must not be changed by this, so it is rejected first.
    do { try TaskReading(path: path).reading { database in try checkQueue(database) } } catch {
      // Tasks that can't be read yet because the database was repaired are corrected by the change.
      guard let stale = error as? ToolError, stale.status == .cannotOpen else { throw error }
    }
    var options = DatabaseOptions()
    options.createsIfMissing = false
    let database: Database
    do { database = try Database.open(at: path, options: options) { TaskStorage.handle } } catch let error
      as DatabaseError
      where error.code == .locked
    {
      return try send(inbox, answer: answer)
    }
    let result: Result
    do {
      // An earlier command that still waits must not undo this one later.
      guard try TaskInbox(path).applyWaiting(to: database) else {
        try database.close()
        StandardError.write(
          "varve: the inbox has commands that set or remove objects, which only the program can apply: the change "
            + "waits after them\n")
        return try send(inbox, answer: answer)
      }
      result = try database.write { tx in try direct(tx) }
    } catch {
      try? database.close()
      throw error
    }
    try database.close()
    return result
  }

  /// Sends the change to the inbox, and waits for the answer if that is wanted.
  private func send<Result>(
    _ inbox: (inout TaskInbox.Batch) -> Void, answer: ([Int]) -> Result
  ) throws -> Result? {
    let tasks = TaskInbox(path)
    if wait.wait { return answer(try changes(try tasks.sendForAnswer { inbox(&$0) })) }
    try tasks.send { inbox(&$0) }
    return nil
  }

  /// Throws if the queue does not exist: a name that was mistyped would make a queue for ever.
  private func checkQueue(_ database: Database) throws {
    guard let queue else { return }
    let queues = try database.read { tx in try tx.taskQueues() }
    guard !queues.contains(queue) else { return }
    let known = queues.map { PrintableText.text($0.text) }.sorted().joined(separator: ", ")
    let others = known.isEmpty ? "there is none" : "there are \(known)"
    throw ToolError(
      .answerIsNo,
      "no queue is named \"\(PrintableText.text(queue.text))\"; \(others). A queue exists once it has had a task"
        + (hint.map { "; \($0)" } ?? ""))
  }

  /// Waits for the answer to commands. Returns what each of them has changed.
  private func changes(_ receipt: InboxReceipt) throws -> [Int] {
    let note = LockNote(at: path)
    let clock = SystemClock()
    let end = clock.now() + UInt64(wait.seconds * 1e9)
    while true {
      let who = note?.who ?? "the process"
      // If the process has ended, it may have answered before.
      let hasEnded = note?.hasEnded ?? false
      switch try receipt.answer() {
      case .applied(let changes): return changes
      case .refused(let reason): throw ToolError(.answerIsNo, "the change was refused: \(reason)", file: path)
      case nil: break
      }
      if hasEnded {
        throw ToolError(
          .answerIsNo, "\(who) has ended before it made the change, which stays requested",
          file: path)
      }
      if clock.now() > end {
        throw ToolError(
          .answerIsNo,
          "\(who) has not made the change within \(wait.seconds) s, which stays requested; a "
            + "scheduler makes it when it runs", file: path)
      }
      clock.pause(10_000_000)
    }
  }

  /// Makes the change, and prints the number of tasks that it affected.
  func count(
    _ what: String, _ output: OutputOption, _ direct: (WriteTransaction) throws -> Int,
    _ inbox: (inout TaskInbox.Batch) -> Void
  ) throws {
    guard let count = try make(direct, inbox, answer: { $0.reduce(0, +) }) else { return Self.printSent(output) }
    print(output.json ? "{\"\(what)\":\(count)}" : "\(count) \(what)")
  }

  /// Makes a change of a queue, and prints the result.
  func queue(
    _ what: String, _ output: OutputOption, _ direct: (WriteTransaction) throws -> Void,
    _ inbox: (inout TaskInbox.Batch) -> Void
  ) throws {
    let isDone: Bool? = try make(
      { tx in
        try direct(tx)
        return true
      }, inbox, answer: { _ in true })
    if isDone == nil { return Self.printSent(output) }
    print(output.json ? "{\"\(what)\":true}" : what)
  }

  /// Prints that the change was sent to the inbox.
  static func printSent(_ output: OutputOption) {
    print(output.json ? "{\"sent\":true}" : "sent to the inbox: the process that runs the tasks makes the change")
  }
}
