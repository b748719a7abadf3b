import EngineTestSupport
import Testing

@testable import Varve

/// Tests of the key table of a transaction, against a dictionary.
struct ByteTableTests {
  @Test(arguments: 1...UInt64(20))
  func `a table equals a dictionary, and keeps the order in which keys were added`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let all = Self.keys(&random)
    // The first keys are found without slots.
    let pool = seed.isMultiple(of: 3) ? Array(all.prefix(2 + Int(seed % 5))) : all
    var table = ByteTable<Int>()
    var model: [[UInt8]: Int] = [:]
    var order: [[UInt8]] = []
    for step in 0..<4_000 {
      let key = pool[random.below(pool.count)]
      try #require(table[key] == model[key], "seed \(seed), step \(step), key \(key)")
      if random.oneIn(3) {
        let removed = table.remove(key)
        try #require(removed == model.removeValue(forKey: key), "seed \(seed), step \(step), key \(key)")
        // The newest entry is removed with its value.
        if order.last == key { order.removeLast() }
      } else {
        let before = model[key]
        let previous =
          random.oneIn(2) ? table.set(step, for: key) : table.update(key) { $0.map { $0 + step } ?? step }.previous
        try #require(previous == before, "seed \(seed), step \(step), key \(key)")
        model[key] = table[key]
        try #require(table[key] == step || table[key] == before.map { $0 + step }, "seed \(seed), step \(step)")
        if !order.contains(key) { order.append(key) }
      }
      try #require(table.count == model.count && table.isEmpty == model.isEmpty, "seed \(seed), step \(step)")
    }
    #expect(table.indices.map { Array(table.key(at: $0)) } == order, "seed \(seed)")
    #expect(table.indices.map { table.keySize(at: $0) } == order.map(\.count), "seed \(seed)")
    #expect(table.indices.map { table.value(at: $0) } == order.map { model[$0] }, "seed \(seed)")
    let pairs = table.pairs.map { [$0.key: $0.value] }
    #expect(pairs == order.compactMap { key in model[key].map { [key: $0] } }, "seed \(seed)")
  }

  @Test func `an empty table finds and removes no key`() {
    var table = ByteTable<Int>()
    #expect(table[[]] == nil && table[[1, 2, 3]] == nil && table.isEmpty)
    #expect(table.remove([1]) == nil)
    #expect(table.set(1, for: []) == nil)
    #expect(table[[]] == 1 && table[[0]] == nil)
  }

  @Test func `changes undone from the last to the first use no memory`() {
    var table = ByteTable<UInt8>()
    func key(_ number: Int) -> [UInt8] { BigEndian.bytes(UInt64(number)) + BigEndian.bytes(UInt64(number)) }
    for number in 0..<100 { table.set(1, for: key(number)) }
    let before = table.byteCount
    for round in 0..<1_000 {
      let added = (0..<10).map { table.update(key(100 + round * 10 + $0)) { _ in 2 } }
      #expect(added.map(\.index) == Array(100..<110) && added.allSatisfy { $0.previous == nil })
      // An older entry is changed in between.
      let old = table.update(key(round % 100)) { _ in 3 }
      table.setValue(old.previous, at: old.index)
      for entry in added.reversed() { table.setValue(nil, at: entry.index) }
      #expect(table.count == 100)
    }
    #expect(table.byteCount <= before + 10 * 64)
    #expect((0..<100).allSatisfy { table[key($0)] == 1 } && table[key(100)] == nil)
  }

  @Test func `a row with a key of 16 bytes takes 26 bytes and its slots`() {
    var table = ByteTable<RowState>()
    table.reserveCapacity(48_000)
    let empty = table.byteCount
    for number in 0..<UInt64(48_000) {
      table.set(RowState(.inserted, before: nil), for: BigEndian.bytes(number) + BigEndian.bytes(number))
    }
    #expect(MemoryLayout<RowState?>.stride == 2)
    // The bytes of the keys grow by doubling.
    #expect(empty <= 48_000 * 10 + (1 << 16) * 8 + 1_024)
    #expect(table.byteCount <= 48_000 * (10 + 32) + (1 << 16) * 8 + 1_024)
  }

  @Test func `copies are independent`() {
    var table = ByteTable<Int>()
    for number in UInt8(0)..<100 { table.set(Int(number), for: [number]) }
    let copy = table
    for number in UInt8(50)..<200 { table.set(-1, for: [number]) }
    #expect(copy.count == 100 && table.count == 200)
    #expect((UInt8(0)..<100).allSatisfy { copy[[$0]] == Int($0) })
    #expect(copy[[150]] == nil && table[[150]] == -1)
  }

  /// A hash that ignores a byte or the length would be correct but slow: no other test would detect it.
  @Test func `every byte and the length of a key change its hash`() {
    for length in 0...70 {
      let key = [UInt8](repeating: 0, count: length)
      let hash = ByteHash.hash(key)
      #expect(hash == ByteHash.hash([UInt8](repeating: 0, count: length)))
      #expect(hash != ByteHash.hash(key + [0]), "\(length) zeros and one more")
      for index in 0..<length {
        var other = key
        other[index] = 1
        #expect(ByteHash.hash(other) != hash, "byte \(index) of \(length)")
      }
    }
  }

  /// Lookups in a table that is filled with consecutive keys stay short.
  @Test func `neighboring keys spread over the slots`() {
    let slots = 1 << 12
    var counts = [Int](repeating: 0, count: slots)
    for number in UInt32(0)..<UInt32(slots) {
      let key = [0, 0, 0, 1] + BigEndian.bytes(number) + [UInt8](repeating: 7, count: 9)
      counts[Int(truncatingIfNeeded: ByteHash.hash(key)) & (slots - 1)] += 1
    }
    // A random function leaves 37 % of the slots empty, and puts 8 keys into one slot once in a hundred tables.
    #expect(counts.count { $0 == 0 } < slots * 45 / 100)
    #expect((counts.max() ?? 0) < 16)
  }

  /// Returns keys of all lengths around the eight and sixteen bytes that are hashed at once, many of which differ in
  /// one byte.
  private static func keys(_ random: inout SeededRandom) -> [[UInt8]] {
    var keys: [[UInt8]] = []
    for length in 0...40 {
      var key = (0..<length).map { _ in UInt8(random.below(256)) }
      keys.append(key)
      for _ in 0..<min(length, 4) {
        key[random.below(length)] ^= UInt8(1 << random.below(8))
        keys.append(key)
      }
    }
    return keys
  }
}
