internal import Synchronization

/// Change sets that a connection has not looked at yet. Bounded: where there are more it only knows that.
final class ConnectionInbox: Sendable {
  private struct State {
    var changeSets: [ChangeSet] = []
    var rowCount = 0
    var hasOverflowed = false
  }

  private static let rowCountMaximum = 10_000
  private let state = Mutex(State())

  func add(_ changeSet: ChangeSet) {
    state.withLock { state in
      guard !state.hasOverflowed else { return }
      state.rowCount += changeSet.rowCount + 1
      state.changeSets.append(changeSet)
      if state.rowCount > Self.rowCountMaximum {
        state.changeSets = []
        state.hasOverflowed = true
      }
    }
  }

  /// From now on it is not known what has arrived, until the next `take`.
  func lose() {
    state.withLock { state in
      state.changeSets = []
      state.hasOverflowed = true
    }
  }

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
  private let inboxes = Mutex<[ObjectIdentifier: ConnectionInbox]>([:])

  var count: Int { inboxes.withLock { $0.count } }
  func add(_ inbox: ConnectionInbox) { inboxes.withLock { $0[ObjectIdentifier(inbox)] = inbox } }
  func remove(_ inbox: ConnectionInbox) { inboxes.withLock { $0[ObjectIdentifier(inbox)] = nil } }

  func deliver(_ changeSet: ChangeSet) {
    for inbox in inboxes.withLock({ Array($0.values) }) { inbox.add(changeSet) }
  }
}
