public import Varve
public import VarveTasks

/// Runs the actions of its queues: those named like it, and those whose names begin with its name and `-`. One action of a queue runs
/// at a time, in their order; one that fails blocks its queue until it has succeeded, or is removed. Queues run side by side.
///
/// ```swift
/// let scheduler = try TaskScheduler(database)
/// let broker = try TaskQueueBroker.setup(scheduler, actions, name: "messages", handler: MessageHandler())
/// try await scheduler.start()
/// ```
/// Actions that waited for `restartQueues` when the program ended run again after `setup`.
///
/// Safe from any thread.
public final class TaskQueueBroker: Sendable {
  /// Its name.
  public let name: String
  private let scheduler: TaskScheduler

  private init(_ name: String, _ scheduler: TaskScheduler) {
    self.name = name
    self.scheduler = scheduler
  }

  /// A broker. Throws `TaskError.overlappingHandlers` where another one has some of its queues, and what the database throws.
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

  /// The name of one of its queues: its own, `-`, and a suffix.
  public func queueName(suffix: String) -> String { "\(name)-\(suffix)" }

  /// Runs the first actions of queues that have failed and wait, for a time or for this call.
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
        // One that was saved again meanwhile runs again.
        guard try tx[actions].task(payload.key, in: payload.collection) == id else { return }
        try tx.remove(key: payload.key, in: payload.collection)
      }
      return .done
    }
    // One that is gone, or was saved again, is not tried again by this task.
    return try await database.read { tx in try find(payload, id, tx) } == nil ? .done : result.outcome
  }

  /// The action, where it is still the one that the task was enqueued for.
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
