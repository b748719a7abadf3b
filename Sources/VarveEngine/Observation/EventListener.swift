/// Who is told of what the engine does in the background.
///
/// ```swift
/// let subscription = engine.addListener { event in print(event) }
/// ```
///
/// # Calls
/// They come one after the other, in the order of what happened, on a thread that the engine has for
/// nothing else, and under no lock. A listener may call the engine, but must not close it. A slow one
/// holds up nobody: 1,024 events wait for it, later ones are dropped, and how many is told in their place
/// (`EngineEvent.eventsDropped`, and `EngineStatistics.eventsDroppedCount`). `Engine.close` returns after
/// the last event was told.
public protocol EventListener: Sendable {
  /// Takes note of an event.
  func engineDidReport(_ event: EngineEvent)
}

/// A listener that is a closure.
struct ClosureListener: EventListener {
  let body: @Sendable (EngineEvent) -> Void

  func engineDidReport(_ event: EngineEvent) { body(event) }
}

/// A listener's place with an engine.
public struct EventSubscription: Sendable {
  let queue: EventQueue
  let number: UInt64

  /// Ends it: no call begins after this returns; one may still be under way. A second time does nothing.
  public func cancel() { queue.remove(number) }
}
