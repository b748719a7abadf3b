internal import Synchronization

/// Elects the commit leader: one at a time, which also commits for the waiting writers.
///
/// # Protocol
/// A writer that finds the queue free becomes the leader. Any other writer adds its request to a list and sleeps on the
/// request. A leader that has finished takes the whole list and commits it in order of arrival; after `roundsMaximum`
/// lists, or `bytesMaximum`, it passes the lead to a waiting writer, so that no writer works for others indefinitely. A
/// request may ask for the lead itself (`wantsLead`), for work that must not run concurrently with commits. A thread
/// that must not wait for writers commits for none of them (`handBack`).
///
/// No wake-up is lost: a writer adds its request to the list and then checks whether the queue is free; a leader frees
/// the queue and then checks whether the list is empty. Both are sequentially consistent, so one of them sees the
/// other.
///
/// # Concurrency
/// Safe from any thread. `backlog` belongs to the leader.
final class CommitQueue: @unchecked Sendable {
  // Sendable: `backlog` belongs to the leader, all else is atomic.
  private let word = LeadWord()
  /// The newest request of the list, as the bits of a retained reference; 0 if the list is empty.
  private let head = Atomic<UInt>(0)
  private var backlog: [CommitRequest] = []
  private static let roundsMaximum = 4
  private static let bytesMaximum = 1 << 20

  /// Becomes the leader if there is none.
  @inline(__always)
  func tryLead() -> CommitLead? { word.take() }

  /// Adds a request to the list. Returns the lead once its writer leads, or `nil` once the request is done.
  func enqueue(_ request: CommitRequest) -> CommitLead? {
    let bits = unsafe UInt(bitPattern: Unmanaged.passRetained(request).toOpaque())
    var expected = head.load(ordering: .relaxed)
    while true {
      request.next = expected
      let result = head.compareExchange(expected: expected, desired: bits, ordering: .sequentiallyConsistent)
      if result.exchanged { break }
      expected = result.original
    }
    if let lead = word.take() {
      // The queue became free meanwhile: this thread leads, and its own request is on the list.
      collect()
      return lead
    }
    guard request.sleep() == .leads else { return nil }
    return word.handedOver()
  }

  /// A Boolean value that indicates whether a request is on the list.
  var hasWaiting: Bool { head.load(ordering: .relaxed) != 0 }

  /// The number of requests on the list. Only the leader removes them.
  func waitingCount(_ lead: borrowing CommitLead) -> Int {
    var count = 0
    var bits = head.load(ordering: .acquiring)
    while let pointer = unsafe UnsafeRawPointer(bitPattern: bits) {
      count += 1
      bits = unsafe Unmanaged<CommitRequest>.fromOpaque(pointer)._withUnsafeGuaranteedRef { $0.next }
    }
    return count
  }

  /// Gives the lead back and returns true if no request waits. After false, `resign` must follow.
  ///
  /// It is separate for the common case: a closure costs reference counting even if it isn't called.
  @inline(__always)
  func resignIfAlone(_ lead: borrowing CommitLead) -> Bool {
    guard backlog.isEmpty && head.load(ordering: .relaxed) == 0 else { return false }
    word.giveBack(lead)
    return head.load(ordering: .sequentiallyConsistent) == 0 || word.take() == nil
  }

  /// Gives the lead back after committing the waiting requests. `commit` is called for each request in order.
  func resign(_ lead: borrowing CommitLead, _ commit: (CommitRequest, borrowing CommitLead) -> Void) {
    drain(lead, roundsMaximum: Self.roundsMaximum, commit)
  }

  /// Gives the lead to a waiting writer, if any, without committing for others.
  ///
  /// Background work uses it: a commit may wait for a memtable to be flushed, and so for this very thread.
  func handBack(_ lead: borrowing CommitLead) {
    // Without rounds `serveBacklog` has no bytes to commit, so it is never called.
    drain(lead, roundsMaximum: 0) { _, _ in
      fatalError("a leader without rounds was given a commit: report this as a bug")
    }
  }

  @inline(never)
  private func drain(
    _ lead: borrowing CommitLead, roundsMaximum: Int, _ commit: (CommitRequest, borrowing CommitLead) -> Void
  ) {
    var rounds = 0
    var bytes = 0
    while true {
      if backlog.isEmpty { collect() }
      if backlog.isEmpty {
        word.giveBack(lead)
        if head.load(ordering: .sequentiallyConsistent) == 0 { return }
        guard word.take() != nil else { return }
        continue
      }
      rounds += 1
      let bytesMaximum = rounds <= roundsMaximum ? Self.bytesMaximum : 0
      if serveBacklog(lead, bytes: &bytes, bytesMaximum: bytesMaximum, commit) { return }
    }
  }

  /// Commits the backlog until `bytes`, which counts the committed bytes, would exceed the maximum.
  ///
  /// Returns true if the lead was given away.
  private func serveBacklog(
    _ lead: borrowing CommitLead, bytes: inout Int, bytesMaximum: Int,
    _ commit: (CommitRequest, borrowing CommitLead) -> Void
  ) -> Bool {
    var index = 0
    while index < backlog.count {
      let request = backlog[index]
      if request.isServed {
        index += 1
        continue
      }
      // The writer of a large batch commits it itself, because a small request with the lead must not wait for it.
      if request.wantsLead || bytes >= bytesMaximum || bytes + request.payload.count > bytesMaximum {
        backlog.removeFirst(index + (request.wantsLead ? 1 : 0))
        request.wake(.leads)
        return true
      }
      bytes += request.payload.count
      commit(request, lead)
      request.isServed = true
      request.wake(.done)
      index += 1
    }
    backlog.removeAll(keepingCapacity: true)
    return false
  }

  /// Commits the new leader's own request, which may be in the backlog, before the others.
  func serveOwn(
    _ request: CommitRequest, _ lead: borrowing CommitLead, _ commit: (CommitRequest, borrowing CommitLead) -> Void
  ) {
    guard !request.isServed else { return }
    commit(request, lead)
    request.isServed = true
  }

  /// Moves the list to the backlog, in order of arrival.
  private func collect() {
    var bits = head.exchange(0, ordering: .sequentiallyConsistent)
    var newestFirst: [CommitRequest] = []
    while bits != 0 {
      let request = unsafe Unmanaged<CommitRequest>.fromOpaque(
        UnsafeRawPointer(bitPattern: bits).unsafelyUnwrapped
      ).takeRetainedValue()
      bits = request.next
      newestFirst.append(request)
    }
    backlog.append(contentsOf: newestFirst.reversed())
  }
}

/// A batch that waits for a leader, or a request to lead.
///
/// # Concurrency
/// Its writer creates it and sleeps; the leader then owns it until it wakes the writer.
final class CommitRequest: @unchecked Sendable {
  // Sendable: see Concurrency above.
  enum State: UInt32 { case waits = 0, done = 1, leads = 2 }

  let payload: ByteView
  let entryCount: Int
  let isLogged: Bool
  let terms: CommitTerms
  let wantsLead: Bool
  fileprivate var next: UInt = 0
  fileprivate var isServed = false
  private let word = Futex(State.waits.rawValue)

  var receipt = CommitPipeline.Receipt(sequence: .zero, position: .zero)
  var error: EngineError?

  init(
    payload: ByteView, entryCount: Int, isLogged: Bool, terms: CommitTerms = CommitTerms(), wantsLead: Bool = false
  ) {
    self.payload = payload
    self.entryCount = entryCount
    self.isLogged = isLogged
    self.terms = terms
    self.wantsLead = wantsLead
  }

  fileprivate func sleep() -> State {
    while true {
      let value = word.load()
      if let state = State(rawValue: value), state != .waits { return state }
      word.wait(while: value)
    }
  }

  fileprivate func wake(_ state: State) {
    word.store(state.rawValue)
    word.wake()
  }
}

/// Options and preconditions of one commit.
struct CommitTerms: Sendable {
  /// Offsets in the payload at which the commit's sequence is written. If there are any, the payload is the commit's
  /// own copy.
  var stamps: [Int] = []
  /// A precondition that the leader checks just before the write. The commit is refused if it does not hold.
  var condition: (any CommitCondition)?
  /// A Boolean value that indicates whether the commit is published to other processes only after it was synced.
  var waitsForSync = false
  /// The range deletes of a large batch, prepared by its writer.
  var prepared: PreparedTombstones?
  /// The bytes at the end of the payload that the database itself added, which a full disk does not refuse.
  var ownByteCount = 0
  /// A Boolean value that indicates whether the batch is one range tombstone over keys that are dead already.
  ///
  /// No reader sees a difference (`DeadRuns`).
  var isRedundant = false
}

/// A precondition of a batch. No other commit runs between the check and the write of the batch.
protocol CommitCondition: Sendable {
  /// Throws if the precondition does not hold. Called before any part of the batch is written.
  func check(_ lead: borrowing CommitLead) throws(EngineError)
}
