public import Varve
public import VarveTasks

/// A row that is an action: saving it in any transaction queues it, and its broker's handler runs it.
///
/// Saving an action again under its key replaces it, and removing it takes it out of its queue.
public protocol TaskQueueAction: Codable, Sendable {
  /// The name of the collection that contains actions of this type.
  static var actionCollection: String { get }
  /// The key of the action in that collection.
  var actionKey: String { get }
  /// The name of the action's queue, which needs no declaration.
  ///
  /// The name is that of a broker, that of a broker followed by `-` and any suffix, or one that the closure of a broker
  /// accepts.
  var queueName: String { get }
  /// The position of the action in its queue: smaller keys run first, and actions with equal keys in the order of their
  /// commits.
  var sortKey: SortKey { get }
}

extension TaskQueueAction {
  /// Saves the action under its key, which queues it.
  ///
  /// Throws `TaskQueueError.overlappingBrokers`, and the errors of `WriteTransaction.set` and
  /// `WriteTransaction.enqueue`.
  public func save(in tx: WriteTransaction) throws { try tx.set(self, key: actionKey, in: Self.actionCollection) }

  /// The definition of the collection that contains actions of this type.
  public static var collection: CollectionDefinition {
    CollectionDefinition(actionCollection, Self.self, key: String.self)
  }
}

/// The result of an action.
public struct ActionResult: Hashable, Sendable {
  /// The number of seconds until the action runs again, or `nil` if it has succeeded.
  let retryTimeout: Double?

  /// The action has succeeded, and the broker removes it.
  public static let success = ActionResult(retryTimeout: nil)

  /// The action has failed, and blocks its queue until it runs again after `retryTimeout` seconds, or at once if that
  /// is 0.
  ///
  /// If `retryTimeout` is negative, more than 292 years or not a number, the action waits for
  /// `TaskQueueBroker.restartQueues`, or for the next start of the program.
  public static func failure(retryTimeout: Double) -> ActionResult { ActionResult(retryTimeout: retryTimeout) }

  /// The outcome that the scheduler receives for this result.
  var outcome: TaskOutcome {
    guard let retryTimeout else { return .done }
    if retryTimeout.isNaN || retryTimeout < 0 || retryTimeout >= Self.longest { return .park() }
    return .retry(after: retryTimeout == 0 ? .zero : .milliseconds(Int64((retryTimeout * 1_000).rounded(.up))))
  }

  /// The delay in seconds from which on an action is parked: more nanoseconds do not fit into 63 bits.
  private static let longest = 9.2e9
}

/// A type that runs actions.
public protocol TaskQueueActionHandler: Sendable {
  /// Runs an action and returns its result. At most one action of each queue runs at a time.
  func handleNextItem(_ action: any TaskQueueAction) async -> ActionResult
}

/// Receives the result of an action once. If it is released without a result, its stream ends without one.
private final class Report: Sendable {
  private let continuation: AsyncStream<ActionResult>.Continuation

  init(_ continuation: AsyncStream<ActionResult>.Continuation) { self.continuation = continuation }

  deinit { continuation.finish() }

  func give(_ result: ActionResult) -> Bool {
    guard case .enqueued = continuation.yield(result) else { return false }
    continuation.finish()
    return true
  }
}

/// A handler for programs that report their results by a closure.
public struct CompletionHandler: TaskQueueActionHandler {
  /// Reports the result. Returns false, and has no effect, if it was called before.
  public typealias Completion = @Sendable (_ success: Bool, _ retryTimeout: Double) -> Bool

  private let body: @Sendable (any TaskQueueAction, @escaping Completion) -> Void

  /// Creates a handler that calls `body`, which has to call its completion once.
  public init(_ body: @escaping @Sendable (any TaskQueueAction, @escaping Completion) -> Void) { self.body = body }

  /// Runs `body` and returns the result that its completion was called with.
  ///
  /// If the completion is released without a call, the result is a failure that waits for
  /// `TaskQueueBroker.restartQueues`.
  public func handleNextItem(_ action: any TaskQueueAction) async -> ActionResult {
    let (results, continuation) = AsyncStream.makeStream(of: ActionResult.self, bufferingPolicy: .bufferingOldest(1))
    let report = Report(continuation)
    body(action) { [report] success, retryTimeout in
      report.give(success ? .success : .failure(retryTimeout: retryTimeout))
    }
    _ = consume report
    for await result in results { return result }
    // The completion was released without a call.
    return .failure(retryTimeout: -1)
  }
}
