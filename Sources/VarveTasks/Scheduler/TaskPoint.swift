internal import Synchronization

/// A point of an attempt at which a test lets the process die.
@_spi(Testing)
public struct TaskPoint: Hashable, Sendable, CustomStringConvertible {
  /// What stands before or after it: `handler`, `checkpoint` or `complete`.
  public let call: String
  /// Whether the call has returned.
  public let isAfter: Bool

  /// As messages name it.
  public var description: String { "\(isAfter ? "after" : "before") \(call)" }
}

extension TaskScheduler {
  /// Called at each point of an attempt; where it does not return the attempt stands still for ever.
  @_spi(Testing)
  public func atPoints(_ body: @escaping @Sendable (TaskID, TaskPoint) async -> Void) {
    state.withLock { $0.atPoint = body }
    hasPoints.store(true, ordering: .releasing)
  }

  /// The scheduler is gone as if the process had died: nothing is settled, and what its handlers still do changes no task.
  @_spi(Testing)
  public func die() {
    closeInbox()
    alarm.set(nil) {}
    dispatcher.detach()
    state.withLock { $0.isRunning = false }
  }

  func reach(_ call: String, isAfter: Bool, _ run: TaskRun) async {
    guard hasPoints.load(ordering: .acquiring), let body = state.withLock({ $0.atPoint }) else { return }
    await body(run.id, TaskPoint(call: call, isAfter: isAfter))
  }
}
