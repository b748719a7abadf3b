internal import Foundation
public import Varve

/// Changes the tasks and rows of a database from a process that does not have it open for writing.
///
/// The process puts commands into the database's directory `inbox`. The process whose scheduler runs the tasks applies
/// them, each file in one transaction, exactly once.
///
/// ```swift
/// try TaskInbox(path).send { batch in
///   try batch.set(message)
///   try batch.enqueue(SendMessage(messageKey: message.id))
/// }
/// ```
///
/// Commands are on disk when the call returns, and survive a power loss. They are applied when a scheduler runs: at
/// once if one does, otherwise after its start. The commands of one process are applied in the order of the calls, and
/// those of several processes in the order of the times at which they were sent, by the system's clock. A file that
/// can't be applied is moved to `inbox/refused`, beside a text with the reason. A file that has to wait, such as for a
/// long transaction, is noted in the log once, and the files after it wait, too.
///
/// Safe from any thread and any process.
public struct TaskInbox: Sendable {
  /// The path of the database.
  public let databasePath: String
  let files: any InboxFiles
  var directory: String { databasePath + "/inbox" }
  var refusedDirectory: String { directory + "/refused" }

  /// Creates the inbox of the database at a path.
  public init(_ databasePath: String) { self.init(databasePath, SystemInboxFiles()) }

  init(_ databasePath: String, _ files: any InboxFiles) {
    self.databasePath = databasePath
    self.files = files
  }

  /// Sends the commands that `body` adds to a batch. Either all of them are applied, or none.
  ///
  /// No command is sent if `body` throws or adds none.
  ///
  /// Throws errors that `body` throws, `TaskError.invalidValue` if no database exists at the path, `TaskError.tooLarge`
  /// for more than 64 MiB, and errors of the file system.
  public func send(_ body: (inout Batch) throws -> Void) throws {
    var batch = Batch()
    try body(&batch)
    if !batch.commands.isEmpty { _ = try send(batch.commands) }
  }

  /// Sends commands as `send`, and returns a receipt that tells when they were applied and what each has changed.
  ///
  /// Throws what `send` throws, and `TaskError.invalidValue` if `body` adds no command. A process with an earlier
  /// version of this module refuses the commands.
  public func sendForAnswer(_ body: (inout Batch) throws -> Void) throws -> InboxReceipt {
    var batch = Batch()
    try body(&batch)
    if batch.commands.isEmpty { throw TaskError.invalidValue("there is no command that could be answered") }
    let (id, name) = try send([.answer] + batch.commands)
    return InboxReceipt(id: id, fileName: name, inbox: self)
  }

  /// Writes a file of commands, and returns its id and its name.
  private func send(_ commands: [InboxCommand]) throws -> (id: [UInt8], name: String) {
    guard files.exists(databasePath + "/CURRENT") else {
      throw TaskError.invalidValue("no database exists at \"\(databasePath)\"")
    }
    var generator = SystemRandomNumberGenerator()
    let id = (0..<16).map { _ in UInt8.random(in: 0...255, using: &generator) }
    let bytes = try InboxFile(id: id, commands: commands).bytes()
    if bytes.count > InboxFile.sizeMaximum {
      throw TaskError.tooLarge(what: "a batch of commands", size: bytes.count, limit: InboxFile.sizeMaximum)
    }
    try files.createDirectory(directory)
    let name = InboxFile.name(id, sentAt: SendingTimes.ofProcess.take())
    try files.writeWhole(bytes, directory + "/" + name)
    return (id, name)
  }

  /// Commands that are applied together, in their order.
  public struct Batch: Sendable {
    var commands: [InboxCommand] = []

    /// Adds a task: see `WriteTransaction.enqueue(_:_:)`.
    ///
    /// The task has no id before the batch is applied, so no other task of the batch can depend on it. To begin a chain
    /// or a group of tasks, send one task whose handler enqueues the others.
    public mutating func enqueue<Payload: TaskPayload>(_ payload: Payload, _ options: TaskOptions = Payload.defaults)
      throws
    {
      let bytes = try payload.encoded()
      try TaskDraft.check(Payload.kind, Array(bytes), options)
      commands.append(.enqueue(kind: Payload.kind, version: Payload.version, payload: bytes, options: options))
    }

    /// Cancels tasks.
    public mutating func cancel(_ query: TaskQuery) { commands.append(.cancel(query)) }
    /// Makes tasks ready that are parked or wait for a time.
    public mutating func retryNow(_ query: TaskQuery) { commands.append(.retry(query)) }
    /// Queues dead and cancelled tasks again.
    public mutating func revive(_ query: TaskQuery) { commands.append(.revive(query)) }
    /// Deletes tasks. Running tasks are not deleted.
    public mutating func delete(_ query: TaskQuery) { commands.append(.delete(query)) }
    /// Makes the tasks ready that wait for a signal.
    public mutating func signal(_ signal: WakeSignal) { commands.append(.signal(signal.text)) }
    /// Pauses a queue: none of its tasks is started any more.
    public mutating func pause(_ queue: QueueName) { commands.append(.pause(queue)) }
    /// Resumes a queue: its tasks are started again.
    public mutating func resume(_ queue: QueueName) { commands.append(.resume(queue)) }
    /// Drains a queue: it accepts no further tasks.
    public mutating func drain(_ queue: QueueName) { commands.append(.drain(queue)) }

    /// Lets the tasks of a copy of a database run: see `WriteTransaction.releaseTasks()`.
    public mutating func releaseTasks() { commands.append(.release) }

    /// Sets an object. The process that applies the command must accept the object's type: `TaskScheduler.accept(_:)`.
    public mutating func set<Object: Persistable>(_ object: Object) throws {
      commands.append(.set(collection: Object.collection, object: try JSONEncoder().encode(object)))
    }

    /// Removes the object with an identifier, if it exists. Its type must be accepted too.
    public mutating func remove<Object: Persistable>(_ type: Object.Type, _ id: Object.ID) throws
    where Object.ID: Encodable {
      commands.append(.remove(collection: Object.collection, id: try JSONEncoder().encode([id])))
    }
  }
}
