internal import Synchronization

/// Delivers events from any thread to the listeners.
///
/// Without listeners, an event costs one load, is not created, and there is no thread.
///
/// # Invariants
/// 1. At most `capacity` events wait. An event that finds no room is dropped; the next one that does find room is
///    preceded by the number of dropped ones.
/// 2. Listeners are called by the queue's only thread, under no lock.
///
/// # Concurrency
/// Safe from any thread, and under any lock: `state` is taken alone and last.
final class EventQueue: Sendable {
  static let capacity = 1_024

  private struct State {
    var listeners: [(number: UInt64, listener: any EventListener)] = []
    var lastNumber: UInt64 = 0
    var waiting: [EngineEvent] = []
    var droppedSince: UInt64 = 0
    var droppedTotal: UInt64 = 0
    var isFinished = false
    var thread: EngineThread?
  }

  private let state = Mutex(State())
  private let listening = Atomic<Bool>(false)
  /// A word that changes whenever the thread has events to deliver or has to end.
  private let word = Futex()

  /// A Boolean value that indicates whether there is a listener.
  ///
  /// It is loaded relaxed: an event concurrent with the addition of the first listener may be missed.
  @inline(__always)
  var isListening: Bool { listening.load(ordering: .relaxed) }

  /// The number of dropped events.
  var droppedCount: UInt64 { state.withLock { $0.droppedTotal } }

  /// Notifies the listeners, if there are any. The event is created only then.
  @inline(__always)
  func emit(_ event: @autoclosure () -> EngineEvent) {
    if isListening { push(event()) }
  }

  @inline(never)
  private func push(_ event: EngineEvent) {
    state.withLock { state in
      guard !state.isFinished, !state.listeners.isEmpty else { return }
      let needed = state.droppedSince > 0 ? 2 : 1
      guard state.waiting.count + needed <= Self.capacity else {
        state.droppedSince += 1
        state.droppedTotal += 1
        return
      }
      if state.droppedSince > 0 {
        state.waiting.append(.eventsDropped(count: state.droppedSince))
        state.droppedSince = 0
      }
      state.waiting.append(event)
    }
    wakeThread()
  }

  private func wakeThread() {
    word.increment()
    word.wake()
  }

  // MARK: - Listeners

  func add(_ listener: any EventListener) -> EventSubscription {
    let number = state.withLock { state in
      state.lastNumber += 1
      state.listeners.append((state.lastNumber, listener))
      if state.thread == nil && !state.isFinished {
        // If no thread can be started, the next listener retries, and `finish` delivers the waiting events.
        state.thread = EngineThread(ifPossible: "varve-events") { [self] in run() }
      }
      return state.lastNumber
    }
    listening.store(true, ordering: .relaxed)
    return EventSubscription(queue: self, number: number)
  }

  func remove(_ number: UInt64) {
    let gone = state.withLock { state in
      let gone = state.listeners.first { $0.number == number }
      state.listeners.removeAll { $0.number == number }
      if state.listeners.isEmpty { listening.store(false, ordering: .relaxed) }
      return gone
    }
    // The listener is released after the lock, because its deinitializer may run code of the program.
    withExtendedLifetime(gone) {}
  }

  /// Delivers the waiting events, and ends the thread.
  ///
  /// If a listener releases the engine, this runs on that thread, which then ends by itself.
  func finish() {
    let thread = state.withLock { state in
      state.isFinished = true
      defer { state.thread = nil }
      return state.thread
    }
    wakeThread()
    if let thread { thread.joinUnlessCurrent() } else { run() }
  }

  // MARK: - The thread

  private func run() {
    while true {
      let seen = word.load()
      let (events, isFinished) = state.withLock { state in
        defer { state.waiting = [] }
        return (state.waiting, state.isFinished)
      }
      for event in events { notify(event) }
      if !events.isEmpty { continue }
      if isFinished { return }
      word.wait(while: seen)
    }
  }

  private func notify(_ event: EngineEvent) {
    let listeners = state.withLock { $0.listeners }
    for (_, listener) in listeners { listener.engineDidReport(event) }
  }
}
