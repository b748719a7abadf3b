/// The loop of the scheduler, as the dispatcher sees it: whether a caller runs it, the turn and the commit that it
/// makes, and what callers request of it.
///
/// - At most one caller runs the loop: the one that has set `isPumping`. It runs it until a turn has no work.
/// - While a commit is made, each row that a transaction removes is in `removedMeanwhile`, so that the effects of the
///   commit do not bring it back.
/// - A task is in `changing` only if no transaction held it when it was added. A transaction that holds it later finds
///   it there.
struct DispatchLoop: ~Copyable {
  /// Whether a caller takes work, or is about to.
  var isPumping = false
  /// Whether a commit of the scheduler is being made.
  var isCommitting = false
  /// The rows that transactions have removed since the commit was begun.
  private(set) var removedMeanwhile: Set<[UInt8]> = []
  /// The tasks that the commit which is being made may change, besides those whose attempts begin or end in it.
  var changing: Set<TaskID> = []
  /// The number of turns.
  private(set) var turn: UInt64 = 0
  /// The number of rows that the turn has read up to now.
  var turnRowCount = 0
  /// The changes that callers have requested.
  var requests: [ChangeRequest] = []
  /// Whether a request was left out of the last turn, because it is about many tasks.
  private var isRequestNext = false

  mutating func beginTurn() {
    changing = []
    turn += 1
    turnRowCount = 0
  }

  /// Ends the last turn, which has no work. New work must begin the loop again.
  mutating func pause() {
    isPumping = false
    isCommitting = false
    removedMeanwhile = []
  }

  mutating func beginCommit() {
    isCommitting = true
    removedMeanwhile = []
  }

  /// Ends a commit. The rows that were removed since it began are remembered until the next one.
  mutating func endCommit() {
    isCommitting = false
    changing = []
  }

  /// Notes that a transaction has removed a row.
  mutating func noteRemoved(_ key: [UInt8]) { if isCommitting { removedMeanwhile.insert(key) } }

  /// Takes the next request. Requests are handled one after the other, so that each one sees the changes of those
  /// before it.
  ///
  /// One that is about many tasks is the first work of a turn, and if there are ends that wait for the turn, it may
  /// come only in every second one.
  mutating func takeRequest(_ work: inout TurnWork, hasEnds: Bool) {
    guard let request = requests.first else { return }
    let isLarge = request.ids.count > TurnWork.share
    if isLarge, !isRequestNext, hasEnds {
      isRequestNext = true
      return
    }
    isRequestNext = false
    work.requests = [requests.removeFirst()]
  }
}
