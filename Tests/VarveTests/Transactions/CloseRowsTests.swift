import EngineTestSupport
import Testing

@_spi(Extensions) @testable import Varve

/// Tests of rows that are removed together, adjacent to each other and far apart.
struct CloseRowsTests {
  @Test(arguments: 1...20) func `rows are removed together, and the rows between them are kept`(seed: Int) throws {
    var random = SeededRandom(seed: UInt64(seed))
    let database = try Database.inMemory()
    let count = 2_000
    try database.write { tx in
      for number in 0..<count {
        try tx.set("row \(number)", key: number, in: "rows", metadata: number % 7 == 0 ? "metadata" : nil)
      }
    }
    for round in 0..<3 {
      let chance = 1 + random.below(6)
      var left: Set<Int> = []
      try database.write { tx in
        // Some of the rows were set by the transaction itself, and some are missing.
        for _ in 0..<50 { try tx.set("set", key: random.below(2 * count), in: "rows") }
        var cursor = try tx.rows(in: "rows")
        while let row = try cursor.next() { left.insert(try row.key(as: Int.self)) }
        let gone = (0..<(2 * count)).filter { _ in random.below(chance) == 0 }
        let rows = try gone.map { try RowKey($0, in: "rows") }
        #expect(try tx.remove(random.oneIn(2) ? rows : rows.reversed()) == left.intersection(gone).count)
        left.subtract(gone)
      }
      let found = try database.read { tx in
        var keys: [Int] = []
        var cursor = try tx.rows(in: "rows")
        while let row = try cursor.next() { keys.append(try row.key(as: Int.self)) }
        return keys
      }
      #expect(found == left.sorted(), "seed \(seed), round \(round)")
      #expect(try database.read { tx in try tx.count(in: "rows") } == left.count)
    }
    try database.write { tx in
      try tx.removeAll(in: "rows")
      for number in 0..<count { #expect(try tx.metadata(String.self, key: number, in: "rows") == nil) }
    }
  }

  @Test func `rows of several collections are removed by one call`() throws {
    let database = try Database.inMemory()
    try database.write { tx in
      for number in 1...3 {
        try tx.set(number, key: number, in: "a")
        try tx.set(number, key: "\(number)", in: "b")
      }
    }
    try database.write { tx in
      let rows = [
        try RowKey(1, in: "a"), try RowKey("1", in: "b"), try RowKey(2, in: "a"), try RowKey(1, in: "nowhere"),
      ]
      #expect(try tx.remove(rows) == 3)
    }
    #expect(try database.read { tx in try tx.count() } == 3)
  }

  @Test func `collections keep their numbers when they are renamed, and rows are found by them`() throws {
    let database = try Database.inMemory()
    try database.write { tx in try tx.set("a", key: 5, in: "old") }
    let number = try #require(try database.read { tx in try tx.collectionNumber(of: "old") })
    func rename() throws { try database.renameCollection("old", to: "new") }
    try rename()
    try database.read { tx in
      #expect(try tx.collectionNumber(of: "old") == nil && tx.collectionNumber(of: "new") == number)
      #expect(try tx.collectionName(of: number) == "new" && tx.collectionName(of: 999) == nil)
      let key = try RowKey(5, in: "new")
      let found = try key.withBytes { try tx.rowKey($0, inCollection: number) }
      #expect(found == key)
      #expect(try key.withBytes { try tx.contains($0, inCollection: number) })
      #expect(try key.withBytes { try tx.contains($0, inCollection: 999) } == false)
    }
    // A collection created by its first reference has keys of that type.
    try database.write { tx in
      _ = try tx.collectionNumber(creating: RowKey("text", in: "made"))
      #expect(throws: DatabaseError.self) { try tx.set("b", key: 5, in: "made") }
      try tx.set("b", key: "text", in: "made")
    }
  }
}
