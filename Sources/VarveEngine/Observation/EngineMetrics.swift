internal import Synchronization

/// Metrics, timers and events of an engine: one object that every part of it shares.
///
/// Safe from any thread.
final class EngineMetrics: Sendable {
  let clock: any EngineClock
  let events = EventQueue()
  let counters = EngineCounters()
  let latencies: OperationLatencies
  let frozenMemTables: StallMeter
  let writeController: StallMeter
  let logSegment: StallMeter
  private let memory = Mutex<MemoryCharge?>(nil)

  init(clock: any EngineClock) {
    self.clock = clock
    latencies = OperationLatencies(clock: clock)
    frozenMemTables = StallMeter(.frozenMemTables, clock: clock, events: events)
    writeController = StallMeter(.writeController, clock: clock, events: events)
    logSegment = StallMeter(.logSegment, clock: clock, events: events)
  }

  /// Charges the memory of this object to an account.
  func charge(to account: MemoryAccount) {
    memory.withLock { $0 = MemoryCharge(OperationLatencies.memorySize, to: account) }
  }

  /// The stall meters, one for each cause for which a writer waits (`StallCause`).
  var stalls: [StallMeter] { [frozenMemTables, writeController, logSegment] }
}
