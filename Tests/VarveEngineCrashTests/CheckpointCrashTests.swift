import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// Tests of checkpoints on a disk that loses power at each of their operations.
struct CheckpointCrashTests {
  private static let target = "/checkpoint"

  static func open(_ disk: CrashFileSystem, at path: String, seed: UInt64) throws -> Engine {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.logSegmentSize = 64 << 10
    options.cacheSize = 256 << 10
    let clock = ManualClock()
    let random = Mutex(SeededRandom(seed: seed))
    let environment = EngineEnvironment(
      fileSystem: disk, clock: clock, random: { random.withLock { $0.next() } },
      makeExecutor: { _ in SteppedExecutor(seed: seed, clock: clock) })
    return try Engine.open(at: path, options: options, environment: environment)
  }

  /// Creates tables on two levels of two families, a replayed segment and a new one, all of them durable.
  static func makeSource(_ disk: CrashFileSystem) throws -> Engine {
    let first = try open(disk, at: "/db", seed: 1)
    let other = try first.createFamily("other")
    for index in 0..<60 {
      try first.put([UInt8(index)], [UInt8](repeating: 1, count: 100))
      try first.put([UInt8(index)], [2], in: other)
      if index == 30 { try first.compact() }
    }
    try first.flush()
    try first.put([100], [3])
    try first.put([100], [4], in: other)
    try first.close()
    let engine = try open(disk, at: "/db", seed: 2)
    try engine.put([101], [5])
    try engine.put([5], [6], in: try engine.family(named: "other"))
    try engine.sync()
    return engine
  }

  @Test func `after a crash at any operation the database is whole, and the checkpoint whole or absent`() throws {
    let disk = CrashFileSystem(seed: 11)
    let engine = try Self.makeSource(disk)
    let expected = try engine.content()
    let points = Mutex<[CrashPoint]>([])
    disk.observe { _, capture in points.withLock { $0.append(capture()) } }
    try engine.checkpoint(to: Self.target)
    disk.observe(nil)
    let after = disk.crashPoint
    var (absent, whole) = (0, 0)
    for (index, point) in (points.withLock { $0 } + [after]).enumerated() {
      for policy in CrashPolicy.allCases {
        for seed in 0..<UInt64(4 * TestScale.value) {
          let image = point.image(seed: seed &* 31 &+ UInt64(index), policy: policy)
          let location = "operation \(point.operation.map { "\($0)" } ?? "none"), \(policy), seed \(seed)"
          let source = try Self.open(image, at: "/db", seed: 3)
          #expect(try source.content() == expected, "\(location)")
          if try image.attributes(Self.target) == nil {
            absent += 1
            #expect(point.operation != nil, "\(location): acknowledged, and gone")
            // The remains of the crash must not prevent another checkpoint.
            if seed == 0 { try source.checkpoint(to: Self.target) }
          } else {
            whole += 1
          }
          try source.close()
          guard try image.attributes(Self.target) != nil else { continue }
          let copy = try Self.open(image, at: Self.target, seed: 4)
          #expect(try copy.content() == expected, "\(location)")
          let faults = try copy.verify().faults
          #expect(faults.isEmpty, "\(location): \(faults)")
          try copy.close()
        }
      }
    }
    print("checkpoint crashes: \(points.withLock { $0.count }) operations; \(absent) images without, \(whole) with it")
    #expect(absent > 100 && whole > 10)
    try engine.close()
  }

  @Test func `a checkpoint made after a failed sync contains every commit`() throws {
    let disk = CrashFileSystem(seed: 12)
    let engine = try Self.makeSource(disk)
    try engine.put([110], [7])
    disk.failSyncs(ofPathsEndingIn: ".log")
    #expect(throws: EngineError.self) { try engine.put([111], [8], durability: .power) }
    #expect(disk.failedSyncCount == 1)
    try engine.put([112], [9])
    let expected = try engine.content()
    #expect(expected["default"]?.suffix(3).map(\.key) == [[110], [111], [112]])
    try engine.checkpoint(to: Self.target)
    let image = disk.crashPoint.image(seed: 1, policy: .loseAllUnsynced)
    let copy = try Self.open(image, at: Self.target, seed: 4)
    #expect(try copy.content() == expected)
    try copy.close()
    try engine.close()
  }
}
