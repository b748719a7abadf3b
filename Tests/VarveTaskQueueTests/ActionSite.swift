import Foundation
import Synchronization
import Varve
import VarveTaskQueue
import VarveTasks
import VarveTesting

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

/// A flag that can be set and waited for, also by a Swift task that is cancelled.
final class Latch: Sendable {
  private struct State {
    var isSet = false
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  func set() {
    let waiters = state.withLock { state in
      state.isSet = true
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  func wait() async {
    await withCheckedContinuation { continuation in
      let isSet = state.withLock { state in
        if !state.isSet { state.waiters.append(continuation) }
        return state.isSet
      }
      if isSet { continuation.resume() }
    }
  }
}

/// A program that runs actions: its database, and its scheduler with a clock that advances only on request.
struct ActionSite: Sendable {
  let database: Database
  let actions = TaskQueueActions(MessageSendAction.self).named("actions")
  let clock: ManualSchedulerClock
  let scheduler: TaskScheduler

  /// Opens a database over a storage, or makes one in memory. The clock begins with a time of day.
  init(
    _ backend: (any StorageBackend)? = nil, clock: ManualSchedulerClock = ManualSchedulerClock()
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
    scheduler = try Self.scheduler(database, clock)
  }

  /// Another scheduler for the database of a site, whose scheduler has stopped.
  init(after site: ActionSite) throws {
    database = site.database
    clock = site.clock
    scheduler = try Self.scheduler(database, clock)
  }

  /// Returns a scheduler that does not wait for handlers when it stops.
  private static func scheduler(_ database: Database, _ clock: ManualSchedulerClock) throws -> TaskScheduler {
    var configuration = TaskScheduler.Configuration()
    configuration.workers = 4
    configuration.drainTimeout = .zero
    configuration.abandonAfter = .zero
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

  /// Saves actions in one transaction.
  func save(_ keys: String..., queue: String) throws {
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

  /// Waits until a condition holds that other threads bring about.
  func poll(_ condition: () throws -> Bool) async {
    // The suite's time limit cancels the test.
    while (try? condition()) != true, !Task.isCancelled { await Task.yield() }
  }
}
