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

struct TransactionTests {
  private static func makeEngine() throws -> Engine {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.cacheSize = 1 << 20
    options.defaultFamilyOptions.mergeOperator = CounterOperator().name
    return try Engine.open(at: "/db", options: options, environment: .inMemory())
  }

  private static func key(_ text: String) -> [UInt8] { Array(text.utf8) }

  /// Returns the conflict that prevented the commit of a transaction, or `nil` if it committed.
  private static func conflict(_ transaction: consuming OptimisticTransaction) -> TransactionConflict? {
    do throws(EngineError) { try transaction.commit() } catch {
      #expect(error.code == .conflict)
      return error.cause as? TransactionConflict
    }
    return nil
  }

  // MARK: - What it sees

  @Test func `a transaction reads one snapshot and its own writes over it`() throws {
    let engine = try Self.makeEngine()
    try engine.put(Self.key("a"), [1])
    try engine.put(Self.key("b"), [2])
    var transaction = engine.beginTransaction()
    try engine.put(Self.key("a"), [9])
    try engine.put(Self.key("c"), [9])
    #expect(try transaction.get(Self.key("a")) == [1])
    #expect(try transaction.get(Self.key("c")) == nil)
    try transaction.put(Self.key("c"), [3])
    try transaction.deleteRange(from: Self.key("b"), to: Self.key("bb"))
    #expect(try transaction.get(Self.key("b")) == nil)
    var cursor = try transaction.cursor()
    try cursor.seekToFirst()
    #expect(cursor.keyBytes == Self.key("a") && cursor.valueBytes == [1])
    try cursor.next()
    #expect(cursor.keyBytes == Self.key("c") && cursor.valueBytes == [3])
    try cursor.next()
    let isAtEnd = !cursor.isValid
    #expect(isAtEnd)
  }

  @Test func `an operand of a transaction is folded over what it sees`() throws {
    let engine = try Self.makeEngine()
    try engine.merge(Self.key("n"), CounterOperator.bytes(5))
    var transaction = engine.beginTransaction()
    try engine.merge(Self.key("n"), CounterOperator.bytes(100))
    try transaction.merge(Self.key("n"), CounterOperator.bytes(2))
    #expect(try transaction.get(Self.key("n")).flatMap(CounterOperator.number) == 7)
  }

  @Test func `merging without reading meets no conflict`() throws {
    let engine = try Self.makeEngine()
    var transaction = engine.beginTransaction()
    try engine.merge(Self.key("n"), CounterOperator.bytes(100))
    try transaction.merge(Self.key("n"), CounterOperator.bytes(2))
    try transaction.commit()
    #expect(try engine.get(Self.key("n")).flatMap(CounterOperator.number) == 102)
  }

  @Test func `entries that a rollback to a savepoint undid are not written`() throws {
    let engine = try Self.makeEngine()
    var transaction = engine.beginTransaction()
    try transaction.put(Self.key("a"), [1])
    transaction.setSavepoint()
    try transaction.put(Self.key("a"), [2])
    try transaction.put(Self.key("b"), [2])
    try transaction.rollbackToSavepoint()
    #expect(try transaction.get(Self.key("a")) == [1])
    #expect(try transaction.get(Self.key("b")) == nil)
    try transaction.commit()
    #expect(try engine.get(Self.key("a")) == [1])
    #expect(try engine.get(Self.key("b")) == nil)
  }

  // MARK: - Conflicts

  @Test func `a conflict names family, key and the commit that came between, and nothing is written`() throws {
    let engine = try Self.makeEngine()
    let family = try engine.createFamily("orders")
    try engine.put(Self.key("k"), [1], in: family)
    var transaction = engine.beginTransaction()
    _ = try transaction.get(Self.key("k"), in: family)
    try transaction.put(Self.key("other"), [1])
    let sequence = try engine.put(Self.key("k"), [2], in: family)
    let before = engine.visibleSequence
    var found: EngineError?
    do throws(EngineError) { try transaction.commit() } catch { found = error }
    #expect(found?.code == .conflict)
    let cause = found?.cause as? TransactionConflict
    #expect(cause == TransactionConflict(family: "orders", key: Self.key("k"), sequence: sequence))
    #expect(engine.visibleSequence == before)
    #expect(try engine.get(Self.key("other")) == nil)
  }

  /// The way in which another commit changes the key "k" after the snapshot.
  enum Change: CaseIterable {
    case put, delete, deleteRange, merge, flushed, compacted, drop
  }

  @Test(arguments: Change.allCases, [false, true])
  func `every kind of change to a key that was read is a conflict`(change: Change, scanned: Bool) throws {
    let engine = try Self.makeEngine()
    let family = try engine.createFamily("f", options: FamilyOptions(mergeOperator: CounterOperator().name))
    try engine.put(Self.key("k"), CounterOperator.bytes(1), in: family)
    try engine.put(Self.key("z"), [1], in: family)
    var transaction = engine.beginTransaction()
    if scanned {
      var cursor = try transaction.cursor(in: family)
      try cursor.seek(Self.key("a"))
      #expect(cursor.keyBytes == Self.key("k"))
    } else {
      _ = try transaction.get(Self.key("k"), in: family)
    }
    try transaction.put(Self.key("mine"), [1])
    switch change {
    case .put: try engine.put(Self.key("k"), [2], in: family)
    case .delete: try engine.delete(Self.key("k"), in: family)
    case .deleteRange: try engine.deleteRange(from: Self.key("j"), to: Self.key("l"), in: family)
    case .merge: try engine.merge(Self.key("k"), CounterOperator.bytes(1), in: family)
    case .flushed:
      try engine.put(Self.key("k"), [2], in: family)
      try engine.flush()
    case .compacted:
      try engine.deleteRange(from: Self.key("j"), to: Self.key("l"), in: family)
      try engine.compact(family: family)
    case .drop: try engine.dropFamily(family)
    }
    var code: EngineError.Code?
    do throws(EngineError) { try transaction.commit() } catch { code = error.code }
    #expect(code == .conflict)
  }

  @Test func `a change elsewhere does not conflict`() throws {
    let engine = try Self.makeEngine()
    for index in 0..<20 { try engine.put([UInt8(index)], [1]) }
    var transaction = engine.beginTransaction()
    _ = try transaction.get([3])
    var cursor = try transaction.cursor(bounds: CursorBounds(lower: [5], upper: [9]))
    try cursor.seekToFirst()
    try cursor.next()
    try transaction.put([3], [2])
    try engine.put([4], [2])
    try engine.deleteRange(from: [7], to: [20])
    try transaction.commit()
    #expect(try engine.get([3]) == [2])
  }

  @Test func `a key that was not there when a range was scanned is a conflict, backward too`() throws {
    let engine = try Self.makeEngine()
    try engine.put([1], [1])
    try engine.put([9], [1])
    for backward in [false, true] {
      var transaction = engine.beginTransaction()
      var cursor = try transaction.cursor()
      if backward {
        try cursor.seekToLast()
        try cursor.previous()
      } else {
        try cursor.seekToFirst()
        try cursor.next()
      }
      try transaction.put([100], [1])
      let key: [UInt8] = backward ? [6] : [5]
      try engine.put(key, [1])
      let cause = Self.conflict(transaction)
      #expect(cause?.key == key, "backward: \(backward)")
    }
  }

  @Test func `under snapshot isolation a key that both wrote is a conflict, and a key that was only read is not`()
    throws
  {
    let engine = try Self.makeEngine()
    var first = engine.beginTransaction(isolation: .snapshot)
    var second = engine.beginTransaction(isolation: .snapshot)
    _ = try first.get([2])
    _ = try second.get([1])
    try first.put([1], [1])
    try second.put([2], [1])
    try first.commit()
    // This is write skew, which the isolation level allows.
    try second.commit()
    var third = engine.beginTransaction(isolation: .snapshot)
    try engine.put([3], [1])
    try third.deleteRange(from: [2], to: [4])
    let cause = Self.conflict(third)
    #expect(cause?.key == [3])
  }

  @Test func `a transaction that only reads always commits`() throws {
    let engine = try Self.makeEngine()
    let transaction = engine.beginTransaction()
    _ = try transaction.get([1])
    let sequence = transaction.sequence
    try engine.put([1], [1])
    #expect(try transaction.commit() == sequence)
  }

  @Test func `of eight transactions in one group that read and write one key, one commits`() throws {
    let engine = try Self.makeEngine()
    for round in 0..<20 {
      let threads = TestThreads()
      let outcomes = Outcomes()
      engine.core.pipeline.lead { lead in
        for index in 0..<8 {
          threads.start("writer \(index)") {
            var transaction = engine.beginTransaction()
            let old = try transaction.get([1]) ?? [0]
            try transaction.put([1], [old[0] + 1])
            outcomes.add(transaction)
          }
        }
        // All eight wait for this leader: the next one commits them as one group.
        while engine.core.pipeline.queue.waitingCount(lead) < 8 { sched_yield() }
      }
      #expect(threads.finish() == [])
      let found = outcomes.list.withLock { $0 }
      #expect(found.filter { $0 == nil }.count == 1, "round \(round)")
      #expect(found.compactMap { $0 }.allSatisfy { $0.code == .conflict })
      let causes = found.compactMap { $0?.cause as? TransactionConflict }
      #expect(causes.count == 7 && causes.allSatisfy { $0.family == "default" && $0.key == [1] })
      #expect(try engine.get([1]) == [UInt8(round + 1)])
    }
  }
}

/// The results of commits.
private final class Outcomes: Sendable {
  let list = Mutex<[EngineError?]>([])

  func add(_ transaction: consuming OptimisticTransaction) {
    var failure: EngineError?
    do throws(EngineError) { try transaction.commit() } catch { failure = error }
    list.withLock { $0.append(failure) }
  }
}
