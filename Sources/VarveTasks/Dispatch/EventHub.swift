internal import Synchronization

/// The listeners to the events of a scheduler, in this process.
final class EventHub: Sendable {
  private struct State {
    var listeners: [UInt64: AsyncStream<TaskEvent>.Continuation] = [:]
    var next: UInt64 = 0
  }

  private let state = Mutex(State())
  private let count = Atomic(0)

  /// The maximum number of events that wait for a listener. The oldest ones beyond it are dropped.
  static let bufferMaximum = 4_096

  /// Whether there is a listener.
  var isActive: Bool { count.load(ordering: .relaxed) > 0 }

  func stream() -> AsyncStream<TaskEvent> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: TaskEvent.self, bufferingPolicy: .bufferingNewest(Self.bufferMaximum))
    let id = state.withLock { state in
      state.next += 1
      state.listeners[state.next] = continuation
      return state.next
    }
    count.add(1, ordering: .relaxed)
    continuation.onTermination = { [weak self] _ in self?.remove(id) }
    return stream
  }

  private func remove(_ id: UInt64) {
    let wasThere = state.withLock { $0.listeners.removeValue(forKey: id) != nil }
    if wasThere { count.subtract(1, ordering: .relaxed) }
  }

  /// Ends all sequences, after the events that wait in them.
  func finish() {
    for listener in state.withLock({ Array($0.listeners.values) }) { listener.finish() }
  }

  func send(_ events: [TaskEvent]) {
    if events.isEmpty || !isActive { return }
    let listeners = state.withLock { Array($0.listeners.values) }
    for listener in listeners {
      for event in events { listener.yield(event) }
    }
  }
}
