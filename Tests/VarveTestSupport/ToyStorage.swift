internal import Synchronization
internal import Varve

/// The persistent state of `ToyBackend`s, as their disk. Several backends can have it open, one of which writes.
///
/// ```
///  applied ─▶ the last commit; the next one builds on it
///  waiting ─▶ versions that are applied and not durable yet, in commit order
///  durable ─▶ what a restart finds
/// ```
///
/// Safe from any thread: one mutex.
public final class ToyStorage: Sendable {
  struct State: Sendable {
    var applied = ToyContent()
    var waiting: [ToyContent] = []
    var durable = ToyContent()
    /// The commits in `waiting` that cannot be made durable, and for each whether a restart finds it nevertheless.
    var failing: [UInt64: Bool] = [:]
    /// The first commit that was found not to be durable: tickets from this version on throw, and no commit follows.
    var failure: UInt64?
    /// Commits that were applied and then lost.
    var lost: Set<UInt64> = []
    var lastVersion: UInt64 = 0
    var lastFamily: UInt32 = 0
    var changes: [ToyChange] = []
    /// The number of snapshots of each version. Changes after the oldest one are kept.
    var snapshots: [UInt64: Int] = [:]
    var copies: [String: ToyContent] = [:]
    var watchers = ToyWatchers()
    /// The number of restarts: a backend from before the last restart is closed.
    var life = 0
  }

  let state = Mutex(State())

  /// Creates an empty storage.
  public init() {}

  /// Returns the content of a copy that `checkpoint` made, or `nil` if there is none at the path.
  public func copy(at path: String) -> ToyStorage? {
    guard let content = state.withLock({ $0.copies[path] }) else { return nil }
    let copy = ToyStorage()
    copy.state.withLock { state in
      state.applied = content
      state.durable = content
      state.lastVersion = content.version
      state.lastFamily = content.families.keys.max() ?? 0
    }
    return copy
  }

  /// Simulates the death of the process and a loss of power: all backends end, and what was not durable is lost.
  public func restart() {
    let ended = state.withLock { state in
      state.forgetUndurable()
      state.life += 1
      return state.watchers.takeAll()
    }
    for continuation in ended { continuation.resume(throwing: CancellationError()) }
  }
}

/// The range of keys that a commit changed: from `lower` (included) to `upper` (excluded, or `nil` for the end).
struct ToyChange: Sendable {
  let version: UInt64
  let family: UInt32
  let range: StorageRange

  func touches(_ other: StorageRange) -> Bool {
    let beginsAfter = other.upper.map { !range.lower.lexicographicallyPrecedes($0) } ?? false
    let endsBefore = range.upper.map { !other.lower.lexicographicallyPrecedes($0) } ?? false
    return !beginsAfter && !endsBefore && !other.isEmpty
  }
}

extension ToyStorage.State {
  // MARK: Commits

  /// Records a version. It is durable at once if no earlier version waits and it is not late.
  mutating func apply(_ content: ToyContent, _ changes: [ToyChange], isLate: Bool) {
    applied = content
    if isLate || !waiting.isEmpty { waiting.append(content) } else { durable = content }
    self.changes += changes
    let oldest = snapshots.keys.min() ?? content.version
    if self.changes.first.map({ $0.version <= oldest }) ?? false { self.changes.removeAll { $0.version <= oldest } }
  }

  /// Makes every version up to `version` durable, up to the first that cannot be.
  mutating func settle(through version: UInt64) {
    while failure == nil, let next = waiting.first, next.version <= version {
      waiting.removeFirst()
      guard let isDurable = failing[next.version] else {
        durable = next
        continue
      }
      failure = next.version
      if isDurable { durable = next } else { lost.insert(next.version) }
      lose(waiting)
    }
  }

  /// Resets the state to what a restart finds.
  mutating func forgetUndurable() {
    lose(waiting)
    applied = durable
    failing = [:]
    failure = nil
  }

  private mutating func lose(_ contents: [ToyContent]) {
    lost.formUnion(contents.map(\.version))
    waiting = []
  }

  /// Returns whether a commit can no longer be acknowledged.
  func hasFailed(_ version: UInt64) -> Bool { lost.contains(version) || failure.map { version >= $0 } ?? false }

  /// Returns whether any key of a range was changed after a version.
  func hasChanged(_ range: StorageRange, in family: UInt32, since version: UInt64) -> Bool {
    changes.contains { $0.version > version && $0.family == family && $0.touches(range) }
  }

  // MARK: Families

  /// Changes the families of all versions: families are created and dropped immediately and durably.
  mutating func changeFamilies(_ body: (inout ToyContent) -> Void) {
    body(&applied)
    body(&durable)
    for index in waiting.indices { body(&waiting[index]) }
  }
}
