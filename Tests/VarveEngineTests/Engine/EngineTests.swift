import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the engine through its public API.
struct EngineTests {
  static func options(memtableSize: Int = 64 << 10) -> EngineOptions { SmallEngine.options(memtableSize: memtableSize) }

  private func key(_ index: Int) -> [UInt8] {
    let digits = String(index)
    return Array((String(repeating: "0", count: 16 - digits.utf8.count) + digits).utf8)
  }

  private func value(_ index: Int, _ round: Int = 0) -> [UInt8] {
    Array("value \(index) of round \(round), padded".utf8)
  }

  @Test func `a value is read back, before and after a flush, and after reopening`() throws {
    let environment = EngineEnvironment.inMemory()
    var engine = try Engine.open(at: "/db", options: Self.options(), environment: environment)
    for index in 0..<3_000 { try engine.put(key(index), value(index)) }
    #expect(try engine.get(key(17)) == value(17))
    #expect(try engine.get(key(3_000)) == nil)
    try engine.flush()
    #expect(try engine.get(key(2_999)) == value(2_999))
    try engine.delete(key(17))
    #expect(try engine.get(key(17)) == nil)
    try engine.close()
    engine = try Engine.open(at: "/db", options: Self.options(), environment: environment)
    #expect(try engine.get(key(17)) == nil)
    for index in 0..<3_000 where index != 17 { #expect(try engine.get(key(index)) == value(index)) }
    try engine.compact()
    for index in 0..<3_000 where index != 17 { #expect(try engine.get(key(index)) == value(index)) }
    #expect(engine.statistics.levels[0].fileCount == 0)
    try engine.close()
  }

  @Test func `overwrites through flushes and compactions leave the newest value`() throws {
    let environment = EngineEnvironment.inMemory()
    let engine = try Engine.open(at: "/db", options: Self.options(), environment: environment)
    for round in 0..<5 {
      for index in 0..<5_000 { try engine.put(key((index * 7_919) % 5_000), value(index, round)) }
    }
    try engine.waitForCompaction()
    for index in 0..<5_000 { #expect(try engine.get(key((index * 7_919) % 5_000)) == value(index, 4)) }
    #expect(engine.statistics.bytesFlushed > 0)
    #expect(engine.statistics.bytesCompactionWritten > 0)
    try engine.close()
  }

  @Test func `a cursor scans both ways at one snapshot`() throws {
    let engine = try Engine.open(at: "/db", options: Self.options(), environment: .inMemory())
    for index in 0..<2_000 { try engine.put(key(index * 2), value(index)) }
    var cursor = try engine.cursor()
    for index in 0..<2_000 { try engine.put(key(index * 2 + 1), value(index)) }
    try engine.flush()
    var seen = 0
    try cursor.seekToFirst()
    while cursor.isValid {
      let found = cursor.keyBytes
      #expect(found == key(seen * 2))
      seen += 1
      try cursor.next()
    }
    #expect(seen == 2_000)
    try cursor.seekToLast()
    while cursor.isValid {
      seen -= 1
      let found = cursor.valueBytes
      #expect(found == value(seen))
      try cursor.previous()
    }
    #expect(seen == 0)
  }

  @Test func `a batch over two families is visible in both, and a dropped family can't be used`() throws {
    let environment = EngineEnvironment.inMemory()
    let first = try Engine.open(at: "/db", options: Self.options(), environment: environment)
    let other = try first.createFamily("other")
    var batch = WriteBatch()
    try batch.put(key(1), value(1))
    try batch.put(key(1), value(2), in: other)
    try first.write(batch)
    #expect(try first.get(key(1)) == value(1))
    #expect(try first.get(key(1), in: other) == value(2))
    try first.flush()
    try first.dropFamily(other)
    #expect(throws: EngineError.self) { try first.get(key(1), in: other) }
    #expect(throws: EngineError.self) { try first.put(key(1), value(1), in: other) }
    try first.close()
  }

  @Test func `a snapshot sees neither later writes nor later deletes`() throws {
    let engine = try Engine.open(at: "/db", options: Self.options(), environment: .inMemory())
    for index in 0..<1_000 { try engine.put(key(index), value(index)) }
    let snapshot = engine.snapshot()
    for index in 0..<1_000 {
      if index % 2 == 0 { try engine.delete(key(index)) } else { try engine.put(key(index), value(index, 1)) }
    }
    try engine.compact()
    for index in 0..<1_000 {
      #expect(try engine.get(key(index), snapshot: snapshot) == value(index))
      #expect(try engine.get(key(index)) == (index % 2 == 0 ? nil : value(index, 1)))
    }
    try engine.close()
  }

  @Test func `a second open is refused`() throws {
    let environment = EngineEnvironment.inMemory()
    let engine = try Engine.open(at: "/db", environment: environment)
    let error = #expect(throws: EngineError.self) { try Engine.open(at: "/db", environment: environment) }
    #expect(error?.code == .locked)
    try engine.close()
  }

  @Test func `a batch larger than a memtable goes through`() throws {
    let environment = EngineEnvironment.inMemory()
    var engine = try Engine.open(at: "/db", options: Self.options(), environment: environment)
    var batch = WriteBatch()
    for index in 0..<5_000 { try batch.put(key(index), value(index)) }
    try batch.put(key(9_999), [UInt8](repeating: 7, count: 1 << 20))
    try engine.write(batch)
    try engine.put(key(0), value(0, 1))
    try engine.close()
    engine = try Engine.open(at: "/db", options: Self.options(), environment: environment)
    #expect(try engine.get(key(0)) == value(0, 1))
    #expect(try engine.get(key(4_999)) == value(4_999))
    #expect(try engine.get(key(9_999))?.count == 1 << 20)
    try engine.close()
  }

  @Test func `a family that is hardly written to does not keep the log of the others`() throws {
    let engine = try Engine.open(at: "/db", options: Self.options(), environment: .inMemory())
    let cold = try engine.createFamily("cold")
    try engine.put(key(1), value(1), in: cold)
    for index in 0..<40_000 { try engine.put(key(index % 100), value(index)) }
    try engine.waitForCompaction()
    // Ten times as many bytes as the bound were written to the log.
    #expect(engine.statistics.logBytes <= UInt64(2 * engine.core.background.plan.logBytesMaximum))
    #expect(try engine.get(key(1), in: cold) == value(1))
    try engine.close()
  }
}
