/// Functions for the few operations that are timed. They are separate from the paths that they time, so that untimed
/// operations load nothing for them.
extension EngineCore {
  @inline(never)
  func beginTimed() -> UInt64 { background.metrics.latencies.begin() }

  @inline(never)
  func endTimed(_ operation: OperationLatencies.Operation, from start: UInt64) {
    background.metrics.latencies.end(operation, from: start)
  }
}

/// Listeners for background events.
extension Engine {
  /// Notifies a listener of all events from now on, until its subscription is canceled or the engine is closed. Safe
  /// from any thread.
  ///
  /// The last events arrive while the engine closes, when it can no longer be used. Stop calling the engine from the
  /// listener before you close it.
  @discardableResult
  public func addListener(_ listener: any EventListener) -> EventSubscription {
    core.checkOpen()
    defer { core.watch.start() }
    return core.background.metrics.events.add(listener)
  }

  /// Notifies a closure of all events from now on, as `addListener(_:)` does with a listener.
  @discardableResult
  public func addListener(_ body: @escaping @Sendable (EngineEvent) -> Void) -> EventSubscription {
    addListener(ClosureListener(body: body))
  }
}
