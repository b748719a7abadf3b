internal import FutexLocks

/// A read that several observers share, such as those of equal queries: it is made once for all of them.
///
/// An observer needs what is read at a given commit or later. If such a result is known, it is used; if another
/// observer is reading, its result is awaited.
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
    var isReading = false
    var waiting: [CheckedContinuation<Void, Never>] = []
  }

  private enum Step {
    case known(Found)
    case read
    case wait
  }

  private let state = FutexLock(State())

  /// Returns what is read at a commit or later, and runs `body` if no observer has read it. Throws what `body` throws;
  /// another waiting observer then reads.
  func value(since version: CommitVersion, _ body: () async throws -> Found?) async throws -> Found? {
    while true {
      let step: Step = state.withLock { state in
        if let latest = state.latest, latest.version >= version { return .known(latest) }
        if state.isReading { return .wait }
        state.isReading = true
        return .read
      }
      switch step {
      case .known(let found): return found
      case .wait: await wait()
      case .read:
        let result: Result<Found?, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        end(try? result.get())
        return try result.get()
      }
    }
  }

  /// Waits until no observer reads.
  private func wait() async {
    await withCheckedContinuation { continuation in
      let isOver = state.withLock { state in
        if state.isReading { state.waiting.append(continuation) }
        return !state.isReading
      }
      if isOver { continuation.resume() }
    }
  }

  private func end(_ found: Found?) {
    let waiting = state.withLock { state in
      if let found, state.latest.map({ $0.version < found.version }) ?? true { state.latest = found }
      state.isReading = false
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
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
