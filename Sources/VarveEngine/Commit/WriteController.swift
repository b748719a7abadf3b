internal import Synchronization

/// Decides how fast writes may come, so that flushes and compactions keep up: pure arithmetic over
/// what it is told, with the time passed in.
///
/// *Pressure* is the largest of three shares: unpaid compaction bytes of their bound, depth of level
/// 0 beyond the trigger, unflushed memtable bytes of the memory budget. Below one half writes are
/// free. From there a rate holds: it begins at what flows at that moment, and its logarithm follows
///
///     d(log rate) = -integral * (pressure - 1/2) dt - proportional * d(pressure)
///
/// of the smoothed pressure: a PI controller on a logarithm, so it behaves the same at 5 and at 500
/// MB/s and needs no knowledge of the disk. Whatever the inputs do, the rate moves by at most 18 % in
/// 100 ms. When the writer uses less than half of what it may, the rate is given up, and then that is
/// no step either. The gains are those at which the simulations of `WriteControllerTests` don't
/// overshoot; a larger integral makes the rate swing, because the pressure lags by a memtable.
///
/// The wait of a commit is its bytes at the rate, spread evenly: nobody pays for another. At the memory
/// budget, and without a rate by then, writes stop; with one they go on at it, until their memtable is full.
///
/// # Concurrency
/// Safe from any thread. A free write costs one relaxed load; a paced one a short lock.
final class WriteController: Sendable {
  struct Options: Sendable {
    /// Unpaid compaction bytes at which pressure is 1.
    var debtMaximum: UInt64 = 8 << 30
    /// The depth of level 0 at which its pressure begins, and at which it is 1.
    var depthMinimum = 10.0
    var depthMaximum = 36.0
    /// Bytes of all memtables, active and frozen, at which writes stop.
    var memoryBudget: UInt64 = 256 << 20
    /// The rate never falls below this, in bytes a second.
    var rateMinimum = 1_000_000.0
    /// A commit waits at most this long; what it still owes, the next ones pay.
    var delayMaximum: UInt64 = 100_000_000
  }

  /// What the controller is told: after each flush and compaction, each freeze of a memtable, and
  /// otherwise whenever it is at hand.
  struct Input: Sendable {
    /// Nanoseconds of the engine's clock.
    var now: UInt64
    /// Bytes of all commits since the engine opened.
    var acceptedBytes: UInt64
    /// `LeveledCompactionPicker.debtBytes` of all families, less what running compactions did so far.
    var debtBytes: UInt64
    /// The deepest level 0 of any family; a running compaction of it counts by what is not done yet.
    var levelZeroDepth: Double
    /// Bytes of all memtables, active and frozen.
    var unflushedBytes: UInt64
  }

  /// The answer of `delay` that means: wait until a flush is done, then ask again.
  static let stop = UInt64.max

  private static let setPoint = 0.5
  private static let proportionalGain = 5.0
  private static let integralGain = 0.02
  private static let smoothingSeconds = 0.3
  /// Short: the rate must begin at what flows now.
  private static let flowSmoothingSeconds = 0.2
  /// ln 1.18 in 100 ms.
  private static let slewPerSecond = 1.655
  private static let tickSeconds = 0.01

  private struct State: Sendable {
    var input: Input?
    /// Pressure smoothed over `smoothingSeconds`.
    var smoothed = 0.0
    var lastTick: UInt64 = 0
    /// Bytes of all commits, now and at the last tick.
    var accepted: UInt64 = 0
    var acceptedAtTick: UInt64 = 0
    /// Bytes a second that came, smoothed.
    var flow = 0.0
    /// Bytes a second that may come; nil: any.
    var rate: Double?
    /// When the commits so far have paid.
    var paidUntil: UInt64 = 0
  }

  private let options: Options
  private let memoryBudget: Atomic<UInt64>
  private let state = Mutex(State())
  /// Nonzero: writes are paced or stopped, and `delay` must be asked. Relaxed: a commit that sees it
  /// late is one commit too fast or too slow.
  private let isEngaged = Atomic<Bool>(false)

  init(_ options: Options = Options()) {
    self.options = options
    memoryBudget = Atomic(options.memoryBudget)
  }

  /// Changes the bytes of memtables at which writes stop.
  func setMemoryBudget(_ bytes: UInt64) { memoryBudget.store(bytes, ordering: .relaxed) }

  /// Whether commits go without a wait.
  @inline(__always)
  var isFree: Bool { !isEngaged.load(ordering: .relaxed) }

  /// Bytes a second that may come; nil: any. For statistics.
  var rate: Double? { state.withLock { $0.rate } }

  /// The largest of the three shares, not smoothed.
  func pressure(_ input: Input) -> Double {
    let debt = Double(input.debtBytes) / Double(max(options.debtMaximum, 1))
    let depthSpan = max(options.depthMaximum - options.depthMinimum, 1)
    let depth = max(input.levelZeroDepth - options.depthMinimum, 0) / depthSpan
    let memory = Double(input.unflushedBytes) / Double(max(memoryBudget.load(ordering: .relaxed), 1))
    return max(debt, depth, memory)
  }

  /// Takes new figures.
  func update(_ input: Input) {
    state.withLock { state in
      state.input = input
      state.accepted = max(state.accepted, input.acceptedBytes)
      tick(&state, now: input.now)
    }
  }

  /// How long a commit of `bytes` waits before it goes on: nanoseconds, or `stop`.
  @inline(__always)
  func delay(bytes: Int, now: @autoclosure () -> UInt64) -> UInt64 {
    if isFree { return 0 }
    return pacedDelay(UInt64(bytes), now())
  }

  @inline(never)
  private func pacedDelay(_ bytes: UInt64, _ now: UInt64) -> UInt64 {
    state.withLock { state in
      state.accepted += bytes
      // What was accepted since the last figures is in the active memtable.
      state.input?.unflushedBytes += bytes
      tick(&state, now: now)
      guard let rate = state.rate else { return state.input.map(isOverBudget) == true ? Self.stop : 0 }
      let start = max(state.paidUntil, now > 2_000_000 ? now - 2_000_000 : 0)
      state.paidUntil = start + UInt64(Double(bytes) / rate * 1e9)
      return start > now ? min(start - now, options.delayMaximum) : 0
    }
  }

  private func isOverBudget(_ input: Input) -> Bool {
    input.unflushedBytes >= memoryBudget.load(ordering: .relaxed)
  }

  // MARK: - The controller

  private func tick(_ state: inout State, now: UInt64) {
    guard let input = state.input else { return }
    defer { isEngaged.store(state.rate != nil || isOverBudget(input), ordering: .relaxed) }
    if state.lastTick == 0 {
      state.lastTick = now
      state.acceptedAtTick = state.accepted
      state.smoothed = pressure(input)
      return
    }
    guard now > state.lastTick else { return }
    let elapsed = Double(now - state.lastTick) / 1e9
    guard elapsed >= Self.tickSeconds else { return }
    let flow = Double(state.accepted - state.acceptedAtTick) / elapsed
    let weight = min(elapsed / Self.smoothingSeconds, 1)
    let before = state.smoothed
    state.flow += (flow - state.flow) * min(elapsed / Self.flowSmoothingSeconds, 1)
    state.smoothed += (pressure(input) - before) * weight
    state.lastTick = now
    state.acceptedAtTick = state.accepted
    // After a long silence one step is not worth more than a second.
    adjust(&state, change: state.smoothed - before, seconds: min(elapsed, 1))
  }

  private func adjust(_ state: inout State, change: Double, seconds: Double) {
    let excess = state.smoothed - Self.setPoint
    guard let rate = state.rate else {
      // Nothing flows: nothing to hold back, and no rate to begin from.
      if excess > 0, state.flow > options.rateMinimum { state.rate = state.flow }
      return
    }
    if excess < 0, state.flow * 2 < rate {
      state.rate = nil
      return
    }
    let wanted = -Self.integralGain * excess * seconds - Self.proportionalGain * change
    let limit = Self.slewPerSecond * seconds
    let step = min(max(wanted, -limit), limit)
    // e^x to the second order: |x| is small except after a silence, and there the floor holds.
    state.rate = max(rate * max(1 + step + step * step / 2, 0.25), options.rateMinimum)
  }
}

extension MemoryPlan {
  var controllerOptions: WriteController.Options {
    var controller = WriteController.Options()
    // Frozen memtables alone are counted: the active ones are always there.
    controller.memoryBudget = UInt64(frozenBytesMaximum + memtableSize)
    return controller
  }
}
