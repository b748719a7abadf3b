internal import Synchronization

/// A point of an attempt at which a test can let the process die.
@_spi(Testing)
public struct AttemptPoint: Hashable, Sendable, CustomStringConvertible {
  /// The call that the point is before or after: `handler`, `checkpoint` or `complete`.
  public let call: String
  /// Whether the call has returned.
  public let isAfter: Bool

  /// The point as messages name it.
  public var description: String { "\(isAfter ? "after" : "before") \(call)" }
}

extension TaskScheduler {
  /// Sets a closure that is called at each point of an attempt. If the closure does not return, the attempt never
  /// continues.
  @_spi(Testing)
  public func atPoints(_ body: @escaping @Sendable (TaskID, AttemptPoint) async -> Void) {
    state.withLock { $0.atPoint = body }
    hasPoints.store(true, ordering: .releasing)
  }

  /// Ends the scheduler as if the process had died: it settles no attempt, and what its handlers still do changes no
  /// task.
  @_spi(Testing)
  public func die() {
    closeInbox()
    alarm.set({ nil }, {})
    dispatcher.detach()
    dispatcher.forgetStart()
    state.withLock { $0.isRunning = false }
  }

  func reach(_ call: String, isAfter: Bool, _ run: TaskRun) async {
    guard hasPoints.load(ordering: .acquiring), let body = state.withLock({ $0.atPoint }) else { return }
    await body(run.id, AttemptPoint(call: call, isAfter: isAfter))
  }
}
