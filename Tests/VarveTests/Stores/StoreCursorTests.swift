import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of iterating instances inside a transaction.
struct StoreCursorTests {
  private let open: OpenDatabase
  private let notes: Store<NoteFormat>

  init() throws {
    open = try StoreLocation.memory.open()
    notes = Store(in: open.database)
    try open.writing { [notes] tx in try notes.persist(contentsOf: (1...9).map(Note.init), in: tx) }
  }

  private func ids(_ load: (ReadTransaction) throws -> StoreCursor<Note>) throws -> [Int] {
    try open.reading { tx in try Array(load(tx)).map(\.id) }
  }

  @Test func `a cursor over all instances or a range is ordered, in both directions, up to the limit`() throws {
    #expect(try ids { try notes.load(..., in: $0) } == Array(1...9))
    #expect(try ids { try notes.load(..., descending: true, in: $0) } == (1...9).reversed())
    #expect(try ids { try notes.load(3..<5, in: $0) } == [3, 4])
    #expect(try ids { try notes.load(3...5, in: $0) } == [3, 4, 5])
    #expect(try ids { try notes.load(8..., in: $0) } == [8, 9])
    #expect(try ids { try notes.load(..<3, in: $0) } == [1, 2])
    #expect(try ids { try notes.load(...3, descending: true, in: $0) } == [3, 2, 1])
    #expect(try ids { try notes.load(5..<5, in: $0) } == [])
    #expect(try ids { try notes.load(..., limit: 2, in: $0) } == [1, 2])
    #expect(try ids { try notes.load(3..., descending: true, limit: 2, in: $0) } == [9, 8])
    #expect(try ids { try notes.load(..., limit: 0, in: $0) } == [])
    #expect(errorCode { _ = try ids { try notes.load(..., limit: -1, in: $0) } } == .invalidArgument)
  }

  @Test func `first is the next instance or row of a cursor, and leaves the cursor as it is`() throws {
    try open.reading { tx throws in
      #expect(try notes.load(..., in: tx).first()?.id == 1)
      #expect(try notes.load(7..., descending: true, in: tx).first()?.id == 9)
      #expect(try notes.load(20..., in: tx).first() == nil)
      var cursor = try notes.load(..., in: tx)
      _ = try cursor.next()
      #expect(try cursor.first()?.id == 2 && cursor.next()?.id == 2)
      #expect(try tx.rows(in: "notes").first()?.key(as: Int.self) == 1 && tx.rows(in: "nothing").first() == nil)
    }
  }

  @Test func `next, forEach, compactMap and collect continue where the last one ended`() throws {
    try open.reading { tx throws in
      var cursor = try notes.load(..., in: tx)
      #expect(try cursor.next()?.id == 1)
      #expect(try cursor.collect(upTo: 2).map(\.id) == [2, 3])
      #expect(try cursor.collect(upTo: 0).isEmpty)
      #expect(throws: StoreStop.self) {
        try cursor.forEach { if $0.id == 5 { throw StoreStop() } }
      }
      #expect(try cursor.compactMap { $0.id == 7 ? nil : $0.id } == [6, 8, 9])
      #expect(try cursor.next() == nil)
    }
  }

  @Test func `cursors of rows, instances and identifiers seek and count alike, in both directions`() throws {
    let names = Store(of: String.self, key: Int.self, in: open.database, collection: "names")
    try open.writing { tx throws in
      // A seek must find pending rows, too.
      try notes.delete(4, in: tx)
      try names.persist("late", for: 1, in: tx)
      let expected = [1, 2, 3, 5, 6, 7, 8, 9].filter { $0 > 1 }
      for isDescending in [false, true] {
        let order = isDescending ? expected.reversed() : expected
        for key in [9, 0, 4, 5, 2, 10, 1, 7] {
          let wanted = order.filter { isDescending ? $0 <= key : $0 >= key }
          var rows = try tx.rows(in: "notes", 2..., descending: isDescending)
          var instances = try notes.load(2..., descending: isDescending, in: tx)
          var ids = try notes.ids(2..., descending: isDescending, in: tx)
          if key % 2 == 0 {
            // A cursor at its end must be able to seek, too.
            try rows.forEach { _ in }
            try instances.forEach { _ in }
            try ids.forEach { _ in }
            #expect(try rows.count() == 0 && instances.count() == 0 && ids.count() == 0)
          }
          try rows.seek(to: key)
          try instances.seek(to: key)
          try ids.seek(to: key)
          #expect(try rows.count() == wanted.count, "\(key), \(isDescending)")
          #expect(try instances.count() == wanted.count && ids.count() == wanted.count)
          #expect(try rows.compactMap { try $0.key(as: Int.self) } == wanted)
          #expect(try instances.compactMap(\.id) == wanted)
          #expect(try ids.compactMap(\.self) == wanted)
        }
      }
      var some = try notes.load(..., limit: 3, in: tx)
      _ = try some.next()
      #expect(try some.count() == 2)
      try some.seek(to: 8)
      #expect(try some.compactMap(\.id) == [8, 9])
      #expect(errorCode { try some.seek(to: "a") } == .keyTypeDiffers)
    }
  }

  @Test func `a cursor over all collections seeks a row, and a missing one`() throws {
    try open.writing { tx throws in
      try tx.set("a", key: "k", in: "letters")
      try tx.set("z", key: "k", in: "zeros")
      func texts(_ row: RowKey) throws -> [String] {
        var rows = try tx.rows()
        try rows.forEach { _ in }
        try rows.seek(to: row)
        return try rows.compactMap(\.key.description)
      }
      let notes = (1...9).map { "notes/\($0)" }
      #expect(try texts(RowKey("a", in: "letters")) == ["letters/\"k\""] + notes + ["zeros/\"k\""])
      #expect(try texts(RowKey(8, in: "notes")) == ["notes/8", "notes/9", "zeros/\"k\""])
      #expect(try texts(RowKey(8, in: "nothing")) == ["zeros/\"k\""])
      #expect(try texts(RowKey("x", in: "zeros")) == [])
      #expect(try texts(RowKey("x", in: "zz")) == [])
      var rows = try tx.rows()
      #expect(errorCode { try rows.seek(to: 1) } == .invalidArgument)
      var one = try tx.rows(in: "notes")
      try one.seek(to: RowKey(9, in: "notes"))
      #expect(try one.count() == 1)
      #expect(errorCode { try one.seek(to: RowKey(9, in: "letters")) } == .invalidArgument)
    }
  }

  @Test func `a cursor shows the state in which it was made, including its transaction's writes`() throws {
    try open.writing { tx throws in
      try notes.delete(2, in: tx)
      try notes.insert(Note(20), in: tx)
      var cursor = try notes.load(..., in: tx)
      while let note = try cursor.next() {
        try notes.delete(note, in: tx)
        try notes.insert(Note(note.id + 100), in: tx)
      }
      #expect(try Array(notes.load(..., in: tx)).map(\.id) == [101] + Array(103...109) + [120])
    }
  }

  @Test func `a cursor ends with its transaction`() throws {
    var kept: StoreCursor<Note>?
    try open.reading { tx throws in kept = try notes.load(..., in: tx) }
    #expect(errorCode { _ = try kept?.next() } == .transactionEnded)
  }

  @Test func `identifiers of each type of key are in order`() throws {
    struct Entry<Key: KeyCodable & Codable>: Codable, Identifiable, Sendable {
      var id: Key
    }
    struct EntryFormat<Key: KeyCodable & Codable>: StoreFormat {
      static var collection: String { "entries of \(Key.self)" }
      typealias Instance = Entry<Key>
    }
    func check<Key: KeyCodable & Codable & Comparable>(_ keys: [Key]) throws {
      let store = Store<EntryFormat<Key>>(in: open.database)
      try open.writing { tx in try store.persist(contentsOf: keys.shuffled().map(Entry.init), in: tx) }
      try open.reading { tx throws in
        #expect(try Array(store.load(..., in: tx)).map(\.id) == keys)
        #expect(try Array(store.load(keys[1]..<keys[3], in: tx)).map(\.id) == Array(keys[1..<3]))
        #expect(try Array(store.load(...keys[1], descending: true, in: tx)).map(\.id) == [keys[1], keys[0]])
      }
    }
    try check(["", "A", "a", "a\0b", "z", "é", "😀"])
    try check([-1e300, -1.5, 0, .leastNonzeroMagnitude, 7.25])
    try check([Int.min, -1, 0, 1, .max])
    try check([-1e9, 0.000_000_1, 1, 1e9].map(Date.init(timeIntervalSinceReferenceDate:)))
    try check([UInt8(0), 1, 2, 255])
  }

  @Test func `identifiers may be compound, optional, or of a raw value`() async throws {
    struct Shelf: RawRepresentable, Codable, Hashable, Comparable, KeyCodable {
      var rawValue: String
      static func < (left: Shelf, right: Shelf) -> Bool { left.rawValue < right.rawValue }
    }
    struct Copy: Codable, Hashable, Sendable {
      var shelf: Shelf
      var number: Int?
    }
    struct CopyFormat: StoreFormat {
      static let collection = "copies"
      typealias Instance = Copy
      typealias Identifier = Compound<Shelf, Int?>
      static func identifier(of copy: Copy) -> Identifier { Compound(copy.shelf, copy.number) }
    }
    let copies = Store<CopyFormat>(in: open.database)
    let first = Shelf(rawValue: "a")
    let second = Shelf(rawValue: "b")
    let all = [Copy(shelf: first), Copy(shelf: first, number: 2), Copy(shelf: second, number: 1)]
    try await copies.persist(contentsOf: all.reversed())
    #expect(try await copies.load(...).collect() == all)
    #expect(try await copies.load(Compound(first, 2)) == all[1])
    #expect(await errorCode { try await copies.modify(Compound(first, 2)) { $0.number = 3 } } == .invalidArgument)
    #expect(try await copies.delete(Compound(first, nil)) == all[0])
  }
}
