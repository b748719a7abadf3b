import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of `.powerEvery`: the earliest deadline that was guaranteed counts, whatever else is pending.
struct PowerEveryTests {
  private static let millisecond: UInt64 = 1_000_000

  /// Writes one key with each duration, and returns the sequence of each commit.
  private static func put(_ milliseconds: [UInt64], _ engine: Engine) throws -> [SequenceNumber] {
    try milliseconds.enumerated().map { index, duration in
      try engine.put(
        ObservedEngine.key(index), [1], durability: .powerEvery(nanoseconds: duration * millisecond))
    }
  }

  @Test func `a commit with a short sync interval after a long one is synced in time`() throws {
    let observed = try ObservedEngine()
    let engine = observed.engine
    let sequences = try Self.put([60_000, 10], engine)
    observed.executor.clock.advance(9 * Self.millisecond)
    observed.executor.runAll()
    #expect(engine.durableSequence < sequences[0])
    observed.executor.clock.advance(Self.millisecond)
    observed.executor.runAll()
    #expect(engine.durableSequence == sequences[1])
    _ = try observed.close()
  }

  @Test func `a commit after the sync of a shorter interval is synced within its own interval`() throws {
    let observed = try ObservedEngine()
    let engine = observed.engine
    _ = try Self.put([100, 10], engine)
    observed.executor.clock.advance(10 * Self.millisecond)
    observed.executor.runAll()
    let late = try engine.put([2], [2], durability: .powerEvery(nanoseconds: 95 * Self.millisecond))
    // The job of the first commit runs after 100 ms, which is in time for the last one.
    #expect(observed.executor.pending.filter { $0 == "log.sync" }.count == 1)
    observed.executor.clock.advance(89 * Self.millisecond)
    observed.executor.runAll()
    #expect(engine.durableSequence < late)
    observed.executor.clock.advance(Self.millisecond)
    observed.executor.runAll()
    #expect(engine.durableSequence == late)
    _ = try observed.close()
  }

  @Test func `many commits of one sync interval share one job`() throws {
    let observed = try ObservedEngine()
    for _ in 0..<50 { _ = try Self.put([20], observed.engine) }
    #expect(observed.executor.pending.filter { $0 == "log.sync" }.count == 1)
    _ = try observed.close()
  }

  @Test(arguments: 1...20) func `every commit is synced within its interval, however intervals are mixed`(seed: UInt64)
    throws
  {
    let observed = try ObservedEngine(seed: seed)
    let (engine, clock) = (observed.engine, observed.executor.clock)
    var random = SeededRandom(seed: seed)
    var promises: [(sequence: SequenceNumber, due: UInt64)] = []
    for step in 0..<400 {
      if random.oneIn(2) {
        let duration = UInt64([1, 3, 10, 40, 60_000][random.below(5)]) * Self.millisecond
        let sequence = try engine.put(
          ObservedEngine.key(step), [1], durability: .powerEvery(nanoseconds: duration))
        promises.append((sequence, clock.now() + duration))
      } else {
        clock.advance(UInt64(random.below(5)) * Self.millisecond)
        observed.executor.runAll()
        let now = clock.now()
        if let due = promises.filter({ $0.due <= now }).map(\.sequence).max() {
          #expect(engine.durableSequence >= due, "step \(step)")
        }
      }
    }
    #expect(observed.executor.pending.filter { $0 == "log.sync" }.count <= 5)
    _ = try observed.close()
  }
}
