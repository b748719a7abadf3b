internal import FutexLocks
internal import Synchronization

/// One consumer of commits: its position, its buffer, and where it waits.
///
/// Safe from any thread. One task at a time should take from it: two would each get a part.
final class ChangeSubscription: Sendable {
  private let buffer: FutexLock<ChangeBuffer>
  private let signal = Signal()

  init(_ buffer: ChangeBuffer) { self.buffer = FutexLock(buffer) }

  // MARK: - For the hub

  /// Fills the buffer. `wake` has to follow, outside of locks.
  func add(_ event: ChangeEvent) { buffer.withLock { $0.add(event) } }

  /// Nothing comes any more; `error` says why where it is not that the database was closed. `wake` has to follow.
  func end(_ error: (any Error)?) {
    buffer.withLock { buffer in
      if let error { buffer.fail(error) } else { buffer.end() }
    }
  }

  func wake() { signal.set() }

  // MARK: - For the consumer

  /// The next event; nil when the database was closed. Throws what the reading of the feed throws, once, and
  /// `CancellationError`.
  func next(in database: DatabaseCore) async throws -> ChangeEvent? {
    while true {
      try Task.checkCancellation()
      switch buffer.withLock({ $0.next() }) {
      case .give(let event): return event
      case .read(let position): try await read(after: position, database)
      case .wait: await signal.wait()
      case .fail(let error): throw error
      case .end: return nil
      }
    }
  }

  private func read(after position: CommitVersion, _ database: DatabaseCore) async throws {
    do {
      let page = try await database.readAside { try database.readFeed(after: position) }
      buffer.withLock { buffer in
        if let page { buffer.didRead(page) } else { buffer.end() }
      }
    } catch {
      buffer.withLock { $0.end() }
      throw error
    }
  }
}

/// A subscription as long as someone holds this: with the last reference the hub forgets it, and its buffer goes.
final class HeldSubscription: Sendable {
  private let subscription: ChangeSubscription
  private let database: DatabaseCore
  private let number: UInt64

  init(_ subscription: ChangeSubscription, _ number: UInt64, _ database: DatabaseCore) {
    self.subscription = subscription
    self.number = number
    self.database = database
  }

  deinit { database.changes.remove(number) }

  /// See `ChangeSubscription`.
  func next() async throws -> ChangeEvent? { try await subscription.next(in: database) }
}
