internal import Synchronization
public import Varve

/// A storage some of whose commits fail. Safe from any thread.
public final class FailingBackend: ForwardingBackend, @unchecked Sendable {
  // Sendable: the state is guarded by a mutex.

  /// The error of commits that fail, unless a test chooses another one.
  public static let error = DatabaseError(.storage, "the disk does not answer")

  private struct State {
    /// The number of commits that are made before the first one that fails.
    var passing = 0
    /// The number of commits that fail.
    var failing = 0
    var durability: StorageDurability?
    var error = FailingBackend.error
  }

  private let state = Mutex(State())

  /// Creates a storage whose commits are those of `base`, and of which none fails.
  public override init(_ base: any StorageBackend) { super.init(base) }

  /// Lets the next commits fail, after some that do not. With a durability, only commits that have it count.
  public func fail(
    _ count: Int = 1, after passing: Int = 0, of durability: StorageDurability? = nil,
    with error: DatabaseError = FailingBackend.error
  ) {
    state.withLock { $0 = State(passing: passing, failing: count, durability: durability, error: error) }
  }

  /// Lets no commit fail any more.
  public func mend() { state.withLock { $0 = State() } }

  /// Whether all commits have failed that were to fail.
  public var hasFailed: Bool { state.withLock { $0.failing == 0 } }

  /// Commits to the wrapped storage, or throws.
  public override func commit(
    _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    let error: DatabaseError? = state.withLock { state in
      guard state.failing > 0, state.durability == nil || state.durability == durability else { return nil }
      if state.passing > 0 {
        state.passing -= 1
        return nil
      }
      state.failing -= 1
      return state.error
    }
    if let error { throw error }
    return try super.commit(batch, check: check, durability: durability)
  }
}
