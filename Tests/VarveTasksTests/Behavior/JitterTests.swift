import Foundation
import Logging
import Testing
import Varve
import VarveTesting

@_spi(Extensions) @testable import VarveTasks

/// Tests of the random parts of delays.
struct JitterTests {
  /// Returns the delays in milliseconds after the first failures of some tasks.
  private static func delays(_ seed: UInt64?) async throws -> [Int64] {
    var configuration = TaskScheduler.Configuration()
    configuration.jitterSeed = seed
    configuration.workers = 4
    let database = try await Database.inMemory { TaskStorage.handle }
    let clock = ManualSchedulerClock()
    let scheduler = try TaskScheduler(database, configuration: configuration, clock: clock)
    try scheduler.register(Note.self) { _, _ in throw Broken() }
    let ids = try await database.write { tx in
      var options = TaskOptions()
      options.retry = .exponential(base: .seconds(100), jitter: 0.5)
      return try (0..<20).map { try tx.enqueue(Note("\($0)"), options).id }
    }
    try await scheduler.start()
    await scheduler.waitUntilIdle()
    let now = WallTime.milliseconds(clock.wallNow)
    let delays = try await database.read { tx in try ids.map { try (tx.task($0)?.due ?? 0) - now } }
    await scheduler.stop()
    try await database.close()
    return delays
  }

  @Test func `delays are random, and the same for each scheduler with the same seed`() async throws {
    let first = try await Self.delays(7)
    #expect(first.allSatisfy { 50_000...150_000 ~= $0 } && Set(first).count > 10)
    #expect(try await Self.delays(7) == first)
    #expect(try await Self.delays(8) != first)
    #expect(try await Self.delays(nil) != first)
  }
}
