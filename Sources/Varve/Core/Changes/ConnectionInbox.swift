internal import FutexLocks
internal import Synchronization

/// The change sets that a connection has not processed yet.
///
/// # Bounds
/// `ChangeLimits.heldChangeSets` change sets, and `ChangeLimits.heldBytes` bytes for their content. Once a bound is
/// exceeded, the inbox drops all of them and only records that there were too many.
///
/// It is safe to use from any thread.
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

  /// Marks the content as unknown until the next `take`.
  func lose() {
    state.withLock { $0 = State(hasOverflowed: true) }
  }

  /// The number of held change sets, and the number of bytes that they take.
  var held: (count: Int, bytes: Int) { state.withLock { ($0.changeSets.count, $0.byteCount) } }

  /// Removes and returns the change sets that have arrived since the last call, or `nil` if there were too many.
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

  /// Marks the content of all inboxes as unknown.
  func loseAll() { for inbox in inboxes.withLock({ Array($0.values) }) { inbox.lose() } }

  /// Adds a change set to each inbox. `changeSet` is called only if there is an inbox.
  func deliver(_ changeSet: () -> ChangeSet) {
    for inbox in inboxes.withLock({ Array($0.values) }) { inbox.add(changeSet()) }
  }
}
