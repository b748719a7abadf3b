internal import Synchronization

/// Decides how fast writes may be accepted, so that flushes and compactions keep up.
///
/// It is pure arithmetic over its inputs, with the time passed in.
///
/// *Pressure* is the largest of three ratios: compaction debt to its bound, depth of level 0 beyond the trigger,
/// unflushed memtable bytes to the memory budget. Below one half, writes are unlimited. Above it a rate applies: it
/// starts at the current throughput, and its logarithm follows
///
///     d(log rate) = -integral * (pressure - 1/2) dt - proportional * d(pressure)
///
/// of the smoothed pressure: a PI controller on a logarithm, so it behaves the same at 5 and at 500 MB/s and needs no
/// knowledge of the disk. Whatever the inputs, the rate changes by at most 18 % in 100 ms. When the writer uses less
/// than half of the rate, the rate is dropped; that causes no step either. The gains are those at which the simulations
/// of `WriteControllerTests` don't overshoot; a larger integral makes the rate oscillate, because the pressure lags by
/// a memtable.
///
/// A commit waits in proportion to its bytes; no commit pays for another. The controller never stops writes. At the
/// memory budget they continue at the rate, or unpaced if there is no rate by then, until their memtable is full. Then
/// `MemTableManager` makes the commit wait for a flush.
///
/// # Concurrency
/// Safe from any thread. An unlimited write costs one relaxed load; a paced one a short lock.
final class WriteController: Sendable {
  struct Options: Sendable {
    /// Unpaid compaction bytes at which pressure is 1.
    var debtMaximum: UInt64 = 8 << 30
    /// The depths of level 0 at which its pressure begins, and at which it is 1.
    var depthMinimum = 10.0
    var depthMaximum = 36.0
    /// The bytes of memtables that wait to be flushed at which pressure is 1; see `Input.unflushedBytes`.
    var memoryBudget: UInt64 = 256 << 20
    /// The rate never falls below this, in bytes a second.
    var rateMinimum = 1_000_000.0
    /// The maximum time that a commit waits, in nanoseconds. Later commits pay the rest.
    var delayMaximum: UInt64 = 100_000_000

    /// The options for `Engine.derivedOptions`.
    var derived: [DerivedOption] {
      [
        .init(.writers, "memoryBudget", memoryBudget, "all frozen memtables and one more: writes stop there"),
        .init(.writers, "debtMaximum", debtMaximum, "a constant: unpaid compaction bytes of full pressure"),
        .init(.writers, "depthMinimum", depthMinimum, "a constant: the depth of level 0 that begins to count"),
        .init(.writers, "depthMaximum", depthMaximum, "a constant: the depth of level 0 of full pressure"),
        .init(.writers, "rateMinimum", rateMinimum, "a constant: bytes a second that are let through always"),
        .init(.writers, "delayMaximum", delayMaximum, "a constant: nanoseconds that a commit waits at most"),
      ]
    }
  }

  /// The controller's inputs. They are passed after each flush and compaction, each freeze of a memtable, and whenever
  /// else they are available.
  struct Input: Sendable {
    /// Nanoseconds of the engine's clock.
    var now: UInt64
    /// Bytes of all commits since the engine opened.
    var acceptedBytes: UInt64
    /// The value of `LeveledCompactionPicker.debtBytes` of all families, less what running compactions have done.
    var debtBytes: UInt64
    /// The deepest level 0 of any family. A running compaction of it counts for its remaining part.
    var levelZeroDepth: Double
    /// Bytes of frozen memtables that are not in a table yet. Until the next input, `delay` adds the bytes of commits.
    var unflushedBytes: UInt64
  }

  /// The result of `delay` at the memory budget while there is no rate. The caller does not pause: the commit itself
  /// waits for a flush when its memtable is full.
  static let unpaced = UInt64.max

  private static let setPoint = 0.5
  private static let proportionalGain = 5.0
  private static let integralGain = 0.02
  private static let smoothingSeconds = 0.3
  /// The time over which the flow is smoothed. It is short because the rate must start at the current throughput.
  private static let flowSmoothingSeconds = 0.2
  /// The maximum change of the rate's logarithm per second: ln 1.18 in 100 ms.
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
    /// Accepted bytes per second, smoothed.
    var flow = 0.0
    /// The allowed bytes per second, or `nil` if unlimited.
    var rate: Double?
    /// The time until which earlier commits have used the rate.
    var paidUntil: UInt64 = 0
  }

  private let options: Options
  private let memoryBudget: Atomic<UInt64>
  private let state = Mutex(State())
  /// A Boolean value that indicates whether `delay` must be called: there is a rate, or memtables are at the memory
  /// budget.
  ///
  /// It is loaded relaxed: a commit that sees a change late is one commit too fast or too slow.
  private let isEngaged = Atomic<Bool>(false)

  init(_ options: Options = Options()) {
    self.options = options
    memoryBudget = Atomic(options.memoryBudget)
  }

  /// Changes the memtable bytes at which pressure is 1.
  func setMemoryBudget(_ bytes: UInt64) { memoryBudget.store(bytes, ordering: .relaxed) }

  /// A Boolean value that indicates whether commits need not wait.
  @inline(__always)
  var isFree: Bool { !isEngaged.load(ordering: .relaxed) }

  /// The allowed bytes per second, or `nil` if unlimited. For statistics.
  var rate: Double? { state.withLock { $0.rate } }

  /// Returns the largest of the three ratios, not smoothed.
  func pressure(_ input: Input) -> Double {
    let debt = Double(input.debtBytes) / Double(max(options.debtMaximum, 1))
    let depthSpan = max(options.depthMaximum - options.depthMinimum, 1)
    let depth = max(input.levelZeroDepth - options.depthMinimum, 0) / depthSpan
    let memory = Double(input.unflushedBytes) / Double(max(memoryBudget.load(ordering: .relaxed), 1))
    return max(debt, depth, memory)
  }

  /// Takes new measurements.
  func update(_ input: Input) {
    state.withLock { state in
      state.input = input
      state.accepted = max(state.accepted, input.acceptedBytes)
      tick(&state, now: input.now)
    }
  }

  /// Returns the time that a commit of `bytes` must wait: nanoseconds, or `unpaced`.
  @inline(__always)
  func delay(bytes: Int, now: @autoclosure () -> UInt64) -> UInt64 {
    if isFree { return 0 }
    return pacedDelay(UInt64(bytes), now())
  }

  @inline(never)
  private func pacedDelay(_ bytes: UInt64, _ now: UInt64) -> UInt64 {
    state.withLock { state in
      state.accepted += bytes
      // Bytes accepted since the last update are in the active memtable.
      state.input?.unflushedBytes += bytes
      tick(&state, now: now)
      guard let rate = state.rate else { return state.input.map(isOverBudget) == true ? Self.unpaced : 0 }
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
    // After a long pause one step counts for at most a second.
    adjust(&state, change: state.smoothed - before, seconds: min(elapsed, 1))
  }

  private func adjust(_ state: inout State, change: Double, seconds: Double) {
    let excess = state.smoothed - Self.setPoint
    guard let rate = state.rate else {
      // Without write traffic there is no flow to throttle and no rate to start from.
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
    // The factor is e^x to the second order: |x| is small except after a long pause, where the lower bound applies.
    state.rate = max(rate * max(1 + step + step * step / 2, 0.25), options.rateMinimum)
  }
}

extension MemoryPlan {
  var controllerOptions: WriteController.Options {
    var controller = WriteController.Options()
    // Only frozen memtables are counted, because the active ones always exist.
    controller.memoryBudget = UInt64(frozenBytesMaximum + memtableSize)
    return controller
  }
}
