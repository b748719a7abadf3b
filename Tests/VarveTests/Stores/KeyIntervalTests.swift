import EngineTestSupport
import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of intervals with open or closed ends, in each call that accepts a range.
struct KeyIntervalTests {
  private static let ids = [-3, 0, 1, 2, 5, 8, 13]

  private func filled(_ location: StoreLocation) throws -> (OpenDatabase, Store<NoteFormat>) {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    try open.writing { tx in try notes.persist(contentsOf: Self.ids.map(Note.init), in: tx) }
    return (open, notes)
  }

  @Test(arguments: StoreLocation.allCases)
  func `keys after a bound, and up to another, are loaded in both directions`(location: StoreLocation) async throws {
    let (open, notes) = try filled(location)
    defer { withExtendedLifetime(open) {} }
    #expect(try await notes.load(1 ..> 8).collect().map(\.id) == [2, 5, 8])
    #expect(try await notes.load(1 ..> 8, descending: true).collect().map(\.id) == [8, 5, 2])
    #expect(try await notes.load(3 ..> 8).collect().map(\.id) == [5, 8], "a bound that no row has")
    #expect(try await notes.load(5..>).collect().map(\.id) == [8, 13])
    #expect(try await notes.load(13..>).collect().isEmpty)
    #expect(try await notes.load(2..>, descending: true, limit: 2).collect().map(\.id) == [13, 8])
    let open1 = KeyInterval(from: .excluding(0), to: .excluding(5))
    #expect(try await notes.load(open1).collect().map(\.id) == [1, 2])
    #expect(try await notes.load(KeyInterval<Int>()).collect().map(\.id) == Self.ids)
    #expect(try open.reading { tx in try Array(notes.load(1 ..> 8, in: tx)).map(\.id) } == [2, 5, 8])
  }

  @Test(arguments: StoreLocation.allCases)
  func `an interval is counted and deleted as it is loaded`(location: StoreLocation) async throws {
    let (open, notes) = try filled(location)
    defer { withExtendedLifetime(open) {} }
    #expect(try await notes.count(1 ..> 8) == 3)
    #expect(try open.reading { tx in try notes.count(1..>, in: tx) } == 4)
    #expect(try await notes.delete(1 ..> 8) == 3)
    #expect(try await notes.load(...).collect().map(\.id) == [-3, 0, 1, 13])
    #expect(try open.writing { tx in try notes.delete(0..>, in: tx) } == 2)
    #expect(try await notes.load(...).collect().map(\.id) == [-3, 0])
  }

  @Test(arguments: StoreLocation.allCases)
  func `an interval that is empty, or ends before it begins, contains nothing and has no effect`(
    location: StoreLocation
  ) async throws {
    let (open, notes) = try filled(location)
    let empty = [
      8 ..> 1, 5 ..> 5, KeyInterval(from: .excluding(5), to: .excluding(5)),
      KeyInterval(from: .including(5), to: .excluding(5)), KeyInterval(from: .excluding(5), to: .including(2)),
    ]
    for range in empty {
      #expect(try await notes.load(range).collect().isEmpty)
      #expect(try await notes.load(range, descending: true).collect().isEmpty)
      #expect(try await notes.count(range) == 0)
      #expect(try await notes.delete(range) == 0)
      #expect(try open.writing { tx in try tx.remove(in: "notes", range) } == 0)
    }
    #expect(try await notes.load(KeyInterval(from: .including(5), to: .including(5))).collect().map(\.id) == [5])
    #expect(try await notes.count == Self.ids.count)
  }

  @Test(arguments: StoreLocation.allCases)
  func `the row API and stores of bytes accept intervals too`(location: StoreLocation) async throws {
    let (open, _) = try filled(location)
    try open.writing { tx throws in
      #expect(try tx.remove(in: "notes", 8..>) == 1)
      try tx.set("written here", key: 6, in: "notes2")
      var rows = try tx.rows(in: "notes", 0 ..> 5)
      #expect(try rows.compactMap { try $0.key(as: Int.self) } == [1, 2, 5])
      var last = try tx.rows(in: "notes", 1..>, descending: true)
      #expect(try last.compactMap { try $0.key(as: Int.self) } == [8, 5, 2])
      var plain = try tx.rows(in: "notes", 2...)
      #expect(try plain.compactMap { try $0.key(as: Int.self) } == [2, 5, 8])
    }
    let data = Store(of: Data.self, key: String.self, in: open.database, collection: "bytes")
    for key in ["a", "a\0", "aa", "b"] { try await data.persist(Data(key.utf8), for: key) }
    // No key after "a" is excluded, however close it is.
    #expect(try await data.load("a" ..> "b").collect() == ["a\0", "aa", "b"].map { Data($0.utf8) })
    #expect(try await data.load("a\0"..>).collect() == ["aa", "b"].map { Data($0.utf8) })
    #expect(try await data.count(KeyInterval(from: .excluding("a"), to: .excluding("b"))) == 2)
  }

  @Test(arguments: 1...UInt64(3))
  func `any interval contains what a filter of sorted keys contains`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let (open, notes) = try filled(.memory)
    for step in 0..<300 {
      let bounds = (random.below(20) - 4, random.below(20) - 4)
      let kinds = (random.below(3), random.below(3))
      let ends: [KeyInterval<Int>.End] = zip([bounds.0, bounds.1], [kinds.0, kinds.1]).map { bound, kind in
        kind == 0 ? .unbounded : kind == 1 ? .including(bound) : .excluding(bound)
      }
      let expected = Self.ids.filter { id in
        (kinds.0 == 0 || (kinds.0 == 1 ? id >= bounds.0 : id > bounds.0))
          && (kinds.1 == 0 || (kinds.1 == 1 ? id <= bounds.1 : id < bounds.1))
      }
      let range = KeyInterval(from: ends[0], to: ends[1])
      let found = try open.reading { tx in try Array(notes.load(range, in: tx)).map(\.id) }
      try #require(found == expected, "seed \(seed), step \(step): \(range)")
    }
  }
}
