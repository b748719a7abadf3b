internal import Synchronization
public import Varve

/// The next step of a middleware: the handler, or the next middleware.
///
/// It is a value that can be called, so that it fits modules with different defaults for the isolation of asynchronous
/// closures alike.
public struct NextHandler: Sendable {
  private let body: @Sendable () async throws -> TaskOutcome

  init(_ body: @escaping @Sendable () async throws -> TaskOutcome) { self.body = body }

  /// Runs the step. Its result or error determines how the attempt ends, unless the middleware returns or throws
  /// another one.
  public func callAsFunction() async throws -> TaskOutcome { try await body() }
}

/// Code that runs around every handler of a scheduler, and is called for every task that a transaction of its process
/// enqueues. The scheduler itself makes the tasks of schedules, without a call.
///
/// ```swift
/// struct Timing: TaskMiddleware {
///   func run(_ context: TaskContext, _ next: NextHandler) async throws -> TaskOutcome {
///     let begun = ContinuousClock.now
///     defer { print(context.kind, ContinuousClock.now - begun) }
///     return try await next()
///   }
/// }
/// ```
public protocol TaskMiddleware: EnqueueHook {
  /// Runs an attempt. `next` is the handler, or the middleware inside this one. The result or error of this method ends
  /// the attempt.
  func run(_ context: TaskContext, _ next: NextHandler) async throws -> TaskOutcome
}

extension TaskMiddleware {
  /// Runs the next step.
  public func run(_ context: TaskContext, _ next: NextHandler) async throws -> TaskOutcome {
    try await next()
  }

  /// Changes nothing.
  public func enqueuing(_ kind: String, _ options: inout TaskOptions, in transaction: WriteTransaction) throws {}
}

/// Calls the hooks of several middlewares, one after the other.
struct EnqueueHooks: EnqueueHook {
  let hooks: [any TaskMiddleware]

  func enqueuing(_ kind: String, _ options: inout TaskOptions, in transaction: WriteTransaction) throws {
    for hook in hooks { try hook.enqueuing(kind, &options, in: transaction) }
  }
}

extension TaskScheduler {
  func surround(_ context: TaskContext, _ body: @escaping @Sendable () async throws -> TaskOutcome) async throws
    -> TaskOutcome
  {
    guard hasMiddleware.load(ordering: .acquiring) else { return try await body() }
    return try await Self.run(state.withLock { $0.middleware }[...], context, body)
  }

  private static func run(
    _ middleware: ArraySlice<any TaskMiddleware>, _ context: TaskContext,
    _ body: @escaping @Sendable () async throws -> TaskOutcome
  ) async throws -> TaskOutcome {
    guard let first = middleware.first else { return try await body() }
    let rest = middleware.dropFirst()
    return try await first.run(context, NextHandler { try await run(rest, context, body) })
  }
}
