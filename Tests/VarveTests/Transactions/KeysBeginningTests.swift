import EngineTestSupport
import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of ranges over the first part of compound keys, whatever the types of the other parts, against an array.
struct KeysBeginningTests {
  private typealias Key<Second: KeyCodable> = Compound<Int, Second>

  /// Returns ranges of each kind between two numbers, as bounds and as a predicate.
  private static func ranges(_ low: Int, _ high: Int) -> [(bounds: KeyInterval<Int>, holds: (Int) -> Bool)] {
    [
      (KeyInterval(from: .including(low), to: .including(high)), { $0 >= low && $0 <= high }),
      (KeyInterval(from: .including(low), to: .excluding(high)), { $0 >= low && $0 < high }),
      (low ..> high, { $0 > low && $0 <= high }),
      (KeyInterval(from: .excluding(low), to: .excluding(high)), { $0 > low && $0 < high }),
      (low..>, { $0 > low }), (KeyInterval(to: .excluding(high)), { $0 < high }),
      (KeyInterval(), { _ in true }),
    ]
  }

  private func check<Second: KeyCodable>(_ seconds: [Second], _ location: StoreLocation, _ seed: UInt64) async throws {
    var random = SeededRandom(seed: seed)
    let open = try location.open()
    let database = open.database
    let store = Store(of: String.self, key: Compound<Int, Second>.self, in: database, collection: "entries")
    // Adjacent collections in the same families are not included.
    try await Store(of: Int.self, key: Int.self, in: database, collection: "before").persist(1, for: 1)
    var keys: [Key<Second>] = []
    for group in -3...6 where group != 2 {
      for second in seconds where !random.oneIn(4) { keys.append(Compound(group, second)) }
    }
    let written = keys
    try await store.persist(contentsOf: written.map { ($0, "x") })
    try await Store(of: Int.self, key: Int.self, in: database, collection: "later").persist(1, for: 1)
    let order = try keys.sorted { try $0.encoded().lexicographicallyPrecedes($1.encoded()) }
    for _ in 0..<10 {
      let (low, high) = (Int(random.below(12)) - 4, Int(random.below(12)) - 4)
      for (bounds, holds) in Self.ranges(low, high) {
        let wanted = order.filter { holds($0.values.0) }
        #expect(try await store.ids(.beginning(with: bounds)).collect() == wanted, "seed \(seed)")
        #expect(
          try await store.ids(.beginning(with: bounds), descending: true).collect() == wanted.reversed())
        #expect(try await store.count(.beginning(with: bounds)) == wanted.count)
        let rows = try await database.rows(in: "entries", beginningWith: bounds).collect()
        #expect(try rows.map { try $0.key(as: Key<Second>.self) } == wanted)
        try open.reading { tx throws in
          var rows = try tx.rows(in: "entries", beginningWith: bounds, descending: true)
          #expect(try rows.compactMap { try $0.key(as: Key<Second>.self) } == wanted.reversed())
          #expect(try tx.count(in: "entries", beginningWith: bounds) == wanted.count)
          let range = try StorageRange(beginningWith: bounds)
          #expect(try StorageRange(KeysBeginning<Key<Second>>.beginning(with: bounds)) == range)
          let inside = try order.filter { key in
            let bytes = try key.encoded()
            return !bytes.lexicographicallyPrecedes(range.lower)
              && (range.upper.map { bytes.lexicographicallyPrecedes($0) } ?? true)
          }
          #expect(inside == wanted)
        }
      }
      #expect(
        try await store.ids(.beginning(with: low)).collect() == order.filter { $0.values.0 == low })
    }
    let (removed, deleted) = (order.count { $0.values.0 > 4 }, order.count { $0.values.0 < 0 })
    #expect(try open.writing { tx in try tx.remove(in: "entries", beginningWith: 4..>) } == removed)
    #expect(try await store.delete(.beginning(with: ..<0)) == deleted)
    #expect(try await store.ids().collect() == order.filter { $0.values.0 >= 0 && $0.values.0 <= 4 })
  }

  @Test(arguments: StoreLocation.allCases)
  func `a range of the first value selects keys whatever their second value is`(location: StoreLocation) async throws {
    let seed = UInt64.random(in: 0...9_999)
    var random = SeededRandom(seed: seed)
    try await check(["", "a", "a\0", "\u{10FFFF}", "zz"], location, seed)
    try await check((0..<4).map { _ in UUID() }, location, seed)
    try await check((0..<6).map { _ in Int(truncatingIfNeeded: random.next()) } + [.min, .max], location, seed)
    try await check([nil, true, false] as [Bool?], location, seed)
  }

  @Test func `several first parts form a range, too, and parts of other types are refused`() async throws {
    // The database is closed when `open` is released.
    let open = try StoreLocation.memory.open()
    defer { withExtendedLifetime(open) {} }
    let verses = Store(of: String.self, key: Compound<String, Int, Int>.self, in: open.database, collection: "verses")
    try await verses.persist(
      contentsOf: ["A", "B"].flatMap { book in
        (1...3).flatMap { chapter in (1...2).map { (Compound(book, chapter, $0), "\(book)\(chapter):\($0)") } }
      })
    #expect(
      try await verses.load(.beginning(with: Compound("A", 2)...Compound("B", 1))).collect()
        == ["A2:1", "A2:2", "A3:1", "A3:2", "B1:1", "B1:2"])
    #expect(try await verses.count(.beginning(with: "B"...)) == 6)
    await #expect { _ = try await verses.count(.beginning(with: 1...2)) } throws: {
      ($0 as? DatabaseError)?.code == .keyTypeDiffers
    }
    await #expect { _ = try await verses.count(.beginning(with: Double.nan)) } throws: {
      [.keyTypeDiffers, .invalidKey].contains(($0 as? DatabaseError)?.code)
    }
  }
}
