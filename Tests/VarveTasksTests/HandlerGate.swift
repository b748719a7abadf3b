import Synchronization

@_spi(Extensions) @testable import VarveTasks

/// A gate at which handlers wait while it is closed.
final class HandlerGate: Sendable {
  /// The reason why a handler waits no longer.
  enum Passage: Sendable {
    /// The gate is open.
    case open
    /// The Swift task of the handler was cancelled.
    case cancelled
    /// The process has died, as far as the test is concerned.
    case died
  }

  private struct Waiter {
    let task: TaskID
    let continuation: CheckedContinuation<Passage, Never>
  }

  private struct State {
    var isClosed = false
    var ignoresCancellation = false
    var number = 0
    var waiters: [Int: Waiter] = [:]
    /// The handlers that were cancelled before they waited.
    var cancelled: Set<Int> = []
  }

  private let state = Mutex(State())

  /// The tasks whose handlers wait.
  var waiting: [TaskID] { state.withLock { $0.waiters.values.map(\.task) } }
  /// The number of handlers that wait.
  var count: Int { state.withLock { $0.waiters.count } }

  /// Lets handlers wait from now on.
  func close(ignoringCancellation: Bool) {
    state.withLock { state in
      state.isClosed = true
      state.ignoresCancellation = ignoringCancellation
    }
  }

  /// Lets no handler wait any more. `pass` returns `passage` to those that wait.
  func open(_ passage: Passage = .open) {
    let waiters = state.withLock { state in
      state.isClosed = false
      defer { state.waiters = [:] }
      return Array(state.waiters.values)
    }
    for waiter in waiters { waiter.continuation.resume(returning: passage) }
  }

  /// Waits while the gate is closed.
  func pass(_ task: TaskID) async -> Passage {
    let own: Int? = state.withLock { state in
      if !state.isClosed { return nil }
      state.number += 1
      return state.number
    }
    guard let number = own else { return .open }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let result: Passage? = state.withLock { state in
          if state.cancelled.remove(number) != nil { return .cancelled }
          if !state.isClosed { return .open }
          state.waiters[number] = Waiter(task: task, continuation: continuation)
          return nil
        }
        if let result { continuation.resume(returning: result) }
      }
    } onCancel: {
      let waiter: Waiter? = state.withLock { state in
        if state.ignoresCancellation { return nil }
        if let waiter = state.waiters.removeValue(forKey: number) { return waiter }
        state.cancelled.insert(number)
        return nil
      }
      waiter?.continuation.resume(returning: .cancelled)
    }
  }
}
