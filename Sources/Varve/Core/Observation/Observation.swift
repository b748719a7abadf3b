internal import FutexLocks
internal import Synchronization

/// What an observation is about.
enum ObservedTarget: Sendable {
  case row(RowKey)
  case collection(String)
  /// What a watcher says of each commit. With a collection, rows of that one are what concerns it.
  case watched(any RowWatcher, collection: String?)

  /// The collection whose rows are compared with what they were.
  var comparedCollection: String? {
    if case .watched(_, let collection) = self { return collection }
    return nil
  }
}

/// What has happened to an observed position since its consumer looked last: it stays small however slow that is.
struct ObservationState {
  /// What the consumer is to do.
  enum Step {
    /// Look: this has changed.
    case look
    case wait
    case fail(any Error)
    case end
  }

  /// By version, ascending.
  private var pending: [ObservedChange]
  private var isEnded = false
  private var failure: (any Error)?
  /// The snapshot that the consumer has seen: it has all that was committed before.
  private var seen = CommitVersion.zero

  /// At first everything is to be looked at.
  init(_ start: CommitVersion) { pending = [ObservedChange(version: start, isReload: true)] }

  /// More than these are not kept apart.
  private static var pendingMaximum: Int { 16 }

  /// A commit has changed something.
  mutating func add(_ change: ObservedChange) {
    guard change.version > seen, !isEnded else { return }
    if pending.count < Self.pendingMaximum { return pending.append(change) }
    pending[pending.count - 1].merge(change)
  }

  mutating func end(_ error: (any Error)?) {
    if !isEnded { failure = error }
    isEnded = true
  }

  /// Whether there is something to look at.
  var isDue: Bool { !pending.isEmpty }

  mutating func next() -> Step {
    if let failure {
      self.failure = nil
      return .fail(failure)
    }
    if isEnded { return .end }
    return pending.isEmpty ? .wait : .look
  }

  /// What commits up to a version have changed; nil: nothing. It stays until the consumer has seen them.
  func due(through version: CommitVersion) -> ObservedChange? {
    let due = pending.prefix { $0.first <= version }
    guard var change = due.first else { return nil }
    for next in due.dropFirst() { change.merge(next) }
    return change
  }

  /// All of it, which the consumer has seen with that.
  mutating func takeAll() -> ObservedChange? {
    defer { pending = [] }
    return due(through: CommitVersion(.max))
  }

  /// The consumer has seen all commits up to a version, and of the rows that had changed what is in `rows`.
  mutating func didSee(_ version: CommitVersion, _ rows: [[UInt8]: [UInt8]] = [:]) {
    seen = max(seen, version)
    pending.removeAll { $0.version <= seen }
    // What has come together with later commits stays, and from now on it is compared with what was seen.
    for index in pending.indices where pending[index].first <= seen { pending[index].compare(with: rows) }
  }
}

/// Changes of an observed position, of one commit or several.
struct ObservedChange {
  /// The first commit that is in it, and the last one.
  private(set) var first: CommitVersion
  private(set) var version: CommitVersion
  /// Whether the rows are not known that changed, or too many: everything may be another.
  private(set) var isReload: Bool
  /// Rows of an observed collection by encoded key.
  private(set) var rows: [[UInt8]: Row]

  struct Row: Equatable {
    var isRemoved: Bool
    /// What it was before the first of the commits; nil where that is not known.
    var before: [UInt8]?
  }

  init(version: CommitVersion, isReload: Bool = false, rows: [[UInt8]: Row] = [:]) {
    first = version
    self.version = version
    self.isReload = isReload
    self.rows = rows
  }

  /// The rows were these.
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

/// One consumer that observes a position: with the last reference the registry forgets it.
final class Observation: Sendable {
  let location: ObservedTarget
  private let state: FutexLock<ObservationState>
  private let signal = Signal()

  init(_ location: ObservedTarget, after start: CommitVersion) {
    self.location = location
    state = FutexLock(ObservationState(start))
  }

  /// Notes a change, and wakes the consumer.
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

  /// What commits up to a version have changed, of those that were delivered; nil: nothing.
  func due(through version: CommitVersion) -> ObservedChange? { state.withLock { $0.due(through: version) } }

  /// Waits for a change; false when the database was closed. Throws why nothing comes any more, once, and
  /// `CancellationError`.
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

  /// All changes that there are, which the consumer has seen with that; nil when the database was closed. Throws as `wait`.
  func next() async throws -> ObservedChange? {
    while try await wait() {
      if let change = state.withLock({ $0.takeAll() }) { return change }
    }
    return nil
  }
}
