internal import FutexLocks
internal import Synchronization

/// The target of an observation.
enum ObservedTarget: Sendable {
  case row(RowKey)
  case collection(String)
  /// A target that a watcher decides: with a collection, which of its changed rows concern the observation; without
  /// one, whether the whole commit does.
  case watched(any RowWatcher, collection: String?)

  /// The collection whose rows are compared with their previous content.
  var comparedCollection: String? {
    if case .watched(_, let collection) = self { return collection }
    return nil
  }
}

/// The changes that an observation's consumer has not received yet. Its size is bounded, however slow the consumer is.
struct ObservationState {
  /// The next step of the consumer.
  enum Step {
    /// There are changes to receive.
    case look
    case wait
    case fail(any Error)
    case end
  }

  /// The pending changes, in ascending order of their versions.
  private var pending: [ObservedChange]
  private var isEnded = false
  private var failure: (any Error)?
  /// The version of the snapshot that the consumer has seen, which contains everything that was committed before.
  private var seen = CommitVersion.zero

  /// Creates the state with a pending reload, because the consumer has seen nothing yet.
  init(_ start: CommitVersion) { pending = [ObservedChange(version: start, isReload: true)] }

  /// The maximum number of changes that are kept separately.
  private static var pendingMaximum: Int { 16 }

  /// Adds the changes of a commit.
  mutating func add(_ change: ObservedChange) {
    guard change.version > seen, !isEnded else { return }
    if pending.count < Self.pendingMaximum { return pending.append(change) }
    pending[pending.count - 1].merge(change)
  }

  mutating func end(_ error: (any Error)?) {
    if !isEnded { failure = error }
    isEnded = true
  }

  /// Whether there are pending changes.
  var isDue: Bool { !pending.isEmpty }

  mutating func next() -> Step {
    if let failure {
      self.failure = nil
      return .fail(failure)
    }
    if isEnded { return .end }
    return pending.isEmpty ? .wait : .look
  }

  /// Returns the combined changes of the commits up to a version, or `nil` if there are none. They stay pending until
  /// the consumer has seen them.
  func due(through version: CommitVersion) -> ObservedChange? {
    let due = pending.prefix { $0.first <= version }
    guard var change = due.first else { return nil }
    for next in due.dropFirst() { change.merge(next) }
    return change
  }

  /// Removes and returns all pending changes, which the consumer has thereby seen.
  mutating func takeAll() -> ObservedChange? {
    defer { pending = [] }
    return due(through: CommitVersion(.max))
  }

  /// Makes changes pending again, because the consumer could not read what they have changed.
  mutating func putBack(_ change: ObservedChange) { pending.insert(change, at: 0) }

  /// Notes that the consumer has seen all commits up to a version. `rows` is what it has seen of the rows that had
  /// changed.
  mutating func didSee(_ version: CommitVersion, _ rows: [[UInt8]: [UInt8]] = [:]) {
    seen = max(seen, version)
    pending.removeAll { $0.version <= seen }
    // A change that also contains later commits stays pending, and is from now on compared with what was seen.
    for index in pending.indices where pending[index].first <= seen { pending[index].compare(with: rows) }
  }
}

/// The changes of an observed target, of one or several commits.
struct ObservedChange {
  /// The first and the last commit whose changes are included.
  private(set) var first: CommitVersion
  private(set) var version: CommitVersion
  /// Whether the changed rows are unknown or too many, so that anything may have changed.
  private(set) var isReload: Bool
  /// The changed rows of an observed collection, by encoded key.
  private(set) var rows: [[UInt8]: Row]

  struct Row: Equatable {
    var isRemoved: Bool
    /// The row before the first of the commits, or `nil` if that is not known.
    var before: [UInt8]?
  }

  init(version: CommitVersion, isReload: Bool = false, rows: [[UInt8]: Row] = [:]) {
    first = version
    self.version = version
    self.isReload = isReload
    self.rows = rows
  }

  /// Sets what the rows were before the changes.
  fileprivate mutating func compare(with seen: [[UInt8]: [UInt8]]) {
    for key in rows.keys { rows[key]?.before = seen[key] }
  }

  mutating func merge(_ later: ObservedChange) {
    version = max(version, later.version)
    isReload = isReload || later.isReload || rows.count + later.rows.count > ChangeLimits.observedKeys
    if isReload {
      rows = [:]
    } else {
      rows.merge(later.rows) { Row(isRemoved: $1.isRemoved, before: $0.before) }
    }
  }
}

extension ChangeSet.Rows {
  /// Returns the change of a row for an observer.
  func observed(_ key: [UInt8]) -> ObservedChange.Row {
    let stored = storedKey(key)
    return ObservedChange.Row(isRemoved: states[stored]?.isRemoved ?? false, before: replaced?[stored])
  }
}

/// One consumer's observation of a target. The registry removes it when the last reference to its holder is released.
final class Observation: Sendable {
  let location: ObservedTarget
  private let state: FutexLock<ObservationState>
  private let signal = Signal()

  init(_ location: ObservedTarget, after start: CommitVersion) {
    self.location = location
    state = FutexLock(ObservationState(start))
  }

  /// Adds a change, and wakes the consumer.
  func add(_ change: ObservedChange) {
    state.withLock { $0.add(change) }
    signal.set()
  }

  func end(_ error: (any Error)?) {
    state.withLock { $0.end(error) }
    signal.set()
  }

  var isDue: Bool { state.withLock { $0.isDue } }

  func didSee(_ version: CommitVersion, _ rows: [[UInt8]: [UInt8]] = [:]) {
    state.withLock { $0.didSee(version, rows) }
  }

  /// Makes changes that `next` has returned pending again.
  func putBack(_ change: ObservedChange) { state.withLock { $0.putBack(change) } }

  /// Returns the combined changes of the delivered commits up to a version, or `nil` if there are none.
  func due(through version: CommitVersion) -> ObservedChange? { state.withLock { $0.due(through: version) } }

  /// Waits for a change. Returns false when the database has been closed. Throws the error that ended the observation,
  /// once, and `CancellationError`.
  func wait() async throws -> Bool {
    while true {
      try Task.checkCancellation()
      switch state.withLock({ $0.next() }) {
      case .look: return true
      case .wait: await signal.wait()
      case .fail(let error): throw error
      case .end: return false
      }
    }
  }

  /// Waits for changes, and removes and returns all of them, which the consumer has thereby seen. Returns `nil` when
  /// the database has been closed. Throws as `wait` does.
  func next() async throws -> ObservedChange? {
    while try await wait() {
      if let change = state.withLock({ $0.takeAll() }) { return change }
    }
    return nil
  }
}
