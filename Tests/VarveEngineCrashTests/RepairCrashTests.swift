import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// Tests of repairs on a disk that loses power at each of their operations: the next repair must finish the work.
struct RepairCrashTests {
  private static func repair(_ disk: CrashFileSystem, seed: UInt64) throws -> RepairReport {
    let clock = ManualClock()
    let random = Mutex(SeededRandom(seed: seed))
    let environment = EngineEnvironment(
      fileSystem: disk, clock: clock, random: { random.withLock { $0.next() } },
      makeExecutor: { _ in SteppedExecutor(seed: seed, clock: clock) })
    return try Engine.repair(at: "/db", environment: environment)
  }

  @Test(arguments: [false, true])
  func `a repair that a crash interrupts is finished by the next repair`(losesAll: Bool) throws {
    let disk = CrashFileSystem(seed: 13)
    let engine = try CheckpointCrashTests.makeSource(disk)
    let expected = try engine.content()
    try engine.close()
    try disk.remove("/db/CURRENT")
    if losesAll {
      for name in try disk.list("/db") where name.hasPrefix("MANIFEST") { try disk.remove("/db/" + name) }
    }
    try disk.syncDirectory("/db")
    let points = Mutex<[CrashPoint]>([])
    disk.observe { _, capture in points.withLock { $0.append(capture()) } }
    let report = try Self.repair(disk, seed: 5)
    disk.observe(nil)
    #expect(report.isChanged && report.losses.allSatisfy { !$0.holdsEntries }, "\(report.losses)")
    var images = 0
    for (index, point) in (points.withLock { $0 } + [disk.crashPoint]).enumerated() {
      for policy in CrashPolicy.allCases {
        for seed in 0..<UInt64(2 * TestScale.value) {
          let image = point.image(seed: seed &* 31 &+ UInt64(index), policy: policy)
          let location = "operation \(point.operation.map { "\($0)" } ?? "none"), \(policy), seed \(seed)"
          _ = try Self.repair(image, seed: 6)
          let repaired = try CheckpointCrashTests.open(image, at: "/db", seed: 3)
          #expect(try repaired.content() == expected, "\(location)")
          let faults = try repaired.verify().faults
          #expect(faults.isEmpty, "\(location): \(faults)")
          try repaired.close()
          images += 1
        }
      }
    }
    print("repair crashes: \(points.withLock { $0.count }) operations, \(images) images")
    #expect(images > 50)
  }
}
