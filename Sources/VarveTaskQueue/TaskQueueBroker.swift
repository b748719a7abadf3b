public import Varve
public import VarveTasks

/// Runs the actions of a set of queues: the queue that has the broker's name, and those whose names begin with that
/// name and `-`.
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

  /// Creates a broker and registers its handler with a scheduler.
  ///
  /// Throws `TaskError.overlappingHandlers` if another handler receives actions of one of its queues, and errors of the
  /// database.
  public static func setup(
    _ scheduler: TaskScheduler, _ actions: ExtensionHandle<TaskQueueActions>, name: String,
    handler: some TaskQueueActionHandler
  ) throws -> TaskQueueBroker {
    let runner = ActionRunner(database: scheduler.database, actions: actions, handler: handler)
    let selectors: [QueueSelector] = [.named(QueueName(name)), .prefix(name + "-")]
    for selector in selectors {
      try scheduler.register(ActionPayload.self, on: selector) { payload, context in
        try await runner.run(payload, context)
      }
      scheduler.use(QueueRules(order: .serial(onDead: .block)), for: selector)
    }
    let broker = TaskQueueBroker(name, scheduler)
    try broker.restart { name in selectors.contains { $0.contains(name) } }
    return broker
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

  private func restart(_ isMeant: (QueueName) -> Bool) throws {
    try scheduler.database.write { tx in
      for name in try tx.taskQueues() where isMeant(name) { try tx.retryNow(.parked(name)) }
    }
  }
}

/// Runs the task of an action.
struct ActionRunner: Sendable {
  let database: Database
  let actions: ExtensionHandle<TaskQueueActions>
  let handler: any TaskQueueActionHandler

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
    // In both cases this task is done.
    return try await database.read { tx in try find(payload, id, tx) } == nil ? .done : result.outcome
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
