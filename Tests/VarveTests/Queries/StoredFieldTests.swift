import EngineTestSupport
import Foundation
import Synchronization
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of rows that are filtered without being decoded, and of those that must be decoded.
struct StoredFieldTests {
  /// A type that counts how often it is decoded.
  struct Counted: Codable, Identifiable, Sendable {
    enum Kind: String, Codable, Sendable, KeyCodable { case first, second }
    struct Location: Codable, Sendable { var city: String }

    var id: Int
    var text: String
    var number: Int
    var share: Double?
    var kind = Kind.first
    var marks: [String] = []
    var location: Location?

    static let decoded = Mutex(0)

    init(_ id: Int) {
      self.id = id
      text = "text \(id)"
      number = id - 50
      share = id % 3 == 0 ? nil : Double(id) / 4
      kind = id % 2 == 0 ? .first : .second
      marks = ["m\(id % 4)", "n"]
      location = id % 5 == 0 ? nil : Location(city: "city \(id % 7)")
    }

    init(from decoder: any Decoder) throws {
      Self.decoded.withLock { $0 += 1 }
      let values = try decoder.container(keyedBy: CodingKeys.self)
      id = try values.decode(Int.self, forKey: .id)
      text = try values.decode(String.self, forKey: .text)
      number = try values.decode(Int.self, forKey: .number)
      share = try values.decodeIfPresent(Double.self, forKey: .share)
      kind = try values.decode(Kind.self, forKey: .kind)
      marks = try values.decode([String].self, forKey: .marks)
      location = try values.decodeIfPresent(Location.self, forKey: .location)
    }
  }

  struct CountedFormat: StoreFormat {
    typealias Instance = Counted
    static let collection = "counted"
  }

  @Test func `rows that don't match a condition on stored fields are not decoded`() throws {
    let database = try Database.inMemory { CountedFormat.self }
    let store = Store<CountedFormat>(in: database)
    try database.write { tx in for id in 0..<1_000 { try store.persist(Counted(id), in: tx) } }
    try database.read { tx throws in
      func check(
        _ condition: (Fields<Counted>) -> Condition<Counted>, _ holds: (Counted) -> Bool, at line: Int = #line
      ) throws {
        let query = store.query.filter(condition).scan()
        let expected = (0..<1_000).map { Counted($0) }.filter(holds).map(\.id)
        #expect(try query.ids(in: tx) == expected, "line \(line)")
        // Some rows were decoded to check that decoding preserves the fields. From now on, only rows that are
        // returned are decoded.
        _ = try query.count(in: tx)
        Counted.decoded.withLock { $0 = 0 }
        #expect(try query.fetch(in: tx).map(\.id) == expected, "line \(line)")
        let decoded = Counted.decoded.withLock { $0 }
        #expect(decoded <= expected.count + 8, "line \(line): \(decoded) decoded")
        Counted.decoded.withLock { $0 = 0 }
        #expect(try query.count(in: tx) == expected.count, "line \(line)")
        #expect(Counted.decoded.withLock { $0 } <= 8, "line \(line)")
      }
      try check({ $0.text == "text 77" }, { $0.text == "text 77" })
      try check({ $0.number.isIn(-3..<9) && !$0.text.hasPrefix("text 5") }) {
        (-3..<9).contains($0.number) && !$0.text.hasPrefix("text 5")
      }
      try check({ $0.share == nil || $0.share > 240 }, { $0.share.map { $0 > 240 } ?? true })
      try check({ $0.kind == .second && $0.text.contains("99") }, { $0.kind == .second && $0.text.contains("99") })
      try check({ $0.marks.contains("m3") && $0.number < 0 }, { $0.marks.contains("m3") && $0.number < 0 })
      try check({ $0.location.city == "city 3" || $0.location.city == nil && $0.number > 940 }) {
        $0.location?.city == "city 3" || $0.location == nil && $0.number > 940
      }
    }
  }

  // MARK: - Types that don't preserve what is stored

  /// A type that decodes its text in capitals, and clamps its number to 0 or more.
  struct Changing: Codable, Identifiable, Sendable {
    var id: Int
    var text: String
    var number: Int

    init(id: Int, text: String, number: Int) {
      self.id = id
      self.text = text
      self.number = number
    }

    init(from decoder: any Decoder) throws {
      let values = try decoder.container(keyedBy: CodingKeys.self)
      id = try values.decode(Int.self, forKey: .id)
      text = try values.decode(String.self, forKey: .text).uppercased()
      number = max(0, try values.decode(Int.self, forKey: .number))
    }
  }

  struct ChangingFormat: StoreFormat {
    typealias Instance = Changing
    static let collection = "changing"
    static let readsStoredFields = false
  }

  /// A format that does not declare that its decoding changes values.
  struct SilentFormat: StoreFormat {
    typealias Instance = Changing
    static let collection = "changing"
  }

  @Test func `a format that declares changes is filtered by its instances`() throws {
    let database = try Database.inMemory { ChangingFormat.self }
    let store = Store<ChangingFormat>(in: database)
    try database.write { tx in
      for id in 0..<20 { try store.persist(Changing(id: id, text: "A", number: id), in: tx) }
      try store.persist(Changing(id: 20, text: "b", number: -5), in: tx)
    }
    try database.read { tx throws in
      #expect(try store.query.filter { $0.text == "B" }.scan().ids(in: tx) == [20])
      #expect(try store.query.filter { $0.number == 0 }.scan().ids(in: tx) == [0, 20])
      #expect(try store.query.filter { $0.number < 0 }.scan().count(in: tx) == 0)
    }
  }

  @Test func `undeclared changes are detected in the first rows, or a later one is an error`() throws {
    let database = try Database.inMemory { SilentFormat.self }
    let store = Store<SilentFormat>(in: database)
    try database.write { tx in
      // The texts differ from the first row on; of the numbers, only the last ones differ.
      for id in 0..<2_000 { try store.persist(Changing(id: id, text: "b", number: id < 100 ? id : -id), in: tx) }
    }
    try database.read { tx throws in
      #expect(try store.query.filter { $0.text == "B" }.scan().count(in: tx) == 2_000)
      let error = #expect(throws: DatabaseError.self) {
        try store.query.filter { $0.number == 0 }.scan().ids(in: tx)
      }
      #expect(error?.code == .invalidDefinition && error?.message.contains("readsStoredFields") == true)
      // From then on, each row is decoded.
      #expect(try store.query.filter { $0.number == 0 }.scan().count(in: tx) == 1_901)
    }
  }

  @Test func `rows of an older version are filtered by their present form`() throws {
    struct Old: Codable, Identifiable, Sendable {
      var id: Int
      var size: Int
    }
    struct OldFormat: StoreFormat {
      typealias Instance = Old
      static let collection = "sizes"
    }
    struct NewFormat: StoreFormat {
      typealias Instance = Old
      static let collection = "sizes"
      enum Version: String, CaseIterable, Sendable { case first, second }
      static let currentVersion = Version.second
      static func decode(_ stored: StoredValue, version: Version) throws -> Old {
        var old: Old = try stored.decode()
        if version == .first { old.size *= 10 }
        return old
      }
    }
    let scratch = try TemporaryDirectory()
    do {
      let database = try Database.open(at: scratch.path) { OldFormat.self }
      let store = Store<OldFormat>(in: database)
      try database.write { tx in for id in 0..<10 { try store.persist(Old(id: id, size: id), in: tx) } }
      try database.close()
    }
    let database = try Database.open(at: scratch.path) { NewFormat.self }
    let store = Store<NewFormat>(in: database)
    try database.write { tx in try store.persist(Old(id: 10, size: 50), in: tx) }
    try database.read { tx throws in
      #expect(try store.query.filter { $0.size == 50 }.scan().ids(in: tx) == [5, 10])
      #expect(try store.query.filter { $0.size == 5 }.scan().count(in: tx) == 0)
    }
    try database.close()
  }
}
