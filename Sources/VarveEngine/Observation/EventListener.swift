/// Receives the events of the engine's background work.
///
/// ```swift
/// let subscription = engine.addListener { event in print(event) }
/// ```
///
/// # Calls
/// The engine calls a listener in the order of the events, one call at a time, on a dedicated thread, and without
/// holding a lock. A listener may call the engine, but must not close it. A slow listener delays no other work: 1,024
/// events wait for it, later ones are dropped, and an event reports their number (`EngineEvent.eventsDropped`, and
/// `EngineStatistics.eventsDroppedCount`). `Engine.close` returns after the last event was delivered.
public protocol EventListener: Sendable {
  /// Receives an event.
  func engineDidReport(_ event: EngineEvent)
}

/// A listener that is a closure.
struct ClosureListener: EventListener {
  let body: @Sendable (EngineEvent) -> Void

  func engineDidReport(_ event: EngineEvent) { body(event) }
}

/// The subscription of a listener.
public struct EventSubscription: Sendable {
  let queue: EventQueue
  let number: UInt64

  /// Ends the subscription: no call starts after this returns, but one may still be running. A second call has no
  /// effect.
  public func cancel() { queue.remove(number) }
}
