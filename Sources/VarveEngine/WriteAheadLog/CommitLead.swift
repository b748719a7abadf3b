internal import Synchronization

/// Proof that the holder leads the commit queue: no commit happens beside it.
///
/// Only the word of the queue makes one, so that what belongs to the leader can be called by the leader alone. It has
/// no size and costs nothing.
struct CommitLead: ~Copyable {
  fileprivate init() {}

  /// For the time and the engines in which no writer can be beside the caller: while an engine opens, and in one
  /// that is read-only or follows another process.
  static var beforeOpen: CommitLead { CommitLead() }
}

/// Whether a thread leads, and what gives it the proof. `CommitQueue` has the only one of an engine.
///
/// Safe from any thread.
struct LeadWord: ~Copyable {
  private let isLed = Atomic<Bool>(false)

  init() {}

  /// The lead, if no thread has it.
  @inline(__always)
  func take() -> CommitLead? {
    guard isLed.compareExchange(expected: false, desired: true, ordering: .sequentiallyConsistent).exchanged else {
      return nil
    }
    return CommitLead()
  }

  /// The lead of a thread that the one before handed it to.
  func handedOver() -> CommitLead { CommitLead() }

  /// Gives the lead back. Takes a proof that the caller has it, which must not be used afterwards.
  @inline(__always)
  func giveBack(_ lead: borrowing CommitLead) { isLed.store(false, ordering: .sequentiallyConsistent) }
}
