public import Varve
@_spi(TaskQueue) public import VarveTasks

/// Runs the actions of a set of queues: those that its name implies, or those that a closure accepts.
///
/// One action of a queue runs at a time, in the order of the queue. An action that fails blocks its queue until it has
/// succeeded or is removed. Different queues run concurrently.
///
/// ```swift
/// let scheduler = try TaskScheduler(database)
/// let broker = try TaskQueueBroker.setup(scheduler, actions, name: "messages", handler: MessageHandler())
/// try await scheduler.start()
/// ```
///
/// Actions that waited for `restartQueues` when the program ended run again after `setup`.
///
/// Safe from any thread.
public final class TaskQueueBroker: Sendable {
  /// The name of the broker.
  public let name: String
  private let scheduler: TaskScheduler

  private init(_ name: String, _ scheduler: TaskScheduler) {
    self.name = name
    self.scheduler = scheduler
  }

  /// Creates a broker and registers its handler with a scheduler. Its queues are the one that has the broker's name,
  /// and those whose names begin with that name and `-`.
  ///
  /// Call this before the scheduler starts: a queue that has received tasks since the start is not serial before the
  /// next start. A call that throws has no effect, and may be repeated; after `.outcomeUnknown`, when the database was
  /// opened again.
  ///
  /// Throws `TaskError.invalidValue` for an empty name, `TaskQueueError.overlappingBrokers` if another broker accepts
  /// one of its queues (see the form with a closure), `TaskError.overlappingHandlers` if a handler that is not a
  /// broker's receives actions of one of them, and errors of the database.
  ///
  /// Complexity: O(actions that are saved), and one lookup for each queue that has tasks.
  public static func setup(
    _ scheduler: TaskScheduler, _ actions: ExtensionHandle<TaskQueueActions>, name: String,
    handler: some TaskQueueActionHandler
  ) throws -> TaskQueueBroker {
    let runner = ActionRunner(database: scheduler.database, actions: actions, handler: handler)
    let selectors: [QueueSelector] = [.named(QueueName(name)), .prefix(name + "-")]
    let broker = RegisteredBroker(name, scheduler, runner, selectors) { queue in
      selectors.contains { $0.contains(QueueName(queue)) }
    }
    try add(broker, to: scheduler.database, actions)
    return TaskQueueBroker(name, scheduler)
  }

  /// Creates a broker whose queues are those that a closure accepts, and registers its handler with a scheduler.
  ///
  /// ```swift
  /// let queues: Set = ["avatars", "attachments"]
  /// let broker = try TaskQueueBroker.setup(scheduler, actions, name: "uploads", handler: UploadHandler()) { queue in
  ///   queues.contains(queue)
  /// }
  /// ```
  /// The broker's name has no effect on its queues. Call this before the scheduler starts: a queue that has received
  /// tasks since the start is not serial before the next start.
  ///
  /// # Overlapping brokers
  /// Each queue has one broker. Whether a closure and another broker accept the same queue is known only when its name
  /// is met. For the queues that have actions, the queues that another broker was found to accept, and the names of
  /// brokers, this is checked here. For all others it is checked when an action is saved: the call that saves the first
  /// action in a queue that two brokers accept throws `TaskQueueError.overlappingBrokers`, the transaction can only be
  /// rolled back, and neither broker runs anything in that queue.
  ///
  /// A call that throws has no effect, and may be repeated; after `.outcomeUnknown`, when the database was opened
  /// again.
  ///
  /// - Parameters:
  ///   - scheduler: The scheduler that runs the actions.
  ///   - actions: The extension of the database that queues actions.
  ///   - name: The name of the broker, for messages and for `queueName(suffix:)`.
  ///   - handler: The handler that runs the actions.
  ///   - accepts: A closure that returns whether the broker runs the actions of the queue with a name. It must return
  ///     the same for the same name each time. It is called with the names of queues that have tasks and of brokers,
  ///     here and in the setup of other brokers, and in transactions that save actions. It may be called several times
  ///     with the same name, and again after each setup. It must not use the database.
  ///
  /// Throws `TaskError.invalidValue` for an empty name, `TaskQueueError.overlappingBrokers`, and errors of the
  /// database.
  ///
  /// Complexity: O(actions that are saved), and one lookup for each queue that has tasks. In a queue that the closure
  /// accepts and that has no action, it iterates over the tasks.
  public static func setup(
    _ scheduler: TaskScheduler, _ actions: ExtensionHandle<TaskQueueActions>, name: String,
    handler: some TaskQueueActionHandler, handles accepts: @escaping @Sendable (_ queueName: String) -> Bool
  ) throws -> TaskQueueBroker {
    let runner = ActionRunner(database: scheduler.database, actions: actions, handler: handler)
    let broker = RegisteredBroker(name, scheduler, runner, nil, accepts: accepts)
    try add(broker, to: scheduler.database, actions)
    return TaskQueueBroker(name, scheduler)
  }

  /// Adds a broker to those of the database, and runs its actions again that wait for `restartQueues`.
  ///
  /// Everything happens in one transaction, so that no action is saved meanwhile.
  private static func add(
    _ broker: RegisteredBroker, to database: Database, _ actions: ExtensionHandle<TaskQueueActions>
  ) throws {
    if broker.name.isEmpty { throw TaskError.invalidValue("the name of a broker is empty") }
    // The actions of a database that did not have the extension are queued first.
    try database.waitUntilReady(actions)
    var failure: (any Error)?
    try database.write { tx in
      let transaction = try tx[actions]
      let brokers = transaction.brokers
      let queues = try transaction.queues(broker.accepts)
      let own = queues.filter(broker.accepts)
      try brokers.check(broker, queues, own: own)
      var wokenCount = 0
      for queue in own.sorted() {
        wokenCount += try tx.retryNow(.parked(QueueName(queue)).and(.kind(ActionPayload.kind)))
      }
      // A handler can't be removed, so it is registered when nothing can fail any more: at the end of a transaction
      // that changes nothing, and otherwise when the storage has accepted the commit. The writer is still held then.
      if wokenCount == 0 {
        try brokers.add(broker, own: own)
      } else {
        transaction.whenCommitted {
          do { try brokers.add(broker, own: own) } catch { failure = error }
        }
      }
    }
    if let failure { throw failure }
  }

  /// Returns the name of one of the broker's queues: its own name, `-`, and a suffix.
  public func queueName(suffix: String) -> String { "\(name)-\(suffix)" }

  /// Runs again the actions of the named queues that have failed: those that wait for the time of their next attempt,
  /// and those that wait for this call.
  ///
  /// An action waits for this call if its handler returned a failure without a usable time (`ActionResult.failure`).
  public func restartQueues(_ names: [String]) async throws {
    try await scheduler.database.write { tx in
      for name in names {
        for task in try tx.tasks(.queue(QueueName(name))) where [.parked, .retryWait].contains(task.progress.state) {
          try tx.retryNow(.id(task.id))
        }
      }
    }
  }
}

/// Runs the task of an action.
struct ActionRunner: Sendable {
  let database: Database
  let actions: ExtensionHandle<TaskQueueActions>
  let handler: any TaskQueueActionHandler

  /// Runs the actions of some queues one after the other in each queue. If it throws, it has registered nothing.
  func register(with scheduler: TaskScheduler, on queues: [QueueSelector]) throws {
    let rules = QueueRules(order: .serial(onDead: .block))
    try scheduler.register(ActionPayload.self, on: queues, rules: rules) { payload, context in
      try await run(payload, context)
    }
  }

  func run(_ payload: ActionPayload, _ context: TaskContext) async throws -> TaskOutcome {
    guard let action = try await database.read({ tx in try find(payload, context.id, tx) }) else { return .done }
    let result = await handler.handleNextItem(action)
    let id = context.id
    if result == .success {
      try await context.complete { [actions] tx in
        // An action that was saved again meanwhile is not removed: it has a new task, and runs again.
        guard try tx[actions].task(payload.key, in: payload.collection) == id else { return }
        try tx.remove(key: payload.key, in: payload.collection)
      }
      return .done
    }
    // An action that was removed meanwhile does not run again; one that was saved again has a new task, which runs it.
    // In both cases this task is done. The outcome counts even if the attempt was cancelled, which would end the read.
    let isThere = Task { try await database.read { tx in try find(payload, id, tx) != nil } }
    return try await isThere.value ? result.outcome : .done
  }

  /// Returns the action, or `nil` if it is no longer the one that the task was enqueued for.
  private func find(_ payload: ActionPayload, _ id: TaskID, _ tx: ReadTransaction) throws -> (any TaskQueueAction)? {
    guard try tx[actions].task(payload.key, in: payload.collection) == id,
      let type = actions.definition.types[payload.collection]
    else { return nil }
    return try load(type, payload, tx)
  }

  private func load<Action: TaskQueueAction>(
    _ type: Action.Type, _ payload: ActionPayload, _ tx: ReadTransaction
  ) throws -> (any TaskQueueAction)? {
    try tx.object(Action.self, key: payload.key, in: payload.collection)
  }
}
