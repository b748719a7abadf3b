import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of commits of many threads on a real engine: they must have one total order, which is the order that reads
/// see.
struct CommitContentionTests {
  /// A commit that returned: the sequence of its last entry, the number of its entries, and the value that it wrote.
  private struct Commit {
    let last: UInt64
    let count: UInt64
    let number: UInt64
    let isBatch: Bool
  }

  /// The content at a snapshot of every writer's key, in the default family and in the other one.
  private struct Reading {
    let sequence: UInt64
    var numbers: [(main: UInt64, pair: UInt64)] = []
  }

  private final class Shared: Sendable {
    let engine: Engine
    let pair: ColumnFamily
    let dropped: ColumnFamily
    let writerCount: Int
    let threads = TestThreads()
    let writersLeft: Atomic<Int>
    let commits = Mutex<[Int: [Commit]]>([:])
    let readings = Mutex<[Reading]>([])

    init(_ engine: Engine, writerCount: Int) throws {
      self.engine = engine
      self.writerCount = writerCount
      writersLeft = Atomic(writerCount)
      pair = try engine.createFamily("pair")
      dropped = try engine.createFamily("dropped")
      // These families keep the oldest segments of the log, so that its bound is reached.
      for number in 0..<3 { try engine.put([0], [0], in: engine.createFamily("cold \(number)")) }
      try engine.dropFamily(dropped)
    }

    static func key(_ writer: Int) -> [UInt8] { [1, UInt8(writer)] }
  }

  static func value(_ number: UInt64, size: Int) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64($0 * 8)) } + [UInt8](repeating: 7, count: size)
  }

  static func number(_ value: [UInt8]?) -> UInt64 {
    (value ?? []).prefix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  private static let options: EngineOptions = {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.logSegmentSize = 64 << 10
    options.cacheSize = 1 << 20
    return options
  }()

  @Test(arguments: [2, 4, 8])
  func `commits of many threads have one order without gaps, and reads see it`(writerCount: Int) throws {
    let environment = EngineEnvironment.inMemory()
    let engine = try Engine.open(at: "/db", options: Self.options, environment: environment)
    let shared = try Shared(engine, writerCount: writerCount)
    let first = engine.visibleSequence.value
    for writer in 0..<writerCount {
      shared.threads.start("writer \(writer)") {
        var writer = Writer(shared, writer)
        try writer.run(steps: TestScale.atMost(6_000) / writerCount)
      }
    }
    for reader in 0..<2 { shared.threads.start("reader \(reader)") { try Self.read(shared) } }
    #expect(shared.threads.finish() == [])
    let commits = shared.commits.withLock { $0 }
    let last = Self.checkOrder(commits, after: first)
    #expect(engine.visibleSequence.value == last)
    let readings = shared.readings.withLock { $0 }
    for reading in readings { Self.check(reading, commits) }
    try engine.close()
    let reopened = try Engine.open(at: "/db", options: Self.options, environment: environment)
    #expect(reopened.visibleSequence.value == last)
    Self.check(try Self.reading(reopened, reopened.family(named: "pair"), writerCount), commits)
    #expect(try reopened.verify().faults.isEmpty)
    try reopened.close()
  }

  // MARK: - Threads

  /// The work of one writer, drawn from its number.
  private struct Writer {
    let shared: Shared
    let writer: Int
    var random: SeededRandom
    var number: UInt64 = 0
    var commits: [Commit] = []

    init(_ shared: Shared, _ writer: Int) {
      self.shared = shared
      self.writer = writer
      random = SeededRandom(seed: UInt64(writer))
    }

    mutating func run(steps: Int) throws {
      defer { shared.writersLeft.subtract(1, ordering: .releasing) }
      for _ in 0..<steps {
        switch random.below(200) {
        case 0..<90: try put()
        case 90..<170: try writeBatch()
        case 170..<190: failBatch()
        case 190..<194: try shared.engine.sync()
        case 194..<196: try shared.engine.flush()
        case 196..<198: try changeFamily()
        default: try putElsewhere(shared.engine.family(named: "cold 0"))
        }
      }
      shared.commits.withLock { $0[writer] = commits }
    }

    private mutating func drawDurability() -> Durability {
      [.process, .process, .process, .power, .none, .powerEvery(nanoseconds: 1_000_000)][random.below(6)]
    }

    private mutating func put() throws {
      number += 1
      let value = value(number, size: random.below(600))
      let sequence = try shared.engine.put(Shared.key(writer), value, durability: drawDurability())
      commits.append(Commit(last: sequence.value, count: 1, number: number, isBatch: false))
    }

    private mutating func writeBatch() throws {
      number += 1
      var batch = WriteBatch()
      try batch.put(Shared.key(writer), value(number, size: random.below(100)))
      for index in 0..<random.below(12) { try batch.put([3, UInt8(writer), UInt8(index)], value(number, size: 200)) }
      try batch.put(Shared.key(writer), value(number, size: 0), in: shared.pair)
      let sequence = try shared.engine.write(batch, durability: drawDurability())
      commits.append(Commit(last: sequence.value, count: UInt64(batch.count), number: number, isBatch: true))
    }

    /// Writes a batch that names a dropped family, at any position in a group: none of its entries may be written.
    private mutating func failBatch() {
      do {
        var batch = WriteBatch()
        try batch.put(Shared.key(writer), value(.max, size: 0))
        try batch.put([9], [9], in: shared.dropped)
        try shared.engine.write(batch, durability: drawDurability())
        shared.threads.report("writer \(writer) wrote to a family that was dropped")
      } catch {
        if error.code != .familyDropped { shared.threads.report("\(error) instead of .familyDropped") }
      }
    }

    private mutating func changeFamily() throws {
      let family = try shared.engine.createFamily("writer \(writer)")
      try putElsewhere(family)
      try shared.engine.dropFamily(family)
    }

    /// Makes a commit that no reader reads.
    private mutating func putElsewhere(_ family: ColumnFamily) throws {
      let sequence = try shared.engine.put([4], [4], in: family)
      commits.append(Commit(last: sequence.value, count: 1, number: number, isBatch: false))
    }
  }

  private static func read(_ shared: Shared) throws {
    var last: UInt64 = 0
    var found: [Reading] = []
    // Each reader reads several times, also if the writers have left it no time.
    while shared.writersLeft.load(ordering: .acquiring) > 0 || found.count < 10 {
      let reading = try reading(shared.engine, shared.pair, shared.writerCount)
      if reading.sequence < last { shared.threads.report("\(reading.sequence) was visible after \(last)") }
      last = reading.sequence
      if found.count < 3_000 { found.append(reading) }
    }
    shared.readings.withLock { $0 += found }
  }

  private static func reading(_ engine: Engine, _ pair: ColumnFamily, _ writerCount: Int) throws -> Reading {
    let snapshot = engine.snapshot()
    var reading = Reading(sequence: snapshot.sequence.value)
    for writer in 0..<writerCount {
      let main = try engine.get(Shared.key(writer), snapshot: snapshot)
      let other = try engine.get(Shared.key(writer), in: pair, snapshot: snapshot)
      reading.numbers.append((number(main), number(other)))
    }
    return reading
  }

  // MARK: - Checks

  /// Checks that each entry has its own sequence, and that there is no gap. Returns the last sequence.
  private static func checkOrder(_ commits: [Int: [Commit]], after first: UInt64) -> UInt64 {
    for (writer, commits) in commits {
      #expect(zip(commits, commits.dropFirst()).allSatisfy { $0.last < $1.last }, "writer \(writer) is out of order")
    }
    var last = first
    for commit in commits.values.flatMap({ $0 }).sorted(by: { $0.last < $1.last }) {
      if commit.last != last + commit.count {
        Issue.record("a commit of \(commit.count) ends at \(commit.last), and the one before it at \(last)")
        return commit.last
      }
      last = commit.last
    }
    return last
  }

  /// Checks that a snapshot saw exactly the commits up to its sequence.
  private static func check(_ reading: Reading, _ commits: [Int: [Commit]]) {
    for (writer, seen) in reading.numbers.enumerated() {
      let before = (commits[writer] ?? []).prefix { $0.last <= reading.sequence }
      let main = before.last?.number ?? 0
      let pair = before.last(where: \.isBatch)?.number ?? 0
      if seen.main != main || seen.pair != pair {
        Issue.record("at \(reading.sequence) writer \(writer)'s keys are \(seen), not \((main, pair))")
      }
    }
  }
}
