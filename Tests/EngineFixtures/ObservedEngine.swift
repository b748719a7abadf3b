import EngineTestSupport
import Synchronization

@testable import VarveEngine

/// An in-memory engine with stepped background work and time, and the events its listener received.
final class ObservedEngine {
  let engine: Engine
  let executor: SteppedExecutor
  let faults: FaultInjectingFileSystem
  private let log: EventLog

  init(_ options: EngineOptions = SmallEngine.options(), seed: UInt64 = 5) throws {
    let executor = SteppedExecutor(seed: seed)
    let random = Mutex(SeededRandom(seed: seed))
    let faults = FaultInjectingFileSystem(MemoryFileSystem())
    let log = EventLog()
    var options = options
    options.listener = log
    engine = try Engine.open(
      at: "/db", options: options,
      environment: EngineEnvironment(
        fileSystem: faults, clock: executor.clock, random: { random.withLock { $0.next() } },
        makeExecutor: { _ in executor }))
    self.executor = executor
    self.faults = faults
    self.log = log
  }

  func put(_ range: Range<Int>, round: Int = 0, in family: ColumnFamily? = nil) throws {
    for index in range { try engine.put(ObservedEngine.key(index), Array("value \(index) \(round)".utf8), in: family) }
  }

  /// Returns the key of a number. Keys sort in the order of their numbers.
  static func key(_ index: Int) -> [UInt8] {
    let digits = String(index)
    return Array(("key" + String(repeating: "0", count: max(0, 8 - digits.utf8.count)) + digits).utf8)
  }

  /// The number of events that were dropped because the listener was too slow.
  var droppedCount: UInt64 { engine.core.background.metrics.events.droppedCount }

  /// Closes the engine, and returns all events.
  func close() throws -> [EngineEvent] {
    try engine.close()
    return log.events
  }
}

/// An event listener that keeps all events.
final class EventLog: EventListener {
  private let list = Mutex<[EngineEvent]>([])

  func engineDidReport(_ event: EngineEvent) { list.withLock { $0.append(event) } }

  var events: [EngineEvent] { list.withLock { $0 } }
}
