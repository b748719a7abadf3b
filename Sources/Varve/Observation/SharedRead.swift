internal import FutexLocks

/// A read that several observers share, such as those of equal queries: it is made once for all of them.
///
/// An observer needs what is read at a given commit or later. If such a result is known, it is used; if a read is under
/// way, its result is awaited. The read runs in a task of its own: an observer whose task is cancelled leaves at once,
/// and the read continues for the others. It is cancelled when the last observer has left.
///
/// It is safe to use from any thread.
final class SharedRead<Value: Sendable>: AnySharedRead, Sendable {
  /// The result of a read.
  struct Found: Sendable {
    let version: CommitVersion
    let value: Value
    let reads: RecordedReads
  }

  private struct State {
    var latest: Found?
    /// The task that reads, or `nil` if none does.
    var reader: Task<Void, Never>?
    /// The observer that has started the read, and gets its error.
    var starter: UInt64 = 0
    var lastNumber: UInt64 = 0
    var waiting: [UInt64: CheckedContinuation<Step, any Error>] = [:]

    mutating func takeNumber() -> UInt64 {
      lastNumber += 1
      return lastNumber
    }
  }

  private enum Step {
    case found(Found?)
    case look
  }

  private let state = FutexLock(State())

  /// The number of observers that wait for a read.
  var waitingCount: Int { state.withLock { $0.waiting.count } }

  /// Returns what is read at a commit or later, and runs `body` if no observer has read it. Throws what `body` throws;
  /// another waiting observer then reads. Throws `CancellationError` if the task is cancelled while it waits.
  func value(
    since version: CommitVersion, _ body: @escaping @Sendable () async throws -> Found?
  ) async throws -> Found? {
    while true {
      try Task.checkCancellation()
      let number = state.withLock { $0.takeNumber() }
      let step = try await withTaskCancellationHandler {
        try await withCheckedThrowingContinuation { wait($0, number, since: version, body) }
      } onCancel: {
        leave(number)
      }
      if case .found(let found) = step { return found }
    }
  }

  /// Waits for the read that is under way, or starts one. Resumes at once if the result is known, and if the task was
  /// cancelled before.
  private func wait(
    _ continuation: CheckedContinuation<Step, any Error>, _ number: UInt64, since version: CommitVersion,
    _ body: @escaping @Sendable () async throws -> Found?
  ) {
    let known: Found? = state.withLock { state in
      if let latest = state.latest, latest.version >= version { return latest }
      state.waiting[number] = continuation
      if state.reader == nil {
        state.starter = number
        state.reader = Task.detached(priority: Task.currentPriority) { [self] in
          let result: Result<Found?, any Error>
          do { result = .success(try await body()) } catch { result = .failure(error) }
          end(result)
        }
      }
      return nil
    }
    if let known { return continuation.resume(returning: .found(known)) }
    // The handler may have run before the continuation was stored.
    if Task.isCancelled { leave(number) }
  }

  /// Ends the wait of an observer whose task was cancelled, and the read if no other observer waits for it.
  private func leave(_ number: UInt64) {
    let (continuation, reader) = state.withLock { state in
      let continuation = state.waiting.removeValue(forKey: number)
      return (continuation, continuation != nil && state.waiting.isEmpty ? state.reader : nil)
    }
    reader?.cancel()
    continuation?.resume(throwing: CancellationError())
  }

  private func end(_ result: Result<Found?, any Error>) {
    let (waiting, starter) = state.withLock { state in
      if let found = try? result.get(), state.latest.map({ $0.version < found.version }) ?? true {
        state.latest = found
      }
      state.reader = nil
      defer { state.waiting = [:] }
      return (state.waiting, state.starter)
    }
    for (number, continuation) in waiting {
      let step: Result<Step, any Error> = number == starter ? result.map { .found($0) } : .success(.look)
      continuation.resume(with: step)
    }
  }
}

/// A shared read of any type.
protocol AnySharedRead: AnyObject, Sendable {}

/// The reads that observers share, by key. A read exists as long as an observer holds it.
final class SharedReads: Sendable {
  private struct Reference {
    weak var read: (any AnySharedRead)?
  }

  private let reads = FutexLock<[AnyHashable: Reference]>([:])

  /// Returns the read of a key, which is the same for all callers while one of them holds it. Complexity: O(n) of the
  /// keys for the first caller.
  func read<Value: Sendable>(_ key: any Hashable & Sendable, of type: Value.Type) -> SharedRead<Value> {
    let key = AnyHashable(key)
    return reads.withLock { reads in
      if let known = reads[key]?.read as? SharedRead<Value> { return known }
      reads = reads.filter { $0.value.read != nil }
      let made = SharedRead<Value>()
      reads[key] = Reference(read: made)
      return made
    }
  }
}
