internal import FutexLocks
internal import Synchronization

/// A consumer of commits: its position, its buffer, and the signal on which it waits.
///
/// It is safe to use from any thread. Only one task at a time should take events: each of two would get a part of them.
final class ChangeSubscription: Sendable {
  private let buffer: FutexLock<ChangeBuffer>
  private let signal = Signal()

  init(_ buffer: ChangeBuffer) { self.buffer = FutexLock(buffer) }

  // MARK: - For the hub

  /// Adds an event to the buffer. The caller must call `wake` afterwards, outside of locks.
  func add(_ event: ChangeEvent) { buffer.withLock { $0.add(event) } }

  /// Ends the subscription; `error` is the reason unless the database was closed. The caller must call `wake`
  /// afterwards.
  func end(_ error: (any Error)?) {
    buffer.withLock { buffer in
      if let error { buffer.fail(error) } else { buffer.end() }
    }
  }

  func wake() { signal.set() }

  // MARK: - For the consumer

  /// Waits for the next event and returns it, or `nil` when the database has been closed. Throws the error of reading
  /// the feed, once, and `CancellationError`.
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
      let page = try await database.readOnExecutor { try database.readFeed(after: position) }
      buffer.withLock { buffer in
        if let page { buffer.didRead(page) } else { buffer.end() }
      }
    } catch {
      buffer.withLock { $0.end() }
      throw error
    }
  }
}

/// A subscription that ends when this object is released: the hub then removes it, and its buffer is released.
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

  /// Waits for the next event: see `ChangeSubscription.next(in:)`.
  func next() async throws -> ChangeEvent? { try await subscription.next(in: database) }
}
