import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Tests of recorded histories of transactions on eight threads, which are checked against the guarantees of the
/// isolation levels.
struct TransactionHistoryTests {
  private static let threadCount = 8

  private static func makeEngine() throws -> Engine {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.cacheSize = 1 << 20
    options.defaultFamilyOptions.mergeOperator = CounterOperator().name
    return try Engine.open(at: "/db", options: options, environment: .inMemory())
  }

  private static func run(_ body: @escaping @Sendable (_ thread: Int, _ random: inout SeededRandom) throws -> Void) {
    let threads = TestThreads()
    for thread in 0..<threadCount {
      threads.start("thread \(thread)") {
        var random = SeededRandom(seed: UInt64(thread + 1))
        try body(thread, &random)
      }
    }
    let problems = threads.finish()
    #expect(problems == [])
  }

  // MARK: - Invariants

  @Test(arguments: [TransactionIsolation.snapshot, .serializable])
  func `transfers between accounts never make or lose money`(isolation: TransactionIsolation) throws {
    let engine = try Self.makeEngine()
    for account in 0..<10 { try engine.put([UInt8(account)], CounterOperator.bytes(100)) }
    Self.run { thread, random in
      for step in 0..<(200 * TestScale.value) {
        let (from, to) = (UInt8(random.below(10)), UInt8(random.below(10)))
        let amount = Int64(random.below(20))
        try engine.transaction(isolation: isolation, attempts: 100_000) { transaction in
          guard from != to, let held = try transaction.get([from]).flatMap(CounterOperator.number), held >= amount,
            let there = try transaction.get([to]).flatMap(CounterOperator.number)
          else { return }
          try transaction.put([from], CounterOperator.bytes(held - amount))
          try transaction.put([to], CounterOperator.bytes(there + amount))
        }
        guard step % 20 == thread else { continue }
        // Reads at one snapshot must see all of it.
        let total = try engine.multiGet((0..<10).map { [UInt8($0)] }).reduce(0) { sum, value in
          sum + (value.flatMap(CounterOperator.number) ?? 0)
        }
        #expect(total == 1_000)
        if step % 100 == thread { try engine.flush() }
      }
    }
    let balances = try engine.multiGet((0..<10).map { [UInt8($0)] }).map { $0.flatMap(CounterOperator.number) ?? -1 }
    #expect(balances.reduce(0, +) == 1_000 && balances.allSatisfy { $0 >= 0 })
  }

  @Test func `two transactions that each read what the other one changes don't both commit`() throws {
    let engine = try Self.makeEngine()
    let pairCount = 40
    for pair in 0..<pairCount { for side in 0..<2 { try engine.put([UInt8(pair), UInt8(side)], [1]) } }
    Self.run { thread, random in
      // One of a pair may go off duty only while the other is on.
      for _ in 0..<(150 * TestScale.value) {
        let pair = UInt8(random.below(pairCount))
        let side = UInt8(thread % 2)
        try engine.transaction(attempts: 100_000) { transaction in
          let mine = try transaction.get([pair, side]) == [1]
          let other = try transaction.get([pair, 1 - side]) == [1]
          if mine && other { try transaction.put([pair, side], [0]) }
          if !mine { try transaction.put([pair, side], [1]) }
        }
        let both = try engine.multiGet([[pair, 0], [pair, 1]])
        #expect(both != [[0], [0]], "no one of pair \(pair) is on duty")
      }
    }
  }

  @Test func `transactions that count rows before each insert never pass the limit together`() throws {
    let engine = try Self.makeEngine()
    let limit = 25
    Self.run { thread, random in
      for step in 0..<(60 * TestScale.value) {
        try engine.transaction(attempts: 100_000) { transaction in
          var count = 0
          var cursor = try transaction.cursor(bounds: .prefix([7]))
          if step % 2 == 0 { try cursor.seekToFirst() } else { try cursor.seekToLast() }
          while cursor.isValid {
            count += 1
            if step % 2 == 0 { try cursor.next() } else { try cursor.previous() }
          }
          if count < limit { try transaction.put([7, UInt8(thread), UInt8(random.below(100))], [1]) }
        }
      }
    }
    var count = 0
    var cursor = try engine.cursor(bounds: .prefix([7]))
    try cursor.seekToFirst()
    while cursor.isValid {
      count += 1
      try cursor.next()
    }
    #expect(count == limit, "the limit of \(limit) rows was passed, or never reached: \(count)")
  }

  // MARK: - Any history

  /// A committed transaction: what it read, and what it changed.
  private struct Record {
    let sequence: SequenceNumber
    var reads: [(key: [UInt8], value: [UInt8]?)] = []
    var scans: [(bounds: CursorBounds, rows: [ModelDatabase.Row])] = []
    var changes: [ModelDatabase.Change] = []
  }

  private final class History: Sendable {
    let records = Mutex<[Record]>([])
    let conflicts = Atomic<Int>(0)
  }

  @Test(arguments: 1...4 as ClosedRange<UInt64>)
  func `every history of serializable transactions equals a serial one`(seed: UInt64) throws {
    let engine = try Self.makeEngine()
    let history = History()
    Self.run { thread, random in
      random = SeededRandom(seed: seed * 1_000 + UInt64(thread))
      for step in 0..<(150 * TestScale.value) {
        var transaction = engine.beginTransaction()
        var record = Record(sequence: .zero)
        for _ in 0..<(1 + random.below(5)) {
          try Self.act(&transaction, &record, &random, value: [UInt8(thread), UInt8(step & 0xff), UInt8(step >> 8)])
          // Yielding lets other threads commit in between, even on two cores.
          if random.oneIn(2) { sched_yield() }
        }
        // A transaction that changed nothing must only be consistent with its snapshot.
        if record.changes.isEmpty { continue }
        do throws(EngineError) {
          let sequence = try transaction.commit()
          history.records.withLock {
            $0.append(
              Record(sequence: sequence, reads: record.reads, scans: record.scans, changes: record.changes))
          }
        } catch {
          guard error.code == .conflict else { throw error }
          history.conflicts.wrappingAdd(1, ordering: .relaxed)
        }
        if random.oneIn(40) { try engine.flush() }
        if random.oneIn(150) { try engine.compact() }
      }
    }
    let records = history.records.withLock { $0 }.sorted { $0.sequence < $1.sequence }
    #expect(records.count > 100 && history.conflicts.load(ordering: .relaxed) > 20, "seed \(seed)")
    var model = ModelDatabase()
    for record in records {
      for read in record.reads {
        #expect(
          model.state.get("default", read.key) == read.value,
          "seed \(seed): \(read.key) at the commit \(record.sequence) is not what it read")
      }
      for scan in record.scans {
        #expect(
          model.state.scan("default", scan.bounds) == scan.rows,
          "seed \(seed): \(scan.bounds) at the commit \(record.sequence) is not what it scanned")
      }
      model.write(record.changes)
    }
    let last = try engine.cursor()
    #expect(try Self.rows(last) == model.state.scan("default"), "seed \(seed)")
  }

  private static func rows(_ cursor: consuming EngineCursor) throws -> [ModelDatabase.Row] {
    var cursor = cursor
    var rows: [ModelDatabase.Row] = []
    try cursor.seekToFirst()
    while cursor.isValid {
      rows.append(ModelDatabase.Row(cursor.keyBytes, cursor.valueBytes))
      try cursor.next()
    }
    return rows
  }

  /// Makes one read or change. Reads of the transaction's own writes are not part of the history.
  private static func act(
    _ transaction: inout OptimisticTransaction, _ record: inout Record, _ random: inout SeededRandom, value: [UInt8]
  ) throws {
    let key = [UInt8(random.below(30))]
    let isOwn = !record.changes.isEmpty
    switch random.below(10) {
    case 0..<3 where !isOwn: record.reads.append((key, try transaction.get(key)))
    case 3 where !isOwn:
      let bounds = CursorBounds(lower: key, upper: [key[0] + UInt8(random.below(6))])
      record.scans.append((bounds, try scan(&transaction, bounds, backward: random.oneIn(2))))
    case 4:
      try transaction.delete(key)
      record.changes.append(.delete("default", key))
    case 5:
      let upper = [key[0] + UInt8(1 + random.below(4))]
      try transaction.deleteRange(from: key, to: upper)
      record.changes.append(.deleteRange("default", key, upper))
    default:
      try transaction.put(key, value)
      record.changes.append(.put("default", key, value))
    }
  }

  private static func scan(
    _ transaction: inout OptimisticTransaction, _ bounds: CursorBounds, backward: Bool
  ) throws -> [ModelDatabase.Row] {
    var cursor = try transaction.cursor(bounds: bounds)
    var rows: [ModelDatabase.Row] = []
    if backward { try cursor.seekToLast() } else { try cursor.seekToFirst() }
    while cursor.isValid {
      rows.append(ModelDatabase.Row(cursor.keyBytes, cursor.valueBytes))
      if backward { try cursor.previous() } else { try cursor.next() }
    }
    return backward ? rows.reversed() : rows
  }
}
