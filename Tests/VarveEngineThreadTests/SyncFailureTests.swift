import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// Tests of what writers, readers and the next opening see of a failed sync.
struct SyncFailureTests {
  private static let path = "/db"

  private static func options() -> EngineOptions {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.logSegmentSize = 64 << 10
    return options
  }

  private static func key(_ index: Int) -> [UInt8] { Array("key\(10_000 + index)".utf8) }

  /// Opens an engine whose background jobs run only when the test steps them.
  private static func open(_ fileSystem: any FileSystem, seed: UInt64 = 1) throws -> (Engine, SteppedExecutor) {
    let executor = SteppedExecutor(seed: seed)
    let numbers = Mutex(SeededRandom(seed: seed))
    let environment = EngineEnvironment(
      fileSystem: fileSystem, clock: executor.clock, random: { numbers.withLock { $0.next() } },
      makeExecutor: { _ in executor })
    return (try Engine.open(at: path, options: options(), environment: environment), executor)
  }

  private static func code(_ body: () throws -> Void) -> EngineError.Code? {
    do {
      try body()
      return nil
    } catch { return (error as? EngineError)?.code }
  }

  @Test func `the caller whose sync failed gets the error, and the engine continues`() throws {
    let disk = CrashFileSystem(seed: 3)
    let (engine, _) = try Self.open(disk)
    try engine.put(Self.key(0), [0], durability: .power)
    for index in 1..<20 { try engine.put(Self.key(index), [UInt8(index)]) }
    disk.failSyncs(ofPathsEndingIn: ".log")
    #expect(Self.code { try engine.put(Self.key(20), [20], durability: .power) } == .outcomeUnknown)
    #expect(engine.durableSequence == engine.visibleSequence)
    try engine.put(Self.key(21), [21], durability: .power)
    try engine.put(Self.key(22), [22])
    let (again, _) = try Self.open(disk.crashImage(seed: 1, policy: .loseAllUnsynced), seed: 2)
    for index in 0..<22 { #expect(try again.get(Self.key(index)) == [UInt8(index)]) }
    #expect(try again.get(Self.key(22)) == nil)
    #expect(try again.verify().faults.isEmpty)
    try again.close()
    #expect(try engine.verify().faults.isEmpty)
    try engine.close()
  }

  @Test func `a failed sync of a timer is repaired without an error`() throws {
    let disk = CrashFileSystem(seed: 3)
    let (engine, executor) = try Self.open(disk)
    executor.runAll()
    try engine.put(Self.key(1), [1], durability: .powerEvery(nanoseconds: 1_000))
    disk.failSyncs(ofPathsEndingIn: ".log")
    executor.clock.advance(2_000)
    executor.runAll()
    #expect(disk.failedSyncCount == 1)
    let (again, _) = try Self.open(disk.crashImage(seed: 1, policy: .loseAllUnsynced), seed: 2)
    #expect(try again.get(Self.key(1)) == [1])
    try again.close()
    try engine.close()
  }

  @Test func `a close whose sync fails logs again and closes`() throws {
    let disk = CrashFileSystem(seed: 3)
    let (engine, _) = try Self.open(disk)
    for index in 0..<20 { try engine.put(Self.key(index), [UInt8(index)]) }
    disk.failSyncs(ofPathsEndingIn: ".log")
    try engine.close()
    #expect(disk.failedSyncCount == 1)
    let (again, _) = try Self.open(disk.crashImage(seed: 1, policy: .loseAllUnsynced), seed: 2)
    for index in 0..<20 { #expect(try again.get(Self.key(index)) == [UInt8(index)]) }
    try again.close()
  }

  /// The faults when the log is to continue: in the sync of the new segment, in its creation, or in the MANIFEST.
  private static let secondFaults: [Fault] = [
    Fault([.sync], pathSuffix: ".log", count: Fault.always),
    Fault([.createFile], pathSuffix: ".log", count: Fault.always, code: .noSpace),
    Fault([.write], pathSuffix: ".log", count: Fault.always, code: .noSpace, writesHalf: true),
    Fault([.syncDirectory], count: Fault.always),
    // The log's own failing sync, that of the zeros and that of the new segment precede the one of the MANIFEST.
    Fault([.sync], skip: 3, count: Fault.always),
  ]

  @Test(arguments: secondFaults.indices)
  func `after a second failure the engine refuses writes with the cause until a resume`(index: Int) throws {
    let second = Self.secondFaults[index]
    let disk = CrashFileSystem(seed: 3)
    let fileSystem = FaultInjectingFileSystem(disk)
    let (engine, executor) = try Self.open(fileSystem)
    let other = try engine.createFamily("other")
    try engine.put(Self.key(0), [0], durability: .power)
    try engine.put(Self.key(1), [1], in: other)
    fileSystem.inject(Fault([.sync], pathSuffix: ".log"))
    fileSystem.inject(second)
    #expect(Self.code { try engine.put(Self.key(2), [2], durability: .power) } == .outcomeUnknown)
    for _ in 0..<2 {
      do {
        try engine.put(Self.key(3), [3])
        Issue.record("a write after the second failure")
      } catch {
        // An error that ends by itself keeps its code.
        #expect(error.code == (second.code == .noSpace ? .noSpace : .readOnly))
        let cause = error.cause as? EngineError
        #expect(cause?.code == second.code)
        #expect((cause?.cause as? EngineError)?.code == .inputOutput, "the first failure")
      }
    }
    #expect(Self.code { try engine.sync() } == .outcomeUnknown)
    #expect(try engine.get(Self.key(2)) == [2])
    #expect(try engine.get(Self.key(1), in: other) == [1])
    #expect(try engine.get(Self.key(3)) == nil)
    executor.step()
    fileSystem.clear()
    #expect(Self.code { try engine.put(Self.key(3), [3]) } != nil, "until someone tries again")
    for policy in CrashPolicy.allCases {
      let (again, _) = try Self.open(disk.crashImage(seed: 1, policy: policy), seed: 2)
      #expect(try again.get(Self.key(0)) == [0])
      #expect(try again.get(Self.key(3)) == nil)
      try again.put(Self.key(4), [4], durability: .power)
      try again.close()
    }
    try engine.resume()
    try engine.put(Self.key(3), [3], durability: .power)
    let (last, _) = try Self.open(disk.crashImage(seed: 1, policy: .loseAllUnsynced), seed: 2)
    for index in 0...3 where index != 1 { #expect(try last.get(Self.key(index)) == [UInt8(index)]) }
    #expect(try last.get(Self.key(1), in: try last.family(named: "other")) == [1])
    try last.close()
    try engine.close()
  }

  @Test func `entries that a failed sync dropped are durable as soon as another engine has read them`() throws {
    let disk = CrashFileSystem(seed: 3)
    let (engine, executor) = try Self.open(disk)
    executor.runAll()
    try engine.put(Self.key(0), [0], durability: .power)
    for index in 1..<20 { try engine.put(Self.key(index), [UInt8(index)]) }
    // The second failing sync is that of the new segment: after it, the engine is read-only.
    disk.failSyncs(ofPathsEndingIn: ".log", count: 2)
    #expect(Self.code { try engine.sync() } == .outcomeUnknown)
    #expect(disk.failedSyncCount == 2)
    // The machine keeps running: everything can be read, but no later sync would make it durable.
    #expect(throws: EngineError.self) { try engine.close() }
    let (second, _) = try Self.open(disk, seed: 2)
    for index in 0..<20 { #expect(try second.get(Self.key(index)) == [UInt8(index)]) }
    try second.put(Self.key(20), [20], durability: .power)
    let (third, _) = try Self.open(disk.crashImage(seed: 1, policy: .loseAllUnsynced), seed: 3)
    for index in 0...20 { #expect(try third.get(Self.key(index)) == [UInt8(index)]) }
    #expect(try third.verify().faults.isEmpty)
    try third.close()
    try second.close()
  }

  // MARK: - Threads

  /// The outcomes of each writer's commits.
  private final class Writers: Sendable {
    let engine: Engine
    let acknowledged = Mutex<[Int]>([])
    let unknown = Atomic<Int>(0)
    let odd = Mutex<[String]>([])

    init(_ engine: Engine) { self.engine = engine }

    func write(_ range: Range<Int>) {
      for index in range {
        do throws(EngineError) {
          // Some values fill memtables, so that flushes run concurrently.
          let size = index % 7 == 0 ? 3_000 : 8
          try engine.put(
            SyncFailureTests.key(index), [UInt8](repeating: UInt8(index % 251), count: size),
            durability: index % 3 == 0 ? .process : .power)
          if index % 3 != 0 { acknowledged.withLock { $0.append(index) } }
        } catch {
          if error.code == .outcomeUnknown {
            unknown.add(1, ordering: .relaxed)
          } else {
            odd.withLock { $0.append("\(error)") }
          }
        }
      }
    }
  }

  @Test(arguments: [0, 3, 20, 90])
  func `writers that wait for a sync get their durability from the new segment`(skip: Int) throws {
    let disk = CrashFileSystem(seed: 4)
    var environment = EngineEnvironment.system
    environment.fileSystem = disk
    let engine = try Engine.open(at: Self.path, options: Self.options(), environment: environment)
    let writers = Writers(engine)
    disk.failSyncs(ofPathsEndingIn: ".log", after: skip)
    let threads = (0..<4).map { number in
      EngineThread(name: "writer") { writers.write(number * 1_000..<number * 1_000 + 150) }
    }
    for thread in threads { thread.join() }
    #expect(disk.failedSyncCount == 1)
    #expect(writers.odd.withLock { $0 } == [])
    // Only the caller whose own sync failed gets the error, and none if that was a sync of a job of the engine.
    #expect(writers.unknown.load(ordering: .relaxed) <= 1)
    let (again, _) = try Self.open(disk.crashImage(seed: 1, policy: .loseAllUnsynced), seed: 2)
    for index in writers.acknowledged.withLock({ $0 }) {
      #expect(try again.get(Self.key(index))?.first == UInt8(index % 251), "key \(index)")
    }
    try again.close()
    try engine.close()
  }
}
