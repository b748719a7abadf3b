import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of large values in an engine that loses power, or whose disk fails, at any operation.
struct LargeValueCrashTests {
  private static let size = Limits.largeSize + 1

  private static func open(_ disk: CrashFileSystem, seed: UInt64) throws -> Engine {
    let executor = SteppedExecutor(seed: seed, clock: ManualClock(1_000_000_000))
    let numbers = Mutex(SeededRandom(seed: seed))
    let environment = EngineEnvironment(
      fileSystem: disk, clock: executor.clock, random: { numbers.withLock { $0.next() } },
      makeExecutor: { _ in executor })
    return try Engine.open(at: "/db", options: SmallEngine.options(), environment: environment)
  }

  private static func environment(_ disk: HookedFileSystem) -> EngineEnvironment {
    var environment = EngineEnvironment.inMemory()
    environment.fileSystem = disk
    return environment
  }

  /// Returns a value that compresses if `byte` is even.
  private static func value(_ byte: UInt8, _ count: Int = LargeValueCrashTests.size) -> [UInt8] {
    var value = [UInt8](repeating: byte, count: count)
    var random = SeededRandom(seed: UInt64(byte))
    for start in stride(from: 0, to: count, by: byte % 2 == 0 ? 64 : 8) {
      let word = random.next()
      for index in start..<min(start + 8, count) {
        value[index] = UInt8(truncatingIfNeeded: word >> UInt64(8 * (index - start)))
      }
    }
    return value
  }

  /// The values that the two keys may have after a crash: one of these states.
  private struct Guarantee: Sendable {
    /// The number of states that were begun, that were acknowledged, and that are durable.
    var begun = 0
    var acknowledged = 0
    var durable = 0
  }

  @Test(arguments: [true, false])
  func `after a crash at any operation a large value is there as a whole or not at all`(mapping: Bool) throws {
    /// The first key's value and the second one's after each write. A batch changes both.
    let states: [[[UInt8]?]] = [
      [nil, nil], [Self.value(2), nil], [Self.value(3), nil], [Self.value(4), Self.value(5)], [Self.value(4), nil],
    ]
    let disk = CrashFileSystem(seed: 3, mapsFiles: mapping)
    let engine = try Self.open(disk, seed: 3)
    let shared = Mutex((guarantee: Guarantee(), points: [(CrashPoint, Guarantee)](), seen: 0))
    disk.observe { operation, capture in
      let isSampled = shared.withLock { shared in
        shared.seen += 1
        // Most operations write zeros to segments of the log.
        return operation.size != SegmentPool.zeroPieceSize || shared.seen % 16 == 0
      }
      guard isSampled else { return }
      let point = capture()
      shared.withLock { $0.points.append((point, $0.guarantee)) }
    }
    func write(_ state: Int, isDurable: Bool, _ body: () throws -> Void) rethrows {
      shared.withLock { $0.guarantee.begun = state }
      try body()
      shared.withLock { shared in
        shared.guarantee.acknowledged = state
        if isDurable { shared.guarantee.durable = state }
      }
    }
    try write(1, isDurable: true) { try engine.put([1], Self.value(2), durability: .power) }
    try write(2, isDurable: false) { try engine.put([1], Self.value(3)) }
    try engine.flush()
    shared.withLock { $0.guarantee.durable = 2 }
    try write(3, isDurable: false) {
      var batch = WriteBatch()
      try batch.put([1], Self.value(4))
      try batch.put([2], Self.value(5))
      try engine.write(batch)
    }
    try write(4, isDurable: true) { try engine.delete([2], durability: .power) }
    try engine.compact()
    disk.observe(nil)
    let points = shared.withLock { $0.points }
    #expect(points.count > 60)
    var random = SeededRandom(seed: 4)
    for (index, (point, guarantee)) in points.enumerated() {
      let policy = CrashPolicy.allCases[random.below(CrashPolicy.allCases.count)]
      let seed = random.next()
      let location = "point \(index), \(point.operation.map { "\($0)" } ?? ""), \(policy), seed \(seed)"
      let again = try Self.open(point.image(seed: seed, policy: policy), seed: seed)
      let found = [try again.get([1]), try again.get([2])]
      let least = policy == .processKill ? guarantee.acknowledged : guarantee.durable
      let isAllowed = (least...guarantee.begun).contains { found == states[$0] }
      #expect(isAllowed, "\(location): \(found.map { $0.map { ($0.count, $0.first) } }), \(guarantee)")
      #expect(try again.verify().faults.isEmpty, "\(location)")
      try again.close()
    }
    print("large values, mapping \(mapping): \(points.count) points")
  }

  @Test func `a large value whose sync failed is logged again, and survives with what follows`() throws {
    let disk = CrashFileSystem(seed: 5)
    let engine = try Self.open(disk, seed: 5)
    try engine.put([1], Self.value(2), durability: .power)
    disk.failSyncs(ofPathsEndingIn: ".log")
    // No caller waits for a sync that precedes the value's own, such as that of the segment before: then there is no
    // error.
    do throws(EngineError) {
      try engine.put([2], Self.value(3), durability: .power)
    } catch {
      #expect(error.code == .outcomeUnknown)
    }
    #expect(disk.failedSyncCount == 1)
    try engine.put([3], Self.value(4), durability: .power)
    try engine.put([4], [1], durability: .power)
    let image = disk.crashImage(seed: 6, policy: .loseAllUnsynced)
    let again = try Self.open(image, seed: 7)
    for (key, byte) in [(1, 2), (2, 3), (3, 4)] as [(UInt8, UInt8)] {
      #expect(try again.get([key]) == Self.value(byte), "key \(key)")
    }
    #expect(try again.get([4]) == [1])
    try again.close()
  }

  @Test func `a large value that does not fit on the disk changes nothing, and a smaller one is written`() throws {
    let disk = HookedFileSystem()
    var options = SmallEngine.options()
    options.logSegmentSize = 4 << 20
    let engine = try Engine.open(at: "/db", options: options, environment: Self.environment(disk))
    try engine.put([1], Self.value(2))
    // The disk is full in the middle of the value's piece, also if the record gets a segment of its own.
    disk.hook { path, count in
      path.hasSuffix(".log") && count > Limits.largeSize / 2 ? .failing(.part(count / 2)) : .whole
    }
    for _ in 0..<3 {
      let error = #expect(throws: EngineError.self) { try engine.put([1], Self.value(3)) }
      #expect(error?.code == .noSpace)
    }
    #expect(try engine.get([1]) == Self.value(2))
    disk.hook(nil)
    try engine.put([2], [7])
    try engine.put([1], Self.value(5))
    try engine.close()
    let again = try Engine.open(at: "/db", options: options, environment: Self.environment(disk))
    #expect(try again.get([1]) == Self.value(5))
    #expect(try again.get([2]) == [7])
    try again.close()
  }

  @Test func `a flush of a large value that finds the disk full in the middle is repeated`() throws {
    let disk = HookedFileSystem()
    let engine = try Engine.open(at: "/db", options: SmallEngine.options(), environment: Self.environment(disk))
    for byte in 2...3 as ClosedRange<UInt8> {
      try engine.put([byte], Self.value(byte))
      disk.hook { path, count in path.hasSuffix(".sst") && count > 1_000 ? .failing(.part(count / 2)) : .whole }
      #expect(throws: EngineError.self) { try engine.flush() }
      #expect(try engine.get([byte]) == Self.value(byte))
      disk.hook(nil)
      try engine.resume()
      try engine.flush()
      #expect(try engine.get([byte]) == Self.value(byte))
    }
    #expect(try engine.verify().faults.isEmpty)
    try engine.close()
  }

  /// The files are those of the system, whose log is mapped if the file system is suitable. The segments grow until
  /// they have room for several large values, so that records are stored and written in turn.
  @Test func `values of all sizes around the limit are found after an opening without a close`() throws {
    let directory = try TemporaryDirectory()
    var options = EngineOptions()
    options.memtableSize = 64 << 20
    options.logSegmentSize = 16 << 20
    let sizes = [900_000, 1, Limits.largeSize - 1, 20, Limits.largeSize, 300, Limits.largeSize + 1, 7, 3 << 20]
    func value(_ index: Int) -> [UInt8] { Self.value(UInt8(index), sizes[index % sizes.count]) }
    let count = 5 * sizes.count
    do {
      let engine = try Engine.open(at: directory.path + "/db", options: options)
      for index in 0..<count {
        try engine.put([UInt8(index)], value(index), durability: index % 7 == 0 ? .power : .process)
      }
    }
    for isFlushed in [false, true] {
      let engine = try Engine.open(at: directory.path + "/db", options: options)
      for index in 0..<count {
        #expect(try engine.get([UInt8(index)]) == value(index), "value \(index), flushed: \(isFlushed)")
      }
      if !isFlushed { try engine.compact() }
      #expect(try engine.verify().faults.isEmpty)
      try engine.close()
    }
  }

  @Test func `threads that put large and small values at once lose none`() throws {
    let engine = try Engine.open(at: "/db", options: SmallEngine.options(), environment: .inMemory())
    let threads = TestThreads()
    let sequences = Mutex<Set<UInt64>>([])
    let (threadCount, roundCount) = (4, 3)
    for thread in 0..<threadCount {
      threads.start("writer \(thread)") {
        for round in 0..<roundCount {
          for (kind, size) in [Self.size, 10, 2 * Self.size, 100].enumerated() {
            let key = [UInt8(thread), UInt8(round), UInt8(kind)]
            let sequence = try engine.put(key, Self.value(UInt8(16 * thread + 4 * round + kind), size))
            sequences.withLock { _ = $0.insert(sequence.value) }
          }
        }
      }
    }
    #expect(threads.finish() == [])
    #expect(sequences.withLock { $0.count } == threadCount * roundCount * 4)
    for thread in 0..<threadCount {
      for round in 0..<roundCount {
        for (kind, size) in [Self.size, 10, 2 * Self.size, 100].enumerated() {
          let found = try engine.get([UInt8(thread), UInt8(round), UInt8(kind)])
          #expect(found == Self.value(UInt8(16 * thread + 4 * round + kind), size), "\(thread), \(round), \(kind)")
        }
      }
    }
    try engine.close()
  }
}
