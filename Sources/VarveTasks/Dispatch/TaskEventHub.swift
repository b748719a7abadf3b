internal import Synchronization

/// Those that listen to the events of a scheduler, in this process.
final class TaskEventHub: Sendable {
  private struct State {
    var listeners: [UInt64: AsyncStream<TaskEvent>.Continuation] = [:]
    var next: UInt64 = 0
  }

  private let state = Mutex(State())
  private let count = Atomic(0)

  /// So many events wait for a listener; older ones are left out.
  static let bufferMaximum = 4_096

  /// Whether one of them is there.
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

  func send(_ events: [TaskEvent]) {
    if events.isEmpty || !isActive { return }
    let listeners = state.withLock { Array($0.listeners.values) }
    for listener in listeners {
      for event in events { listener.yield(event) }
    }
  }
}
