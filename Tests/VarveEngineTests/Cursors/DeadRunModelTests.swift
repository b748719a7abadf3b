import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of random runs in which most keys are deleted, and cursors write range tombstones as often as possible: the
/// results of reads must not change.
struct DeadRunModelTests {
  private static let keyCount = 1_500

  private final class Run {
    let observed: ObservedEngine
    var random: SeededRandom
    var live: [Int: Int] = [:]
    /// The content that was visible when each snapshot was made.
    var snapshots: [(snapshot: EngineSnapshot, live: [Int: Int])] = []
    var value = 0

    var engine: Engine { observed.engine }

    init(seed: UInt64) throws {
      var options = EngineTests.options(memtableSize: 64 << 10)
      // Without covers, readers skip only what they know from other readers (`DeadRanges`).
      options.deadRunMinimum = seed % 3 == 0 ? 0 : 32
      observed = try ObservedEngine(options, seed: seed)
      random = SeededRandom(seed: seed)
    }

    func put(_ index: Int) throws {
      value += 1
      try engine.put(ObservedEngine.key(index), Array("\(value)".utf8))
      live[index] = value
    }

    func delete(_ index: Int) throws {
      try engine.delete(ObservedEngine.key(index))
      live[index] = nil
    }

    /// Calls `body` for consecutive keys, and skips some: those are live keys between dead ones.
    func writeRange(_ length: Int, skipping: Int, _ body: (Int) throws -> Void) throws {
      let begin = random.below(DeadRunModelTests.keyCount)
      for index in begin..<min(begin + length, DeadRunModelTests.keyCount) where random.below(skipping) != 0 {
        try body(index)
      }
    }

    func step() throws {
      if random.below(2) == 0 { _ = observed.executor.step() }
      switch random.below(100) {
      case 0..<20: try writeRange(60, skipping: 3, put)
      case 20..<50: try writeRange(200, skipping: random.below(2) == 0 ? 150 : 1_000_000, delete)
      case 50..<58: try put(random.below(DeadRunModelTests.keyCount))
      case 58..<60: try deleteRange()
      case 60..<80: try scan()
      case 80..<82: try engine.flush()
      case 82..<83: try engine.compact()
      case 83..<86: snapshots.append((engine.snapshot(), live))
      case 86..<89: if !snapshots.isEmpty { snapshots.remove(at: random.below(snapshots.count)) }
      case 89..<92: try compare()
      default: for _ in 0..<random.below(6) { _ = observed.executor.step() }
      }
    }

    private func deleteRange() throws {
      let begin = random.below(DeadRunModelTests.keyCount)
      let end = begin + 1 + (random.below(3) == 0 ? DeadRunModelTests.keyCount : random.below(300))
      try engine.deleteRange(from: ObservedEngine.key(begin), to: ObservedEngine.key(end))
      for index in begin..<end { live[index] = nil }
    }

    /// Scans a part with a cursor, and lets other writes be made before it ends.
    private func scan() throws {
      let old = random.below(3) == 0 ? snapshots.randomElement(using: &random) : nil
      var cursor = try engine.cursor(snapshot: old?.snapshot ?? (random.below(2) == 0 ? engine.snapshot() : nil))
      let seen = old?.live ?? live
      var location = random.below(DeadRunModelTests.keyCount)
      let isForward = random.below(2) == 0
      if isForward {
        try cursor.seek(ObservedEngine.key(location))
      } else {
        try cursor.seekForPrevious(ObservedEngine.key(location))
      }
      for _ in 0...random.below(4) {
        let candidates = isForward ? Array(location..<2_000) : Array((0...location).reversed())
        guard let expected = candidates.first(where: { seen[$0] != nil }) else {
          let isValid = cursor.isValid
          #expect(!isValid)
          break
        }
        try #require(cursor.isValid ? cursor.keyBytes == ObservedEngine.key(expected) : false)
        #expect(cursor.valueBytes == Array("\(seen[expected] ?? -1)".utf8))
        location = expected + (isForward ? 1 : -1)
        if isForward { try cursor.next() } else { try cursor.previous() }
        if location < 0 { break }
      }
      if random.below(3) == 0 { try writeRange(40, skipping: 8, random.below(2) == 0 ? put : delete) }
    }

    func compare() throws {
      try compare(live, nil)
      for (snapshot, live) in snapshots { try compare(live, snapshot) }
    }

    private func compare(_ live: [Int: Int], _ snapshot: EngineSnapshot?) throws {
      var cursor = try engine.cursor(snapshot: snapshot)
      try cursor.seekToFirst()
      for (index, value) in live.sorted(by: { $0.key < $1.key }) {
        try #require(cursor.isValid ? cursor.keyBytes == ObservedEngine.key(index) : false)
        try #require(cursor.valueBytes == Array("\(value)".utf8))
        #expect(try engine.get(ObservedEngine.key(index), snapshot: snapshot) == Array("\(value)".utf8))
        try cursor.next()
      }
      let isValid = cursor.isValid
      #expect(!isValid)
    }
  }

  @Test func `covering runs of dead keys changes no read at any sequence`() throws {
    var covered: UInt64 = 0
    var dropped: UInt64 = 0
    let seedCount = UInt64(TestScale.count(12))
    for seed in 1...seedCount {
      let run = try Run(seed: seed)
      do {
        for _ in 0..<400 { try run.step() }
        try run.compare()
        covered += run.engine.statistics.work.coveredRunCount
        dropped += run.engine.statistics.work.droppedUnreadCount
        run.snapshots = []
        _ = try run.observed.close()
      } catch {
        Issue.record("seed \(seed): \(error)")
      }
    }
    print("dead runs: \(covered) covered, \(dropped) tables dropped unread")
    #expect(covered > 8 * seedCount, "or nothing was tested")
  }

  /// Four queues in one family, each with a writer that knows its expected content, and cursors on the same keys.
  @Test func `no write is lost while writers race with cursors that cover dead runs`() throws {
    var options = EngineOptions()
    options.memtableSize = 256 << 10
    options.deadRunMinimum = 32
    let engine = try Engine.open(at: "/db", options: options, environment: .inMemory())
    let steps = TestScale.count(20_000)
    let isDone = Mutex(false)
    let lost = Mutex<[String]>([])
    let readers = (0..<2).map { reader in
      EngineThread(name: "dead runs") {
        var random = SeededRandom(seed: UInt64(reader) + 70)
        while !isDone.withLock({ $0 }) {
          do {
            var cursor = try engine.cursor(snapshot: random.below(2) == 0 ? engine.snapshot() : nil)
            if random.below(2) == 0 {
              try cursor.seek([UInt8(random.below(4))])
            } else {
              try cursor.seekForPrevious([UInt8(random.below(4)), 0xff])
            }
            for _ in 0..<3 where cursor.isValid { try cursor.next() }
          } catch { lost.withLock { $0.append("\(error)") } }
        }
      }
    }
    let writers = (0..<4).map { writer in
      EngineThread(name: "dead runs") {
        // A key is the queue's byte and a number; sometimes a key is written again among the dead ones.
        func key(_ number: Int) -> [UInt8] { [UInt8(writer)] + ObservedEngine.key(number) }
        var random = SeededRandom(seed: UInt64(writer) + 7)
        var live: [Int] = []
        do {
          for tail in 0..<steps {
            try engine.put(key(tail), [1])
            live.append(tail)
            if live.count > 20 { try engine.delete(key(live.removeFirst())) }
            if tail % 16 == 0 {
              let revived = random.below(tail + 1)
              try engine.put(key(revived), [2])
              var cursor = try engine.cursor(snapshot: engine.snapshot())
              if tail % 32 == 0 {
                try cursor.seek(key(revived - random.below(revived + 1)))
                while cursor.isValid, cursor.keyBytes != key(revived) { try cursor.next() }
              } else {
                try cursor.seekForPrevious(key(revived) + [0])
              }
              let isFound = cursor.isValid ? cursor.keyBytes == key(revived) : false
              guard try isFound && engine.get(key(revived)) == [2] else {
                lost.withLock { $0.append("writer \(writer): key \(revived) at \(tail)") }
                return
              }
              if !live.contains(revived) { try engine.delete(key(revived)) }
            }
          }
          for number in live where try engine.get(key(number)) == nil {
            lost.withLock { $0.append("writer \(writer): key \(number) at the end") }
          }
        } catch { lost.withLock { $0.append("\(error)") } }
      }
    }
    for writer in writers { writer.join() }
    // The writers may have left the readers no time.
    while engine.statistics.work.coveredRunCount == 0 { CurrentProcess.yieldThread() }
    isDone.withLock { $0 = true }
    for reader in readers { reader.join() }
    #expect(lost.withLock { $0 }.isEmpty)
    print("dead runs under writers: \(engine.statistics.work.coveredRunCount) covered")
    #expect(try engine.content()["default"]?.count == 4 * 20)
    try engine.close()
  }
}
