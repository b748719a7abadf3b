import EngineTestSupport
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of rows whose compound keys begin with the same values.
struct KeyPartTests {
  private typealias Location = Compound<String, Int, String>

  private static func filled(_ location: StoreLocation) throws -> (OpenDatabase, [Location]) {
    let open = try location.open()
    var keys: [Location] = []
    // Texts with a common prefix are different values: "a", and texts that begin with it.
    for text in ["", "a", "a\0", "a\0b", "ab", "b", "é"] {
      for number in [-1, 0, 1, 300] { for last in ["", "x"] { keys.append(Compound(text, number, last)) } }
    }
    try open.writing { tx in
      for key in keys { try tx.set("row", key: key, in: "locations") }
      try tx.set("row", key: "a", in: "texts")
    }
    return (open, keys)
  }

  private static func keys(_ cursor: consuming RowCursor) throws -> [Location] {
    var cursor = cursor
    var keys: [Location] = []
    while let row = try cursor.next() { keys.append(try row.key(as: Location.self)) }
    return keys
  }

  @Test(arguments: StoreLocation.allCases)
  func `rows are iterated, counted and removed by the first value, or several, of their keys`(location: StoreLocation)
    async throws
  {
    let (open, keys) = try Self.filled(location)
    for text in ["", "a", "a\0", "ab", "é", "nowhere"] {
      let wanted = keys.filter { $0.values.0 == text }.sorted()
      try open.reading { tx throws in
        #expect(try Self.keys(tx.rows(in: "locations", beginningWith: text)) == wanted)
        #expect(try Self.keys(tx.rows(in: "locations", beginningWith: text, descending: true)) == wanted.reversed())
        #expect(try tx.count(in: "locations", beginningWith: text) == wanted.count)
      }
      for number in [0, 300, 7] {
        let wanted = wanted.filter { $0.values.1 == number }
        try open.reading { tx throws in
          #expect(try Self.keys(tx.rows(in: "locations", beginningWith: Compound(text, number))) == wanted)
        }
        let rows = try await open.database.rows(in: "locations", beginningWith: Compound(text, number)).collect()
        #expect(try rows.map { try $0.key(as: Location.self) } == wanted)
      }
    }
    try open.writing { tx throws in
      #expect(try tx.remove(in: "locations", beginningWith: "a") == 8)
      #expect(try tx.count(in: "locations") == keys.count - 8)
      #expect(try tx.count(in: "locations", beginningWith: "a") == 0)
      #expect(try tx.count(in: "locations", beginningWith: "ab") == 8)
      #expect(try tx.count(in: "locations", Compound("b", 0, "")...Compound("b", 1, "x")) == 4)
      #expect(try tx.rows(in: "nowhere", beginningWith: 1).isAtEnd)
    }
  }

  @Test func `values of other types than the first ones of the keys are refused`() throws {
    let (open, _) = try Self.filled(.memory)
    func code(_ collection: String, _ first: some KeyCodable) throws -> DatabaseError.Code? {
      try open.reading { tx in errorCode { _ = try tx.rows(in: collection, beginningWith: first) } }
    }
    #expect(try code("locations", 1) == .keyTypeDiffers)
    #expect(try code("locations", Compound("a", "b")) == .keyTypeDiffers)
    #expect(try code("locations", Compound("a", 1, "x", 2)) == .keyTypeDiffers)
    #expect(try code("locations", Compound("a", 1, "x")) == nil)
    #expect(try code("texts", "a") == .keyTypeDiffers)
  }

  @Test func `key types know the types of their first parts`() {
    let type = KeyType.compound(.integer, .optional(.string), .uuid)
    #expect(type.begins(with: .integer) && type.begins(with: .compound(.integer, .optional(.string))))
    #expect(type.begins(with: type))
    #expect(!type.begins(with: .string) && !type.begins(with: KeyType("in")))
    #expect(!type.begins(with: .compound(.integer, .string)) && !KeyType.string.begins(with: .string))
  }
}

extension RowCursor {
  fileprivate var isAtEnd: Bool {
    get throws {
      var cursor = self
      return try cursor.next() == nil
    }
  }
}
