internal import FutexLocks
internal import Synchronization

/// Change sets that a connection has not looked at yet.
///
/// # Bounds
/// `ChangeLimits.heldChangeSets`, and `ChangeLimits.heldBytes` of what they hold. With one more than that it holds none,
/// and only knows that there were too many.
///
/// Safe from any thread.
final class ConnectionInbox: Sendable {
  private struct State {
    var changeSets: [ChangeSet] = []
    var byteCount = 0
    var hasOverflowed = false
  }

  private let state = FutexLock(State())

  func add(_ changeSet: ChangeSet) {
    state.withLock { state in
      guard !state.hasOverflowed else { return }
      state.byteCount += changeSet.byteCount
      state.changeSets.append(changeSet)
      if state.changeSets.count > ChangeLimits.heldChangeSets || state.byteCount > ChangeLimits.heldBytes {
        state = State(hasOverflowed: true)
      }
    }
  }

  /// From now on it is not known what has arrived, until the next `take`.
  func lose() {
    state.withLock { $0 = State(hasOverflowed: true) }
  }

  /// How many are held, and the bytes that they take.
  var held: (count: Int, bytes: Int) { state.withLock { ($0.changeSets.count, $0.byteCount) } }

  /// What has arrived since the last call; nil: too much.
  func take() -> [ChangeSet]? {
    state.withLock { state in
      defer { state = State() }
      return state.hasOverflowed ? nil : state.changeSets
    }
  }
}

/// The inboxes of all connections of a database.
final class ConnectionList: Sendable {
  private let inboxes = FutexLock<[ObjectIdentifier: ConnectionInbox]>([:])

  var count: Int { inboxes.withLock { $0.count } }
  func add(_ inbox: ConnectionInbox) { inboxes.withLock { $0[ObjectIdentifier(inbox)] = inbox } }
  func remove(_ inbox: ConnectionInbox) { inboxes.withLock { $0[ObjectIdentifier(inbox)] = nil } }

  /// No connection knows from now on what has arrived.
  func loseAll() { for inbox in inboxes.withLock({ Array($0.values) }) { inbox.lose() } }

  /// Adds a change set to each inbox. `changeSet` is called where there is one.
  func deliver(_ changeSet: () -> ChangeSet) {
    for inbox in inboxes.withLock({ Array($0.values) }) { inbox.add(changeSet()) }
  }
}
