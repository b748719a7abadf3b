import Foundation
import Synchronization
import Varve
import VarveTaskQueue
import VarveTasks
import VarveTesting

/// The example of YapTaskQueue, in the spelling of this module.
struct MessageSendAction: TaskQueueAction {
  static let actionCollection = "message-actions"
  var key: String
  var queue: String
  var date: Date

  init(_ key: String, queue: String = "messages", at seconds: Double = 0) {
    self.key = key
    self.queue = queue
    date = Date(timeIntervalSince1970: seconds)
  }

  var actionKey: String { key }
  var queueName: String { queue }
  var sortKey: SortKey { SortKey(date) }
}

/// A handler that records the keys of the actions that it runs.
final class RecordingHandler: TaskQueueActionHandler {
  private let keys = Mutex<[String]>([])
  private let body: @Sendable (MessageSendAction) async -> ActionResult

  init(_ body: @escaping @Sendable (MessageSendAction) async -> ActionResult = { _ in .success }) { self.body = body }

  func handleNextItem(_ action: any TaskQueueAction) async -> ActionResult {
    guard let action = action as? MessageSendAction else { return .failure(retryTimeout: -1) }
    keys.withLock { $0.append(action.key) }
    return await body(action)
  }

  /// Returns the keys of the actions that were run since the last call.
  func take() -> [String] {
    keys.withLock { keys in
      defer { keys = [] }
      return keys
    }
  }
}

/// A task that is not an action.
struct Native: TaskPayload {
  static let kind = "native"
  var isParked = false
}

/// A program that runs actions: its database, and its scheduler with a clock that advances only on request.
struct ActionSite: Sendable {
  let database: Database
  let actions = TaskQueueActions(MessageSendAction.self).named("actions")
  let clock: ManualSchedulerClock
  let scheduler: TaskScheduler

  /// Opens a database over a storage, or makes one in memory. With `stopsAtOnce`, its scheduler does not wait for
  /// handlers when it stops.
  init(
    _ backend: (any StorageBackend)? = nil, clock: ManualSchedulerClock = ManualSchedulerClock(),
    stopsAtOnce: Bool = false
  ) async throws {
    let actions = actions
    let definition = DatabaseDefinition {
      MessageSendAction.collection
      TaskStorage.handle
      actions
    }
    if let backend {
      database = try await Database.open(backend, path: "actions", definition: definition)
    } else {
      database = try await Database.inMemory(definition: definition)
    }
    self.clock = clock
    scheduler = try Self.scheduler(database, clock, stopsAtOnce)
  }

  /// Another scheduler for the database of a site, whose scheduler has stopped.
  init(after site: ActionSite) throws {
    database = site.database
    clock = site.clock
    scheduler = try Self.scheduler(database, clock, false)
  }

  private static func scheduler(
    _ database: Database, _ clock: ManualSchedulerClock, _ stopsAtOnce: Bool
  ) throws -> TaskScheduler {
    var configuration = TaskScheduler.Configuration()
    configuration.workers = 4
    if stopsAtOnce { (configuration.drainTimeout, configuration.abandonAfter) = (.zero, .zero) }
    return try TaskScheduler(database, configuration: configuration, clock: clock)
  }

  func setup(_ name: String, _ handler: some TaskQueueActionHandler) throws -> TaskQueueBroker {
    try TaskQueueBroker.setup(scheduler, actions, name: name, handler: handler)
  }

  func setup(
    _ name: String, _ handler: some TaskQueueActionHandler, _ accepts: @escaping @Sendable (String) -> Bool
  ) throws -> TaskQueueBroker {
    try TaskQueueBroker.setup(scheduler, actions, name: name, handler: handler, handles: accepts)
  }

  /// Sets up a broker of the queues whose names begin with `messages-`: by its name, or by a closure.
  @discardableResult
  func setup(_ handler: some TaskQueueActionHandler, usesClosure: Bool) throws -> TaskQueueBroker {
    if usesClosure { return try setup("any", handler) { $0.hasPrefix("messages-") } }
    return try setup("messages", handler)
  }

  /// Saves actions in one transaction.
  func save(_ keys: String..., queue: String = "messages") throws {
    try database.write { tx in for key in keys { try MessageSendAction(key, queue: queue).save(in: tx) } }
  }

  /// Removes an action.
  func remove(_ key: String) throws {
    try database.write { tx in _ = try tx.remove(key: key, in: MessageSendAction.actionCollection) }
  }

  /// Returns the keys of the actions that are left.
  func left() throws -> [String] {
    try database.read { tx in try tx.keys(String.self, in: MessageSendAction.actionCollection) }
  }

  /// Returns the number of tasks of actions that are in a state.
  func count(_ state: TaskState) throws -> Int { try database.read { tx in try tx.tasks(.state(state)).count } }
}
