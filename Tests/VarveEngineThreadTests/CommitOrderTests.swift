import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#endif

/// Tests of what may happen while a commit is in progress, observed from within the calls that it makes.
struct CommitOrderTests {
  /// The state that the parts of a test share.
  private final class Shared: Sendable {
    let engine: Engine
    let faults: FaultInjectingFileSystem
    let notes = Mutex<[String]>([])

    init() throws {
      faults = FaultInjectingFileSystem(MemoryFileSystem())
      // Background jobs run only when a test steps them: otherwise the log's next segment would be synced, too.
      let executor = SteppedExecutor(seed: 5)
      let random = Mutex(SeededRandom(seed: 5))
      let environment = EngineEnvironment(
        fileSystem: faults, clock: executor.clock, random: { random.withLock { $0.next() } },
        makeExecutor: { _ in executor })
      engine = try Engine.open(at: "/db", options: DamageFixture.options(), environment: environment)
      executor.runAll()
    }

    func note(_ text: String) { notes.withLock { $0.append(text) } }

    /// Records what `body` returns or throws.
    func note(_ name: String, _ body: () throws(EngineError) -> String) {
      do throws(EngineError) { note("\(name): \(try body())") } catch { note("\(name): \(error.code)") }
    }

    var all: [String] { notes.withLock { $0 } }
  }

  @Test func `a commit is visible before it is durable`() throws {
    let shared = try Shared()
    let engine = shared.engine
    shared.faults.interruptNext(.sync, pathSuffix: ".log") {
      shared.note("get") { () throws(EngineError) in "\(try engine.get([1]) ?? [])" }
      shared.note(engine.durableSequence < engine.visibleSequence ? "not durable" : "durable")
    }
    try engine.put([1], [7], durability: .power)
    #expect(shared.all == ["get: [7]", "not durable"])
    #expect(engine.durableSequence == engine.visibleSequence)
    try engine.close()
  }

  @Test func `commits are appended and acknowledged while another commit is being synced`() throws {
    let shared = try Shared()
    let engine = shared.engine
    shared.faults.interruptNext(.sync, pathSuffix: ".log") {
      let before = engine.core.background.pipeline.acceptedBytes
      // The put would never return if it had to wait for the sync during which it is made.
      shared.note("put") { () throws(EngineError) in
        try engine.put([2], [8], durability: .process)
        return "\(try engine.get([2]) ?? [])"
      }
      shared.note(engine.core.background.pipeline.acceptedBytes > before ? "appended" : "not appended")
    }
    try engine.put([1], [7], durability: .power)
    #expect(shared.all == ["put: [8]", "appended"])
    try engine.close()
  }

  @Test func `a batch that waits while one of its families is dropped fails as a whole`() throws {
    let shared = try Shared()
    let engine = shared.engine
    let family = try engine.createFamily("short-lived")
    var batch = WriteBatch()
    try batch.put([1], [7])
    try batch.put([2], [8], in: family)
    let waiting = batch
    let writer = Mutex<EngineThread?>(nil)
    let manifest = FileName.manifest(try Manifest.currentNumber(directory: "/db", fileSystem: shared.faults)).name
    shared.faults.interruptNext(.sync, pathSuffix: manifest) {
      let thread = EngineThread(name: "writer") {
        shared.note("write") { () throws(EngineError) in "\(try engine.write(waiting))" }
      }
      writer.withLock { $0 = thread }
      // The drop leads while it makes itself durable, so the batch stays in the list.
      while !engine.core.background.pipeline.queue.hasWaiting { sched_yield() }
    }
    try engine.dropFamily(family)
    writer.withLock { $0.take() }?.join()
    #expect(shared.all == ["write: familyDropped"])
    #expect(try engine.get([1]) == nil)
    try engine.put([1], [9])
    try engine.close()
    #expect(shared.faults.failureCount == 0)
  }
}
