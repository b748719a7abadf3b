import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of the collected, sorted and merged entries of a build, against a dictionary.
struct SpillTests {
  private static func key(_ random: inout SeededRandom, _ prefix: [UInt8]) -> [UInt8] {
    prefix + (0..<random.below(12)).map { _ in UInt8(random.below(3)) &* 127 }
  }

  private static func bytes(_ span: RawSpan) -> [UInt8] {
    unsafe span.withUnsafeBytes { bytes in unsafe [UInt8](bytes) }
  }

  private static func entries(_ run: SpillRun) -> [(key: [UInt8], value: [UInt8])] {
    var entries: [(key: [UInt8], value: [UInt8])] = []
    var index = 0
    func note(_ key: RawSpan, _ value: RawSpan) { entries.append((bytes(key), bytes(value))) }
    while let next = run.withEntry(at: index, note) { index = next }
    return entries
  }

  @Test(arguments: 1...40)
  func `a run has every key once, in order, with the value that came last`(seed: Int) {
    var random = SeededRandom(seed: UInt64(seed))
    let run = SpillRun(nil)
    var model: [[UInt8]: [UInt8]] = [:]
    let prefix = [UInt8](repeating: 7, count: random.below(10))
    for round in 0..<3 {
      for _ in 0..<random.below(400) {
        let (key, value) = (Self.key(&random, prefix), (0..<random.below(20)).map { UInt8($0) })
        unsafe run.append(key.span.bytes, value.span.bytes)
        model[key] = value
      }
      let mark = run.mark
      for number in 0..<random.below(50) {
        let (key, value) = (Self.key(&random, []), [UInt8(number)])
        unsafe run.append(key.span.bytes, value.span.bytes)
      }
      run.cut(to: mark)
      run.sort()
      let found = Self.entries(run)
      #expect(found.map(\.key) == model.keys.sorted(by: ByteOrder.precedes), "seed \(seed), round \(round)")
      #expect(found.allSatisfy { model[$0.key] == $0.value }, "seed \(seed), round \(round)")
    }
    run.removeAll()
    run.sort()
    #expect(run.isEmpty && Self.entries(run).isEmpty)
  }

  @Test(arguments: [CounterRule.sum, .maximum], 1...10)
  func `counters are combined within runs and across them`(rule: CounterRule, seed: Int) throws {
    var random = SeededRandom(seed: UInt64(seed))
    let backend = try StorageSite(.memory).open()
    var model: [[UInt8]: Int64] = [:]
    var families: [StorageFamily] = []
    let run = SpillRun(rule)
    for number in 0..<4 {
      for _ in 0..<200 {
        let (key, value) = (Self.key(&random, [1]), Int64(bitPattern: random.next()))
        run.append(key, value)
        model[key] = rule.taking(value, into: model[key])
      }
      run.sort()
      if number == 3 { break }
      let family = try backend.createFamily("r\(number)", options: StorageFamilyOptions())
      let tables = try backend.beginIngestion(into: family)
      for (key, value) in Self.entries(run) { unsafe try tables.put(key.span.bytes, value.span.bytes) }
      try tables.finish()
      families.append(family)
      run.removeAll()
    }
    var merged: [(key: [UInt8], value: [UInt8])] = []
    var merge = SpillMerge(families, of: try backend.snapshot(), run)
    func note(_ key: RawSpan, _ value: RawSpan) { merged.append((Self.bytes(key), Self.bytes(value))) }
    try merge.forEach(pause: {}, note)
    #expect(merged.map(\.key) == model.keys.sorted(by: ByteOrder.precedes), "seed \(seed)")
    #expect(merged.allSatisfy { rule.number($0.value) == model[$0.key] }, "seed \(seed)")
    try backend.close()
  }

  @Test(arguments: 1...20)
  func `the latest value of a key in several runs wins`(seed: Int) throws {
    var random = SeededRandom(seed: UInt64(seed))
    let backend = try StorageSite(.memory).open()
    var model: [[UInt8]: [UInt8]] = [:]
    var families: [StorageFamily] = []
    let run = SpillRun(nil)
    let count = 1 + random.below(9)
    for number in 0...count {
      run.removeAll()
      for _ in 0..<random.below(300) {
        let (key, value) = (Self.key(&random, []), [UInt8(number)])
        unsafe run.append(key.span.bytes, value.span.bytes)
        model[key] = value
      }
      run.sort()
      if number == count { break }
      let family = try backend.createFamily("r\(number)", options: StorageFamilyOptions())
      let tables = try backend.beginIngestion(into: family)
      for (key, value) in Self.entries(run) { unsafe try tables.put(key.span.bytes, value.span.bytes) }
      try tables.finish()
      families.append(family)
    }
    var merged: [(key: [UInt8], value: [UInt8])] = []
    var merge = SpillMerge(families, of: try backend.snapshot(), run)
    func note(_ key: RawSpan, _ value: RawSpan) { merged.append((Self.bytes(key), Self.bytes(value))) }
    try merge.forEach(pause: {}, note)
    #expect(merged.map(\.key) == model.keys.sorted(by: ByteOrder.precedes), "seed \(seed)")
    #expect(merged.allSatisfy { model[$0.key] == $0.value }, "seed \(seed)")
    try backend.close()
  }
}
