import Foundation
import Testing
import Varve

/// A database of objects that a program made, which the tool inspects.
struct ObjectFixture {
  /// A value of each kind that the coders distinguish, including nested records.
  struct Book: Codable, Hashable, Sendable {
    struct Person: Codable, Hashable, Sendable {
      var name: String
      var born: Date?
    }
    struct Chapter: Codable, Hashable, Sendable {
      var title: String
      var pages: Int
      var plates: [[String: Int]] = []
    }
    var title: String
    var year = -1851
    var author = Person(name: "Herman", born: Date(timeIntervalSinceReferenceDate: -5_743_008_000.125))
    var editors: [Person] = []
    var chapters: [Chapter] = []
    var isRead = true
    var note: String?
    var price = Decimal(string: "12.340") ?? 0
    var rating = 4.0
    var weight: Float = 0.1
    var home = URL(string: "https://example.com/a?b=c")
    var id = UUID(uuid: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16))
    var cover = Data([0, 1, 255])
    var limits = [Int.min, Int.max, 0]
    var parts: [String: String] = ["b": "2", "a": "1"]
  }

  struct Size: Codable, Hashable, Sendable {
    var pages: Int
    var by: Book.Person?
  }

  static let moby = Book(
    title: "Moby-Dick\n\u{2028}\"\\ \u{0}é",
    editors: [Book.Person(name: "A"), Book.Person(name: "B", born: .distantPast)],
    chapters: [Book.Chapter(title: "Loomings", pages: 5, plates: [["a": 1], [:]]), Book.Chapter(title: "", pages: 0)])
  static let emma = Book(title: "Emma", chapters: [], note: "a note", rating: .pi)

  static let coders: [CoderKind] = [.binary, .json, .propertyList]

  /// Opens the database while `body` runs, and closes it.
  static func with<Result>(
    _ path: String, _ definition: DatabaseDefinition = DatabaseDefinition(), coder: CoderKind = .binary,
    _ body: (Database) throws -> Result
  ) throws -> Result {
    var options = DatabaseOptions()
    options.coder = coder
    let database = try Database.open(at: path, definition: definition, options: options)
    let result: Result
    do {
      result = try body(database)
    } catch {
      try? database.close()
      throw error
    }
    try database.close()
    return result
  }

  /// Stores two books, one of them with metadata.
  static func makeBooks(_ path: String, coder: CoderKind = .binary) throws {
    try with(path, coder: coder) { database in
      try database.write { tx in
        try tx.set(moby, key: "moby", in: "books", metadata: Size(pages: 635, by: Book.Person(name: "me")))
        try tx.set(emma, key: "emma", in: "books")
      }
    }
  }

  /// Stores keys of many types, each in its own collection.
  static func makeKeys(_ path: String) throws {
    try with(path) { database in
      try database.write { tx in
        try add(
          ["", "a", "a\u{0}", "a\u{0}b", "e\u{301}", "e\u{301}te\u{301}", "\"q\"", "한", "nil", "\u{202e}\n\t"],
          "strings", tx)
        try add(
          [0, 1, -1, Int128.min, Int128.max, 1 << 53, -(1 << 53), (1 << 53) - 1, Int128(Int.max), Int128(Int.min)],
          "ints", tx)
        try add([UInt128.max, UInt128(1) << 127, 7], "wide", tx)
        try add([0.0, 1.5, -.infinity, .infinity, .leastNonzeroMagnitude, -1e300, 0.1], "doubles", tx)
        try add(
          [0, 0.5, -0.25, 792_345_678.123_456, 1e-7, -63_145_526_400, 252_423_993_599, 1e300, -.infinity, 0.1 + 0.2]
            .map { Date(timeIntervalSinceReferenceDate: $0) }, "dates", tx)
        try add([UUID(), UUID()], "uuids", tx)
        try add([Data(), Data([0]), Data([0, 255, 0]), Data("plain".utf8)], "datas", tx)
        try add([true, false], "bools", tx)
        try add([nil, "", "nil", "x"] as [String?], "maybe", tx)
        try add([nil, .some(nil), .some(7)] as [Int??], "maybemaybe", tx)
        try add([Compound(1, "a"), Compound(-1, ""), Compound(1, "a\u{0}")], "compounds", tx)
        try add(
          [Compound(nil, Date(timeIntervalSinceReferenceDate: 0.1), true), Compound("", .distantFuture, false)]
            as [Compound<String?, Date, Bool>], "mixed", tx)
        try add([Compound(Compound("a", 1), UUID())], "nested", tx)
      }
    }
  }

  private static func add<Key: KeyCodable>(_ keys: [Key], _ collection: String, _ tx: WriteTransaction) throws {
    for (number, key) in keys.enumerated() { try tx.set(number, key: key, in: collection) }
  }

  static let keyCollections = [
    "strings", "ints", "wide", "doubles", "dates", "uuids", "datas", "bools", "maybe", "maybemaybe", "compounds",
    "mixed",
    "nested",
  ]
}

extension Tool {
  /// Returns the lines that a command printed, each of which is a JSON object.
  static func objects(_ arguments: [String], sourceLocation: SourceLocation = #_sourceLocation) throws -> [[String:
    Any]]
  {
    try lines(good(arguments, sourceLocation: sourceLocation)).map { line in
      let object = try JSONSerialization.jsonObject(with: Data(line.utf8))
      return try #require(object as? [String: Any], sourceLocation: sourceLocation)
    }
  }

  /// Splits the output at line feeds only, because other characters that may end a line are parts of strings.
  static func lines(_ output: String) -> [String] {
    output.utf8.split(separator: 0x0a).map { String(decoding: $0, as: UTF8.self) }
  }
}

/// The raw bytes of rows: the beginning of a row in the shared family `objects`, and its key.
enum RawBytes {
  static func hex(_ bytes: [UInt8]) -> String {
    bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
  }

  /// Returns the key of a row whose key is a string.
  static func key(_ text: String, collection: UInt8 = 1) -> String {
    hex([0, 0, 0, collection, 0x11] + Array(text.utf8) + [0])
  }

  /// Writes directly to the engine, bypassing the object database.
  static func put(_ database: String, _ family: String, _ key: String, _ value: [UInt8]) throws {
    try Tool.good(["put", database, key, hex(value), "--hex", "--raw", "--family", family])
  }

  /// Returns the value of a key.
  static func get(_ database: String, _ family: String, _ key: String) throws -> [UInt8] {
    let text = Array(try Tool.good(["get", database, key, "--hex", "--family", family]).utf8.dropLast())
    return try stride(from: 0, to: text.count, by: 2).map {
      try #require(UInt8(String(decoding: text[$0..<($0 + 2)], as: UTF8.self), radix: 16))
    }
  }
}
