internal import FutexLocks
internal import Synchronization

/// What an observation is about.
enum ObservedPlace: Sendable {
  case row(RowKey)
  case collection(String)
  /// What a watcher says of each commit. With a collection, rows of that one are what concerns it.
  case watched(any RowWatcher, collection: String?)
}

/// What has happened to an observed place since its consumer looked last: the newest counts, so it stays small however
/// slow that is.
struct ObservationState {
  /// What the consumer is to do.
  enum Step {
    /// Look: this has changed.
    case look(ObservedChange)
    case wait
    case fail(any Error)
    case end
  }

  private var pending: ObservedChange?
  private var isEnded = false
  private var failure: (any Error)?
  /// The instant that the consumer has seen: what was committed before it is no news.
  private var seen = CommitVersion.zero

  /// At first everything is to be looked at.
  init(_ start: CommitVersion) { pending = ObservedChange(version: start, isReload: true) }

  /// A commit has changed something.
  mutating func add(_ change: ObservedChange) {
    guard change.version > seen, !isEnded else { return }
    if pending == nil { pending = change } else { pending?.merge(change) }
  }

  mutating func end(_ error: (any Error)?) {
    if !isEnded { failure = error }
    isEnded = true
  }

  /// Whether there is something to look at.
  var isDue: Bool { pending != nil }

  mutating func next() -> Step {
    if let failure {
      self.failure = nil
      return .fail(failure)
    }
    if isEnded { return .end }
    guard let change = pending else { return .wait }
    pending = nil
    return .look(change)
  }

  /// The consumer has seen an instant.
  mutating func didSee(_ version: CommitVersion) {
    seen = max(seen, version)
    if let change = pending, change.version <= seen { pending = nil }
  }
}

/// Changes of an observed place, of one commit or several.
struct ObservedChange {
  /// The last commit that is in it.
  var version: CommitVersion
  /// Whether the rows are not known that changed, or too many: everything may be another.
  var isReload = false
  /// Rows of an observed collection by encoded key, and whether they were removed.
  var keys: [[UInt8]: Bool] = [:]

  mutating func merge(_ later: ObservedChange) {
    version = max(version, later.version)
    isReload = isReload || later.isReload || keys.count + later.keys.count > ChangeLimits.observedKeys
    if isReload { keys = [:] } else { keys.merge(later.keys) { $1 } }
  }
}

/// One consumer that observes a place: with the last reference the registry forgets it.
final class Observation: Sendable {
  let place: ObservedPlace
  private let state: FutexLock<ObservationState>
  private let signal = Signal()

  init(_ place: ObservedPlace, behind start: CommitVersion) {
    self.place = place
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

  func didSee(_ version: CommitVersion) { state.withLock { $0.didSee(version) } }

  /// The next change that is to be looked at; nil when the database was closed. Throws why nothing comes any more,
  /// once, and `CancellationError`.
  func next() async throws -> ObservedChange? {
    while true {
      try Task.checkCancellation()
      switch state.withLock({ $0.next() }) {
      case .look(let change): return change
      case .wait: await signal.wait()
      case .fail(let error): throw error
      case .end: return nil
      }
    }
  }
}
