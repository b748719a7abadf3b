/// What a batch wants of its commit beside being written.
struct CommitTerms: Sendable {
  /// Bytes of the payload where the commit's sequence goes. The payload is the commit's own copy then.
  var stamps: [Int] = []
  /// What must hold, by the leader's word, or the commit is refused.
  var condition: (any CommitCondition)?
  /// Whether other processes are told of it only when it was synced.
  var waitsForSync = false
  /// The batch is one range tombstone over what is dead already: no reader can tell (`DeadRuns`).
  var isRedundant = false
}

/// Something that must hold when a batch is committed: no other commit happens between the look and the
/// batch.
protocol CommitCondition: Sendable {
  /// Called by the leader, before anything of the batch is written. Throws where it doesn't hold.
  func check() throws(EngineError)
}
