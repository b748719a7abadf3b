/// The few operations that are timed. Apart from the paths that they time, which load nothing for the others.
extension Engine {
  @inline(never)
  func beginTimed() -> UInt64 { background.metrics.latencies.begin() }

  @inline(never)
  func endTimed(_ operation: OperationLatencies.Operation, from start: UInt64) {
    background.metrics.latencies.end(operation, from: start)
  }
}

/// Who is told of what happens in the background.
extension Engine {
  /// Tells a listener of everything that happens from now on, until its subscription is cancelled or the
  /// engine is closed. Safe from any thread.
  ///
  /// Close the engine after whoever is told calls it no more: while it closes, the last events come, and
  /// the engine can't be used any more.
  @discardableResult
  public func addListener(_ listener: any EventListener) -> EventSubscription {
    checkOpen()
    defer { watch.start() }
    return background.metrics.events.add(listener)
  }

  /// The same with a closure.
  @discardableResult
  public func addListener(_ body: @escaping @Sendable (EngineEvent) -> Void) -> EventSubscription {
    addListener(ClosureListener(body: body))
  }
}
