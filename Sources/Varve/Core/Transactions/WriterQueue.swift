internal import CVarve
internal import Dispatch
internal import FutexLocks
internal import Synchronization

/// A queue for the writer, which only one caller at a time holds, whether it waits on a thread or in a task.
///
/// # States
///
///     free ─▶ held ─▶ free (no one waits)
///                 ├─▶ free, and the first of the line is called: it takes the writer, or the caller that comes before
///                 │   it
///                 ╰─▶ held by the first of the line (it was called before, and found the writer held; or `isStrict`)
///
/// A thread needs tens of microseconds to wake up, and a short transaction takes a tenth of that. The writer is
/// therefore not reserved for a waiter that still has to wake up: running callers may take it meanwhile. One waiter is
/// called at a time, and a waiter that was called but finds the writer held is put back as the first, and is handed the
/// writer by its holder. A waiter is thus overtaken only as long as the wake-ups of the waiters before it last, and
/// waiters keep their order among each other.
///
/// A waiter leaves the queue once: by being called or handed the writer, by its timeout, or by its task's cancellation.
/// The caller that removes it from the queue determines which.
///
/// # Concurrency
/// There is one lock, held for a few instructions; waiters are woken outside of it.
final class WriterQueue: Sendable {
  private struct Holder {
    let label: String?
    let since: ContinuousClock.Instant
  }

  private struct State {
    var holder: Holder?
    var waiters = WaiterQueue()
    /// Whether a waiter was called, and has not responded yet.
    var hasCalled = false
    var nextNumber: UInt64 = 0
    var isClosed = false
    /// The time at which the timer fires that ends the waits of tasks. There is a single timer, because hardly one of
    /// thousands of waits per second times out.
    var timer: ContinuousClock.Instant?
    var timerCount: UInt64 = 0

    /// Sets the timer to `deadline` if it would fire later. Returns the deadline of the timer to start, or `nil` if
    /// none has to be started.
    mutating func setTimer(_ deadline: ContinuousClock.Instant?) -> ContinuousClock.Instant? {
      guard let deadline, timer.map({ deadline < $0 }) ?? true else { return nil }
      timer = deadline
      timerCount += 1
      return deadline
    }
  }

  enum Outcome: Sendable {
    case granted
    /// The writer was free when the waiter was called.
    case called
    case busy(label: String?, since: ContinuousClock.Instant)
    case canceled
    case closed
  }

  private let state = FutexLock(State())
  /// Whether the writer is held, for callers that check it repeatedly.
  private let heldWord = Atomic<Bool>(false)
  /// Whether each waiter is handed the writer, so that no caller that arrives later gets it first.
  private let isStrict: Bool
  /// The number of times that a thread checks whether the writer is free before it waits: about as long as a wake-up
  /// takes.
  private static let checkCount = 2_000
  /// The time after which a holder is not expected to release the writer soon.
  private static let shortHold = Duration.microseconds(50)

  init(isStrict: Bool = false) { self.isStrict = isStrict }

  /// The number of waiters.
  var waiterCount: Int { state.withLock { $0.waiters.count } }

  /// The number of timers that were ever started.
  var timerCount: UInt64 { state.withLock { $0.timerCount } }

  // MARK: - Acquiring

  /// Acquires the writer if it is free.
  func tryAcquire(_ label: String?) throws -> Bool {
    try state.withLock { state in
      if state.isClosed { throw Self.closedError }
      guard state.holder == nil else { return false }
      hold(&state, label, .now)
      return true
    }
  }

  /// Acquires the writer if it is free, or becomes free within the time that waking a waiter would take. Throws
  /// `.closed`.
  func acquireSoon(_ label: String?) throws -> Bool {
    if try tryAcquire(label) { return true }
    guard !isStrict, state.withLock({ $0.holder.map { .now - $0.since < Self.shortHold } ?? true }) else {
      return false
    }
    for _ in 0..<Self.checkCount {
      if heldWord.load(ordering: .relaxed) {
        cvarve_pause()
      } else if try tryAcquire(label) {
        return true
      }
    }
    return false
  }

  private func hold(_ state: inout State, _ label: String?, _ now: ContinuousClock.Instant) {
    state.holder = Holder(label: label, since: now)
    heldWord.store(true, ordering: .relaxed)
  }

  /// Waits for the writer on this thread. Throws `.writerBusy` and `.closed`.
  func acquire(_ label: String?, timeout: Duration) throws {
    if try acquireSoon(label) { return }
    let end = DispatchTime.now() + timeout.dispatchInterval
    var called: UInt64?
    while true {
      let semaphore = DispatchSemaphore(value: 0)
      let box = OutcomeBox(outcome: Mutex(nil), semaphore: semaphore)
      let number = enqueue(label, called: called, isCalled: !isStrict) { box.set($0) }
      if semaphore.wait(timeout: end) == .timedOut { giveUp(number, .timedOut) }
      // A caller that has removed the waiter from the queue has set the outcome, or is about to.
      box.waitUntilSet()
      if try Self.check(box.value) { return }
      called = number
    }
  }

  /// Waits for the writer without occupying a thread. Throws `.writerBusy`, `.closed`, and, at once when the task is
  /// cancelled, `CancellationError`.
  func acquire(_ label: String?, timeout: Duration) async throws {
    try Task.checkCancellation()
    if try tryAcquire(label) { return }
    let deadline = timeout.deadline
    var called: UInt64?
    while true {
      let number = NumberBox(Mutex(nil))
      let before = called
      let outcome = await withTaskCancellationHandler {
        await withCheckedContinuation { (continuation: CheckedContinuation<Outcome, Never>) in
          let own = enqueue(label, deadline: deadline, called: before, isCalled: !isStrict) {
            continuation.resume(returning: $0)
          }
          // A cancellation before this point finds no number, so it is checked for here again.
          number.set(own)
          if Task.isCancelled { giveUp(own, .canceled) }
        }
      } onCancel: {
        if let number = number.value { giveUp(number, .canceled) }
      }
      if try Self.check(outcome) { return }
      called = number.value
    }
  }

  /// Calls `wake` once: when the writer is acquired, which is at once if it is free, or when it can't be acquired any
  /// more. The receiver of the writer must release it.
  func acquire(_ label: String?, wake: @escaping @Sendable (Outcome) -> Void) { _ = enqueue(label, wake) }

  /// Acquires the writer if it is free, or adds a waiter to the queue: as the first, if it was `called` and finds the
  /// writer held. Returns the waiter's number. With `isCalled` the waiter can be called instead of being handed the
  /// writer.
  private func enqueue(
    _ label: String?, deadline: ContinuousClock.Instant? = nil, called: UInt64? = nil, isCalled: Bool = false,
    _ wake: @escaping @Sendable (Outcome) -> Void
  ) -> UInt64 {
    let (number, atOnce, timer) = state.withLock { state -> (UInt64, Outcome?, ContinuousClock.Instant?) in
      if called == nil { state.nextNumber += 1 } else { state.hasCalled = false }
      let number = called ?? state.nextNumber
      if state.isClosed { return (number, .closed, nil) }
      if state.holder == nil {
        hold(&state, label, .now)
        return (number, .granted, nil)
      }
      let waiter = WaiterQueue.Waiter(
        number: number, label: label, deadline: deadline, isCalled: isCalled && called == nil, wake: wake)
      if called == nil { state.waiters.append(waiter) } else { state.waiters.putBack(waiter) }
      return (number, nil, state.setTimer(deadline))
    }
    if let atOnce { wake(atOnce) }
    if let timer { startTimer(timer) }
    return number
  }

  // MARK: - Giving up

  private enum Reason { case timedOut, canceled }

  private func giveUp(_ number: UInt64, _ reason: Reason) {
    let woken: (WaiterQueue.Waiter, Outcome)? = state.withLock { state in
      guard let waiter = state.waiters.remove(number) else { return nil }
      return (waiter, reason == .canceled ? .canceled : Self.busy(state.holder))
    }
    if let (waiter, outcome) = woken { waiter.wake(outcome) }
  }

  private func startTimer(_ deadline: ContinuousClock.Instant) {
    let interval = max(.zero, deadline - .now).dispatchInterval
    DispatchQueue.global().asyncAfter(deadline: .now() + interval) { [weak self] in self?.endWaits(deadline) }
  }

  /// Ends the waits that are due, and sets the timer for the next deadline.
  private func endWaits(_ deadline: ContinuousClock.Instant) {
    let (due, outcome, next) = state.withLock { state -> ([WaiterQueue.Waiter], Outcome, ContinuousClock.Instant?) in
      if state.timer == deadline { state.timer = nil }
      let due = state.waiters.removeAll(dueAt: .now)
      return (due, Self.busy(state.holder), state.setTimer(state.waiters.earliestDeadline))
    }
    for waiter in due { waiter.wake(outcome) }
    if let next { startTimer(next) }
  }

  /// If there is no holder, a waiter that was called is about to acquire the writer.
  private static func busy(_ holder: Holder?) -> Outcome { .busy(label: holder?.label, since: holder?.since ?? .now) }

  /// Returns whether the writer is acquired; false means that the waiter was called. Throws if the writer can't be
  /// acquired.
  private static func check(_ outcome: Outcome) throws -> Bool {
    switch outcome {
    case .granted: return true
    case .called: return false
    case .canceled: throw CancellationError()
    case .closed: throw closedError
    case .busy(let label, let since):
      let holder = label.map { "\"\($0)\"" } ?? "a transaction without a label"
      throw DatabaseError(
        .writerBusy, "the writer is held by \(holder) since \(ContinuousClock.now - since); it was waited for")
    }
  }

  static var closedError: DatabaseError { DatabaseError(.closed, "the database was closed") }

  // MARK: - Releasing

  /// Releases the writer, and calls the first waiter or hands the writer to it. Returns the label of the previous
  /// holder, and the time for which it held the writer.
  @discardableResult
  func release() -> (label: String?, taken: Duration)? {
    let now = ContinuousClock.now
    // There are nearly always no waiters.
    let held = state.withLock { state in state.waiters.count == 0 ? free(&state) : nil } ?? handOver(now)
    guard let held else { return nil }
    return (held.label, now - held.since)
  }

  private func free(_ state: inout State) -> Holder? {
    heldWord.store(false, ordering: .relaxed)
    return state.holder.take()
  }

  @inline(never)
  private func handOver(_ now: ContinuousClock.Instant) -> Holder? {
    let (held, next) = state.withLock { state -> (Holder?, WaiterQueue.Waiter?) in
      let held = free(&state)
      if state.hasCalled { return (held, nil) }
      guard let next = state.waiters.popFirst() else { return (held, nil) }
      if next.isCalled { state.hasCalled = true } else { hold(&state, next.label, now) }
      return (held, next)
    }
    if let next { next.wake(next.isCalled ? .called : .granted) }
    return held
  }

  /// Whether `close` was called.
  var isClosed: Bool { state.withLock { $0.isClosed } }

  /// Prevents further acquisitions, and ends all waits with an error. A caller that holds the writer continues.
  func close() {
    let waiters = state.withLock { state in
      state.isClosed = true
      return state.waiters.removeAll()
    }
    for waiter in waiters { waiter.wake(.closed) }
  }
}

/// The outcome of a wait on a thread.
private final class OutcomeBox: Sendable {
  private let outcome: Mutex<WriterQueue.Outcome?>
  private let semaphore: DispatchSemaphore
  private let isSet = DispatchSemaphore(value: 0)

  init(outcome: consuming Mutex<WriterQueue.Outcome?>, semaphore: DispatchSemaphore) {
    self.outcome = outcome
    self.semaphore = semaphore
  }

  func set(_ value: WriterQueue.Outcome) {
    outcome.withLock { $0 = value }
    isSet.signal()
    semaphore.signal()
  }

  func waitUntilSet() { isSet.wait() }

  var value: WriterQueue.Outcome { outcome.withLock { $0 } ?? .closed }
}

/// The number of a waiter, for the handler of its cancellation.
private final class NumberBox: Sendable {
  private let number: Mutex<UInt64?>
  init(_ number: consuming Mutex<UInt64?>) { self.number = number }
  func set(_ value: UInt64) { number.withLock { $0 = value } }
  var value: UInt64? { number.withLock { $0 } }
}

extension Duration {
  var dispatchInterval: DispatchTimeInterval {
    let (seconds, attoseconds) = components
    let nanoseconds = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    return nanoseconds.overflow
      ? .never : .nanoseconds(Int(clamping: nanoseconds.partialValue + attoseconds / 1_000_000_000))
  }

  /// The time at which the duration ends when it begins now, or `nil` if that is more than some centuries away.
  fileprivate var deadline: ContinuousClock.Instant? { dispatchInterval == .never ? nil : .now + self }
}
