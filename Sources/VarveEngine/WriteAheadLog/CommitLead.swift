internal import Synchronization

/// Proof that its holder leads the commit queue, so no other commit runs at the same time.
///
/// Only `CommitQueue` creates one; functions reserved for the leader take it as a parameter. It has no size and costs
/// nothing.
struct CommitLead: ~Copyable {
  fileprivate init() {}

  /// The lead of a period or an engine without concurrent writers: while an engine opens, and in an engine that is
  /// read-only or follows another process.
  static var beforeOpen: CommitLead { CommitLead() }
}

/// Tracks whether a thread leads, and hands out the proof. An engine has one, in its `CommitQueue`.
///
/// Safe from any thread.
struct LeadWord: ~Copyable {
  private let isLed = Atomic<Bool>(false)

  init() {}

  /// Takes the lead; returns nil if another thread has it.
  @inline(__always)
  func take() -> CommitLead? {
    guard isLed.compareExchange(expected: false, desired: true, ordering: .sequentiallyConsistent).exchanged else {
      return nil
    }
    return CommitLead()
  }

  /// Returns the lead that the previous leader handed over to the calling thread.
  func handedOver() -> CommitLead { CommitLead() }

  /// Releases the lead. Takes the caller's proof, which must not be used afterwards.
  @inline(__always)
  func giveBack(_ lead: borrowing CommitLead) { isLed.store(false, ordering: .sequentiallyConsistent) }
}
