internal import FutexLocks
internal import Synchronization

/// A snapshot that is retained beyond a transaction, until the last reference to this object is released.
final class LongLivedRead: Sendable {
  let snapshot: any StorageSnapshot
  /// The trees of counted parts as of the snapshot.
  let trees = RunTreeCache(isExact: true)
  private let list: LongLivedReadList
  private let number: UInt64

  fileprivate init(_ snapshot: any StorageSnapshot, _ number: UInt64, _ list: LongLivedReadList) {
    self.snapshot = snapshot
    self.number = number
    self.list = list
  }

  deinit { list.end(number) }
}

/// The snapshots that are retained, and the times since when they are.
final class LongLivedReadList: Sendable {
  private struct State {
    var next: UInt64 = 1
    var held: [UInt64: (version: CommitVersion, since: ContinuousClock.Instant)] = [:]
  }

  private let state = FutexLock(State())

  func begin(_ snapshot: any StorageSnapshot) -> LongLivedRead {
    let number = state.withLock { state in
      defer { state.next += 1 }
      state.held[state.next] = (snapshot.version, .now)
      return state.next
    }
    return LongLivedRead(snapshot, number, self)
  }

  fileprivate func end(_ number: UInt64) { state.withLock { $0.held[number] = nil } }

  var all: [(version: CommitVersion, age: Duration)] {
    let now = ContinuousClock.now
    return state.withLock { $0.held.values.map { ($0.version, now - $0.since) } }.sorted { $0.1 > $1.1 }
  }
}
