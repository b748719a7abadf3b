import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of the first key of a range by one call: it must return what a cursor finds, wherever the key is stored.
struct FirstKeyTests {
  @Test(arguments: MultiGetTests.settings)
  func `the first key of a range is the one that a cursor finds`(setting: MultiGetTests.Setting) throws {
    let (engine, counters, snapshot) = try MultiGetTests.open(setting)
    var random = SeededRandom(seed: 11)
    var emptyCount = 0
    for _ in 0..<2_000 {
      let first = random.below(7_000)
      let lower = random.oneIn(9) ? nil : MultiGetTests.key(first)
      // Some ranges have one key, or none if the key is not there.
      let end = random.oneIn(9) ? MultiGetTests.key(first) + [0] : MultiGetTests.key(random.below(7_000))
      let upper = random.oneIn(9) ? nil : end
      if let lower, let upper, !lower.lexicographicallyPrecedes(upper) { continue }
      let bounds = CursorBounds(lower: lower, upper: upper)
      for family in [nil, counters] {
        var cursor = try engine.cursor(in: family, bounds: bounds, snapshot: snapshot)
        try cursor.seekToFirst()
        var calls = 0
        let passed = try engine.visitEntry(at: 0, in: family, bounds: bounds, snapshot: snapshot) { key, value in
          calls += 1
          #expect(key.copied == cursor.keyBytes && value.copied == cursor.valueBytes)
        }
        #expect(passed == 0 && calls == (cursor.isValid ? 1 : 0))
        emptyCount += 1 - calls
        guard random.oneIn(20) else { continue }
        let offset = random.oneIn(3) ? Int.max : random.below(3_000)
        var steps = 0
        while cursor.isValid, steps < offset {
          steps += 1
          try cursor.next()
        }
        var found: [UInt8]?
        let before = try engine.visitEntry(at: offset, in: family, bounds: bounds, snapshot: snapshot) { key, _ in
          found = key.copied
        }
        #expect(before == steps && found == (cursor.isValid ? cursor.keyBytes : nil))
      }
    }
    #expect(emptyCount > 0 && emptyCount < 200, "\(emptyCount) ranges were empty")
    try engine.close()
  }

  @Test func `the first key of a range is read at its snapshot, and throws for a dropped family`() throws {
    let engine = try Engine.open(at: "/db", environment: .inMemory())
    let family = try engine.createFamily("f")
    try engine.put([5], [1], in: family)
    let snapshot = engine.snapshot()
    try engine.put([3], [2], in: family)
    func first() throws -> [UInt8]? {
      var found: [UInt8]?
      _ = try engine.visitEntry(at: 0, in: family, snapshot: snapshot) { key, _ in found = key.copied }
      return found
    }
    #expect(try first() == [5])
    try engine.flush()
    try engine.delete([5], in: family)
    #expect(try first() == [5])
    try engine.dropFamily(family)
    let error = #expect(throws: EngineError.self) { try first() }
    #expect(error?.code == .familyDropped)
    try engine.close()
  }
}
