internal import Synchronization
@_spi(TaskQueue) internal import VarveTasks

/// The brokers of a database in this process.
///
/// A broker that chooses its queues by a closure can't be asked for all of them. So a queue is registered with its
/// broker when it is met: when the broker is set up, for the queues that have actions, and otherwise when the first
/// action is saved in the queue. At the same time it is checked that no other broker accepts the queue.
///
/// Each broker is kept alive by its scheduler alone: it holds the program's handler, which may hold the database.
///
/// # Concurrency
/// Safe from any thread. Closures of the program are called without the lock. A transaction that saves actions holds
/// the writer, and so does `TaskQueueBroker.setup`. So no broker is added while a queue is being registered.
public final class TaskQueueBrokers: Sendable {
  private struct State {
    var brokers: [WeakBroker] = []
    /// The queues that were met since the last broker was added.
    var known: Set<String> = []
    var living: [Broker] { brokers.compactMap { $0.broker } }
  }

  private let state = Mutex(State())

  init() {}

  /// Adds a broker. `queues` are the queues that have actions.
  ///
  /// `register` registers the queues that the broker has by its name. It is called after the check, because a handler
  /// can't be removed. Throws `TaskQueueError.overlappingBrokers`, and the errors of `register`, without any effect.
  func add(_ broker: Broker, _ queues: Set<String>, _ register: () throws -> Void) throws {
    guard let scheduler = broker.scheduler else { return }
    let brokers = state.withLock { $0.living }.filter { $0.scheduler === scheduler } + [broker]
    // Queues that had actions earlier may have some again, and a queue may have the name of a broker.
    let others = brokers.flatMap { [$0.name] + $0.queues }
    for queue in queues.union(others).sorted() { _ = try Self.owner(of: queue, brokers) }
    try register()
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
  ///
  /// Two brokers whose queues are those of their names are compared by the scheduler.
  private static func owner(of queue: String, _ brokers: [Broker]) throws(TaskQueueError) -> Broker? {
    let accepting = brokers.filter { $0.accepts(queue) }
    if accepting.count > 1, accepting.contains(where: \.hasClosure) {
      throw .overlappingBrokers(queue: queue, first: accepting[0].name, second: accepting[1].name)
    }
    return accepting.first
  }
}

/// A broker, as the database knows it.
final class Broker: Sendable {
  let name: String
  /// Returns whether the broker runs the actions of a queue.
  let accepts: @Sendable (String) -> Bool
  /// Whether the broker chooses its queues by a closure. The queues of other brokers are registered when these are set
  /// up.
  let hasClosure: Bool
  weak let scheduler: TaskScheduler?
  private let runner: ActionRunner
  private let taken = Mutex<Set<String>>([])

  init(
    _ name: String, _ scheduler: TaskScheduler, _ runner: ActionRunner, hasClosure: Bool,
    accepts: @escaping @Sendable (String) -> Bool
  ) {
    self.name = name
    self.scheduler = scheduler
    self.runner = runner
    self.hasClosure = hasClosure
    self.accepts = accepts
  }

  /// The queues that were registered when they were met.
  var queues: Set<String> { taken.withLock { $0 } }

  /// Registers a queue that was met.
  func take(_ queue: String) throws {
    guard hasClosure, let scheduler, !queues.contains(queue) else { return }
    try runner.register(with: scheduler, on: .named(QueueName(queue)))
    taken.withLock { _ = $0.insert(queue) }
  }
}

private final class WeakBroker: Sendable {
  weak let broker: Broker?

  init(_ broker: Broker) { self.broker = broker }
}

/// The errors of brokers, besides `TaskError` and `DatabaseError`.
public enum TaskQueueError: Error, Hashable, Sendable, CustomStringConvertible {
  /// Two brokers accept a queue, and at least one of them chooses its queues by a closure.
  case overlappingBrokers(queue: String, first: String, second: String)

  /// A sentence that describes the error.
  public var description: String {
    switch self {
    case .overlappingBrokers(let queue, let first, let second):
      "the brokers \"\(first)\" and \"\(second)\" both accept queue \"\(queue)\", and each queue needs exactly one"
    }
  }
}
