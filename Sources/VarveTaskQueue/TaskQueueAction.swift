public import Varve
public import VarveTasks

/// A row that is an action: saving it in any transaction queues it, and its broker's handler runs it. Saving it again under its key
/// replaces it, and removing it takes it out of its queue.
public protocol TaskQueueAction: Codable, Sendable {
  /// The collection in which actions of the type are.
  static var actionCollection: String { get }
  /// Its key there.
  var actionKey: String { get }
  /// Its queue, which needs no declaration: the name of a broker, or that and `-` and anything.
  var queueName: String { get }
  /// Its position in the queue: smaller keys first, and among equal ones the order of commits.
  var sortKey: SortKey { get }
}

extension TaskQueueAction {
  /// Saves it under its key, which queues it.
  public func save(in tx: WriteTransaction) throws { try tx.set(self, key: actionKey, in: Self.actionCollection) }

  /// Its collection, for a definition.
  public static var collection: CollectionDefinition {
    CollectionDefinition(actionCollection, Self.self, key: String.self)
  }
}

/// The result of an action.
public struct ActionResult: Hashable, Sendable {
  /// Seconds until it runs again; nil: it has succeeded.
  let retryTimeout: Double?

  /// It is done: the broker removes it.
  public static let success = ActionResult(retryTimeout: nil)

  /// It has failed, and blocks its queue until it runs again: after so many seconds, with 0 at once. Less than 0, more than 292 years,
  /// and what is not a number wait for `TaskQueueBroker.restartQueues`, or for the next start of the program.
  public static func failure(retryTimeout: Double) -> ActionResult { ActionResult(retryTimeout: retryTimeout) }

  /// As a scheduler has it.
  var outcome: TaskOutcome {
    guard let retryTimeout else { return .done }
    if retryTimeout.isNaN || retryTimeout < 0 || retryTimeout >= Self.longest { return .park() }
    return .retry(after: retryTimeout == 0 ? .zero : .milliseconds(Int64((retryTimeout * 1_000).rounded(.up))))
  }

  /// Nanoseconds in 63 bits end here.
  private static let longest = 9.2e9
}

/// A type that runs actions.
public protocol TaskQueueActionHandler: Sendable {
  /// Runs an action, one at a time of each queue.
  func handleNextItem(_ action: any TaskQueueAction) async -> ActionResult
}

/// Where the result of an action is given, once. Where it is dropped nothing more comes.
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

/// A handler of programs that report their results by a closure.
public struct CompletionHandler: TaskQueueActionHandler {
  /// Reports the result. Returns false, and changes nothing, where it was called before.
  public typealias Completion = @Sendable (_ success: Bool, _ retryTimeout: Double) -> Bool

  private let body: @Sendable (any TaskQueueAction, @escaping Completion) -> Void

  /// A handler that calls `body`, which calls its completion once.
  public init(_ body: @escaping @Sendable (any TaskQueueAction, @escaping Completion) -> Void) { self.body = body }

  /// Returns what the completion was called with.
  public func handleNextItem(_ action: any TaskQueueAction) async -> ActionResult {
    let (results, continuation) = AsyncStream.makeStream(of: ActionResult.self, bufferingPolicy: .bufferingOldest(1))
    let report = Report(continuation)
    body(action) { [report] success, retryTimeout in
      report.give(success ? .success : .failure(retryTimeout: retryTimeout))
    }
    _ = consume report
    for await result in results { return result }
    // The completion was dropped without a call.
    return .failure(retryTimeout: -1)
  }
}
