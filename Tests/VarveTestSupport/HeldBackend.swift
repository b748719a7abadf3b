public import EngineTestSupport
public import Synchronization
public import Varve

/// A storage whose commits are applied, and then wait at a gate before they are acknowledged. Safe from any thread.
public final class HeldBackend: ForwardingBackend, @unchecked Sendable {
  // Sendable: it has only state that is safe from any thread.

  private let gate: Gate
  private let held: StorageDurability?
  /// Whether commits that pass the gate can't be made durable.
  public let fails = Atomic(false)
  private let committed = Mutex<[Commit]>([])

  /// A commit that was made.
  public struct Commit: Sendable {
    /// The durability of the commit.
    public let durability: StorageDurability
    /// The number of its entries.
    public let entryCount: Int
  }

  /// Creates a storage whose commits of the durability `held` wait at the gate; with `nil`, all commits wait.
  public init(_ base: any StorageBackend, _ gate: Gate, holding held: StorageDurability? = .power) {
    self.gate = gate
    self.held = held
    super.init(base)
  }

  /// Returns the commits since the last call, in their order.
  public func takeCommits() -> [Commit] {
    committed.withLock { committed in
      defer { committed = [] }
      return committed
    }
  }

  private struct Ticket: StorageTicket {
    let ticket: any StorageTicket
    let gate: Gate?
    let backend: HeldBackend
    var version: CommitVersion { ticket.version }
    var isDurable: Bool { gate == nil && ticket.isDurable }
    func wait() throws {
      gate?.pass()
      try check()
      try ticket.wait()
    }
    func waitSuspended() async throws {
      await gate?.passSuspended()
      try check()
      try await ticket.waitSuspended()
    }
    private func check() throws {
      if gate != nil, backend.fails.load(ordering: .acquiring) { throw DatabaseError(.outcomeUnknown, "a failed sync") }
    }
  }

  /// Commits to the wrapped storage, and returns a ticket that waits at the gate.
  public override func commit(
    _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    let commit = Commit(durability: durability, entryCount: batch.count)
    let ticket = try super.commit(batch, check: check, durability: durability)
    committed.withLock { $0.append(commit) }
    let isHeld = held == nil || held == durability
    return Ticket(ticket: ticket, gate: isHeld ? gate : nil, backend: self)
  }
}
