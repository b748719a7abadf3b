internal import Dispatch
internal import FutexLocks
internal import Synchronization

/// One writer at a time, in order of arrival, whether it waits on a thread or in a task.
///
/// # States
/// *Free*: nobody holds it, nobody waits. *Held*: somebody does, and the others wait in a line. Who lets go
/// hands it to the first of the line, so nobody who comes later gets it before.
///
/// A waiter is woken once: by getting the writer, by its timeout, or by its task's cancellation; whoever
/// takes it out of the line decides.
///
/// # Concurrency
/// One lock, held for a few instructions; waiters are woken outside of it.
final class WriterQueue: Sendable {
  private struct Holder {
    let label: String?
    let since: ContinuousClock.Instant
  }

  private struct State {
    var holder: Holder?
    var waiters = WaiterLine()
    var nextNumber: UInt64 = 0
    var isClosed = false
    /// When the timer goes off that ends waits of tasks. One does for all of them: of thousands of waits a second
    /// hardly one comes to its end.
    var timer: ContinuousClock.Instant?
    var timerCount: UInt64 = 0

    /// Sets the timer to `deadline` where it would go off later; nil where it need not be started.
    mutating func setTimer(_ deadline: ContinuousClock.Instant?) -> ContinuousClock.Instant? {
      guard let deadline, timer.map({ deadline < $0 }) ?? true else { return nil }
      timer = deadline
      timerCount += 1
      return deadline
    }
  }

  enum Outcome: Sendable {
    case granted
    case busy(label: String?, since: ContinuousClock.Instant)
    case canceled
    case closed
  }

  private let state = FutexLock(State())

  /// How many wait.
  var waiterCount: Int { state.withLock { $0.waiters.count } }

  /// How many timers were ever started.
  var timerCount: UInt64 { state.withLock { $0.timerCount } }

  /// How many have ever waited, or come to.
  var arrivalCount: UInt64 { state.withLock { $0.nextNumber } }

  // MARK: - Getting it

  /// Takes the writer where it is free.
  func tryAcquire(_ label: String?) throws -> Bool {
    try state.withLock { state in
      if state.isClosed { throw Self.closedError }
      guard state.holder == nil else { return false }
      state.holder = Holder(label: label, since: .now)
      return true
    }
  }

  /// Waits for the writer on this thread. Throws `.writerBusy` and `.closed`.
  func acquire(_ label: String?, timeout: Duration) throws {
    if try tryAcquire(label) { return }
    let semaphore = DispatchSemaphore(value: 0)
    let outcome = Mutex<Outcome?>(nil)
    let box = OutcomeBox(outcome: outcome, semaphore: semaphore)
    let number = enqueue(label) { box.set($0) }
    if semaphore.wait(timeout: .now() + timeout.dispatchInterval) == .timedOut { giveUp(number, .timedOut) }
    // Whoever took it out of the line has set the outcome, or is about to.
    box.waitUntilSet()
    try Self.check(box.value)
  }

  /// Waits for the writer without a thread. Throws `.writerBusy`, `.closed`, and `CancellationError` at once when
  /// the task is cancelled.
  func acquire(_ label: String?, timeout: Duration) async throws {
    try Task.checkCancellation()
    if try tryAcquire(label) { return }
    let number = Mutex<UInt64?>(nil)
    let place = NumberBox(number)
    let outcome = await withTaskCancellationHandler {
      await withCheckedContinuation { (continuation: CheckedContinuation<Outcome, Never>) in
        let number = enqueue(label, deadline: timeout.deadline) { continuation.resume(returning: $0) }
        // A cancellation before this finds no number; so it is looked for here again.
        place.set(number)
        if Task.isCancelled { giveUp(number, .canceled) }
      }
    } onCancel: {
      if let number = place.value { giveUp(number, .canceled) }
    }
    try Self.check(outcome)
  }

  /// Calls `wake` once: when the writer is had, at once where it is free, or when it can't be had any more. Who has
  /// got it releases it.
  func acquire(_ label: String?, wake: @escaping @Sendable (Outcome) -> Void) { _ = enqueue(label, wake) }

  private func enqueue(
    _ label: String?, deadline: ContinuousClock.Instant? = nil, _ wake: @escaping @Sendable (Outcome) -> Void
  ) -> UInt64 {
    let (number, atOnce, timer) = state.withLock { state -> (UInt64, Outcome?, ContinuousClock.Instant?) in
      state.nextNumber += 1
      if state.isClosed { return (state.nextNumber, .closed, nil) }
      if state.holder == nil {
        state.holder = Holder(label: label, since: .now)
        return (state.nextNumber, .granted, nil)
      }
      state.waiters.append(
        WaiterLine.Waiter(number: state.nextNumber, label: label, deadline: deadline, wake: wake))
      return (state.nextNumber, nil, state.setTimer(deadline))
    }
    if let atOnce { wake(atOnce) }
    if let timer { startTimer(timer) }
    return number
  }

  // MARK: - Giving up

  private enum Reason { case timedOut, canceled }

  private func giveUp(_ number: UInt64, _ reason: Reason) {
    let woken: (WaiterLine.Waiter, Outcome)? = state.withLock { state in
      guard let holder = state.holder, let waiter = state.waiters.remove(number) else { return nil }
      return (waiter, reason == .canceled ? .canceled : Self.busy(holder))
    }
    if let (waiter, outcome) = woken { waiter.wake(outcome) }
  }

  private func startTimer(_ deadline: ContinuousClock.Instant) {
    let interval = max(.zero, deadline - .now).dispatchInterval
    DispatchQueue.global().asyncAfter(deadline: .now() + interval) { [weak self] in self?.endWaits(deadline) }
  }

  /// Ends the waits that are due, and sets the timer for the next that will be.
  private func endWaits(_ deadline: ContinuousClock.Instant) {
    let (due, outcome, next) = state.withLock { state -> ([WaiterLine.Waiter], Outcome, ContinuousClock.Instant?) in
      if state.timer == deadline { state.timer = nil }
      guard let holder = state.holder else { return ([], .closed, nil) }
      let due = state.waiters.removeAll(dueAt: .now)
      return (due, Self.busy(holder), state.setTimer(state.waiters.earliestDeadline))
    }
    for waiter in due { waiter.wake(outcome) }
    if let next { startTimer(next) }
  }

  private static func busy(_ holder: Holder) -> Outcome { .busy(label: holder.label, since: holder.since) }

  private static func check(_ outcome: Outcome) throws {
    switch outcome {
    case .granted: return
    case .canceled: throw CancellationError()
    case .closed: throw closedError
    case .busy(let label, let since):
      let holder = label.map { "\"\($0)\"" } ?? "a transaction without a label"
      throw DatabaseError(
        .writerBusy, "the writer is held by \(holder) since \(ContinuousClock.now - since); it was waited for")
    }
  }

  static var closedError: DatabaseError { DatabaseError(.closed, "the database was closed") }

  // MARK: - Letting go

  /// Hands the writer to the first waiter. Returns the label of the one that held it, and for how long it did.
  @discardableResult
  func release() -> (label: String?, taken: Duration)? {
    let now = ContinuousClock.now
    // Nearly always no one waits.
    let held = state.withLock { $0.waiters.count == 0 ? $0.holder.take() : nil } ?? handOver(now)
    guard let held else { return nil }
    return (held.label, now - held.since)
  }

  @inline(never)
  private func handOver(_ now: ContinuousClock.Instant) -> Holder? {
    let (held, next) = state.withLock { state in
      let held = state.holder
      let next = state.waiters.popFirst()
      state.holder = next.map { Holder(label: $0.label, since: now) }
      return (held, next)
    }
    next?.wake(.granted)
    return held
  }

  /// Whether `close` was called.
  var isClosed: Bool { state.withLock { $0.isClosed } }

  /// Nobody gets the writer any more; who waits is told so. Whoever holds it continues.
  func close() {
    let waiters = state.withLock { state in
      state.isClosed = true
      return state.waiters.removeAll()
    }
    for waiter in waiters { waiter.wake(.closed) }
  }
}

/// Where a waiter on a thread learns how its wait ended.
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

  /// When it is over; nil where that is in more than some centuries.
  fileprivate var deadline: ContinuousClock.Instant? { dispatchInterval == .never ? nil : .now + self }
}
