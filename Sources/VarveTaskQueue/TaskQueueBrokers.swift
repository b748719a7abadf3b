internal import Synchronization
@_spi(TaskQueue) internal import VarveTasks

/// The brokers of a database in this process.
///
/// A broker that chooses its queues by a closure can't be asked for all of them. So a queue is registered with its
/// broker when it is met: when the broker is set up, for the queues that have actions, and otherwise when an action is
/// saved in the queue. At the same time it is checked that no other broker accepts the queue.
///
/// Each broker is kept alive by its scheduler alone: it holds the program's handler, which may hold the database.
///
/// # Concurrency
/// Safe from any thread. Closures of the program are called without the lock. A transaction that saves actions holds
/// the writer, and so does `TaskQueueBroker.setup`. So no broker is added while a queue is being registered.
@_spi(Extensions) public final class TaskQueueBrokers: Sendable {
  private struct State {
    var brokers: [WeakBroker] = []
    /// The queues that were met since the last broker was added.
    var known: Set<String> = []
    var living: [RegisteredBroker] { brokers.compactMap { $0.broker } }
  }

  private let state = Mutex(State())

  init() {}

  /// Checks whether a broker may be added. `queues` are the queues that have actions, and `own` are those of them that
  /// the broker accepts.
  ///
  /// Throws `TaskQueueError.overlappingBrokers`, and `TaskError.overlappingHandlers`.
  func check(_ broker: RegisteredBroker, _ queues: Set<String>, own: Set<String>) throws {
    guard let scheduler = broker.scheduler else { return }
    let brokers = state.withLock { $0.living }.filter { $0.scheduler === scheduler } + [broker]
    // Queues that had actions earlier may have some again, and a queue may have the name of a broker. If two brokers
    // have the queues of their names, and some queue belongs to both, one of these names does.
    let others = brokers.flatMap { [$0.name] + $0.queues }
    for queue in queues.union(others).sorted() { _ = try Self.owner(of: queue, brokers) }
    try scheduler.requireNoHandler(of: ActionPayload.kind, on: broker.firstSelectors(own))
  }

  /// Adds a broker that was checked in the same transaction, and registers its queues. `own` are the queues that have
  /// actions and that the broker accepts.
  ///
  /// Throws `TaskError.overlappingHandlers` without any effect. After the check, it throws nothing.
  func add(_ broker: RegisteredBroker, own: Set<String>) throws {
    guard let scheduler = broker.scheduler else { return }
    try broker.takeFirst(own)
    scheduler.keep(alive: broker)
    state.withLock { state in
      state.brokers.removeAll { $0.broker == nil }
      state.brokers.append(WeakBroker(broker))
      state.known = []
    }
  }

  /// Notes that a queue has an action, and registers the queue with its broker if that chooses its queues by a closure.
  ///
  /// Throws `TaskQueueError.overlappingBrokers` if two brokers of one scheduler accept the queue.
  func meet(_ queue: String) throws {
    let brokers = state.withLock { $0.known.contains(queue) ? [] : $0.living }
    for broker in brokers where broker.accepts(queue) {
      let owner = try Self.owner(of: queue, brokers.filter { $0.scheduler === broker.scheduler })
      if owner === broker { try broker.take(queue) }
    }
    state.withLock { _ = $0.known.insert(queue) }
  }

  /// Returns the broker that accepts a queue, or `nil` if none does. Throws if two brokers accept it.
  private static func owner(
    of queue: String, _ brokers: [RegisteredBroker]
  ) throws(TaskQueueError) -> RegisteredBroker? {
    let accepting = brokers.filter { $0.accepts(queue) }
    if accepting.count > 1 {
      throw .overlappingBrokers(queue: queue, first: accepting[0].name, second: accepting[1].name)
    }
    return accepting.first
  }
}

/// A broker, as the database knows it.
final class RegisteredBroker: Sendable {
  let name: String
  /// Returns whether the broker runs the actions of a queue.
  let accepts: @Sendable (String) -> Bool
  /// The queues of the broker, which are registered when it is set up, or `nil` if it chooses them by a closure.
  private let selectors: [QueueSelector]?
  weak let scheduler: TaskScheduler?
  private let runner: ActionRunner
  private let taken = Mutex<Set<String>>([])

  init(
    _ name: String, _ scheduler: TaskScheduler, _ runner: ActionRunner, _ selectors: [QueueSelector]?,
    accepts: @escaping @Sendable (String) -> Bool
  ) {
    self.name = name
    self.scheduler = scheduler
    self.runner = runner
    self.selectors = selectors
    self.accepts = accepts
  }

  /// Whether the broker chooses its queues by a closure.
  var hasClosure: Bool { selectors == nil }

  /// The queues that were registered when they were met.
  var queues: Set<String> { taken.withLock { $0 } }

  /// Returns the queues to register when the broker is set up. `own` are the queues that have actions and that it
  /// accepts.
  func firstSelectors(_ own: Set<String>) -> [QueueSelector] {
    selectors ?? own.sorted().map { QueueSelector.named(QueueName($0)) }
  }

  /// Registers the first queues of the broker. If it throws, it has registered nothing.
  func takeFirst(_ own: Set<String>) throws {
    guard let scheduler else { return }
    try runner.register(with: scheduler, on: firstSelectors(own))
    if hasClosure { taken.withLock { $0 = own } }
  }

  /// Registers a queue that was met.
  func take(_ queue: String) throws {
    guard hasClosure, let scheduler, !queues.contains(queue) else { return }
    try runner.register(with: scheduler, on: [.named(QueueName(queue))])
    taken.withLock { _ = $0.insert(queue) }
  }
}

private final class WeakBroker: Sendable {
  weak let broker: RegisteredBroker?

  init(_ broker: RegisteredBroker) { self.broker = broker }
}

/// The errors of brokers, besides `TaskError` and `DatabaseError`.
public enum TaskQueueError: Error, Hashable, Sendable, CustomStringConvertible {
  /// Two brokers accept a queue.
  case overlappingBrokers(queue: String, first: String, second: String)

  /// A sentence that describes the error.
  public var description: String {
    switch self {
    case .overlappingBrokers(let queue, let first, let second):
      "the brokers \"\(first)\" and \"\(second)\" both accept queue \"\(queue)\", and each queue needs exactly one"
    }
  }
}
