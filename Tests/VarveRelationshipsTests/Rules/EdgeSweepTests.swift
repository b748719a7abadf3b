import EngineTestSupport
import Testing
import Varve

@testable import RelationshipFixtures
@_spi(Extensions) @testable import VarveRelationships

/// Tests of the scan of many ends, compared with a filter of all entries: with ends that are adjacent, ends that are
/// far apart, and alternations of both.
struct EdgeSweepTests {
  @Test(arguments: 1...12) func `a sweep finds exactly the entries of its ends, and removes those that are not kept`(
    seed: Int
  ) throws {
    var random = SeededRandom(seed: UInt64(seed))
    let graph = try GraphCase()
    let count = 40 + random.below(2_000)
    try graph.database.write { tx in
      for number in 0..<count where random.oneIn(3) == false {
        let links = (0..<random.below(4)).map { Thing.Link(name: "e\($0)", destination: "b\(random.below(count))") }
        try tx.set(Thing(links: links), key: "a\(number)", in: "a")
      }
    }
    // Some ends are adjacent, and some are far apart.
    let isDense = (0..<8).map { _ in random.oneIn(2) }
    var ends = PackedKeys()
    let number = try #require(try graph.database.read { tx in try tx.collectionNumber(of: "a") })
    var chosen: Set<[UInt8]> = []
    for row in 0..<count where random.below(isDense[row * 8 / count] ? 2 : 60) == 0 {
      var end: [UInt8] = []
      try RowKey("a\(row)", in: "a").withBytes { EdgeFormat.append(row: number, $0, to: &end) }
      ends.append(end)
      chosen.insert(end)
    }
    if ends.isEmpty { return }
    ends.sort()
    struct Undo: Error {}
    #expect(throws: Undo.self) {
      try graph.database.write { tx in
        let part = try tx[graph.graph].families.declared.from
        var all: [[UInt8]] = []
        try part.forEach { key, _ in
          var bytes: [UInt8] = []
          bytes.replace(with: key)
          all.append(bytes)
          return true
        }
        let meant = try all.filter { chosen.contains(Array(try EdgeKey($0, bySource: true).first)) }
        var sweep = EdgeSweep(part, bySource: true, ends: ends)
        var found: [[UInt8]] = []
        var kept = all.filter { !meant.contains($0) }
        while try sweep.next() {
          found.append(sweep.key)
          if random.oneIn(9) {
            kept.append(sweep.key)
            try sweep.keep()
          } else {
            try sweep.remove()
          }
        }
        try sweep.finish()
        #expect(found == meant, "seed \(seed)")
        var left: [[UInt8]] = []
        try part.forEach { key, _ in
          var bytes: [UInt8] = []
          bytes.replace(with: key)
          left.append(bytes)
          return true
        }
        #expect(left == kept.sorted { $0.lexicographicallyPrecedes($1) }, "seed \(seed)")
        throw Undo()
      }
    }
  }

  @Test func `packed keys sort like arrays, either without duplicates or stably`() {
    var random = SeededRandom(seed: 7)
    for _ in 0..<200 {
      let keys = (0..<random.below(60)).map { _ in [1, 2, 3] + random.bytes(random.below(12)).map { $0 % 3 } }
      var (unique, stable) = (PackedKeys(), PackedKeys())
      for key in keys {
        unique.append(key)
        stable.append(key)
      }
      unique.sort()
      stable.sort(keepsEqual: true)
      let expected = Set(keys).sorted { $0.lexicographicallyPrecedes($1) }
      #expect((0..<unique.count).map { Array(unique[$0]) } == expected)
      let order = keys.indices.sorted { left, right in
        keys[left] == keys[right] ? left < right : keys[left].lexicographicallyPrecedes(keys[right])
      }
      #expect((0..<stable.count).map { stable.position($0) } == order)
      let set = PackedKeySet(unique)
      for key in keys {
        #expect(unique.contains(key[...]) && set.contains(key, 0..<key.count))
        #expect(!set.contains(key + [9], 0..<(key.count + 1)))
      }
    }
  }

  @Test func `encoded orders sort like their numbers, and truncated ones are invalid`() throws {
    let orders: [Int64] = [.min, .min + 1, -70_000, -256, -255, -1, 0, 1, 255, 256, 70_000, .max - 1, .max]
    let bytes = orders.map { order in
      var bytes: [UInt8] = []
      EdgeFormat.appendOrder(order, to: &bytes)
      return bytes
    }
    #expect(bytes == bytes.sorted { $0.lexicographicallyPrecedes($1) })
    for (order, bytes) in zip(orders, bytes) {
      #expect(EdgeFormat.order(bytes[...])?.order == order)
      #expect(EdgeFormat.order(bytes[...])?.size == bytes.count)
      for count in 0..<bytes.count { #expect(EdgeFormat.order(bytes[..<count]) == nil) }
    }
  }

  @Test func `bytes that are not an entry of an edge are an error, and never a trap`() throws {
    var random = SeededRandom(seed: 11)
    var key: [UInt8] = []
    let end = EdgeFormat.prefix(ofCollection: 3) + [0x11, 0x61, 0]
    EdgeFormat.replace(&key, by: end, "name", 5, end + [0x61])
    for _ in 0..<20_000 {
      var damaged = key
      for _ in 0...random.below(3) { damaged[random.below(damaged.count)] = UInt8(random.below(256)) }
      if random.oneIn(2) { damaged.removeLast(random.below(damaged.count)) }
      for bySource in [false, true] {
        _ = try? EdgeKey(damaged, bySource: bySource).nameText
        _ = try? EdgeValue(damaged, bySource: bySource)
      }
      _ = EdgeFormat.fileLocation(damaged[...])
      _ = FileIdentity(damaged)
    }
    #expect(throws: DatabaseError.self) { try EdgeKey([], bySource: true) }
    #expect(throws: DatabaseError.self) { try EdgeValue([64, 0], bySource: true) }
    #expect(throws: DatabaseError.self) { try EdgeValue([0, 3], bySource: true) }
  }
}
