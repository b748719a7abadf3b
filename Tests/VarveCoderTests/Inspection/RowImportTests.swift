import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveInspection

@testable import ObjectFixtures

/// Tests of importing rows of another database through the rows API.
struct RowImportTests {
  private let database: Database
  init() throws { database = try Database.inMemory() }

  private static let json = PortableCollection(keyType: "string", coder: .json)
  private static let binary = PortableCollection(keyType: "string", coder: .binary)

  private func row(_ key: String, _ object: PortableValue, metadata: PortableValue? = nil) throws -> PortableRow {
    PortableRow(key: try key.encoded(), object: object, metadata: metadata)
  }

  private func text(_ text: String) -> PortableValue { PortableValue(bytes: Array(text.utf8)) }

  /// `{title: "a", author: {name: "b"}}` and `[{name: "b"}, {name: ""}]`, as the binary coder writes them.
  private static let book = PortableValue(
    shape: ["title", "author"], shapes: [["name"]], bytes: [0x41, 0x61, 0xd2, 0x01, 0x41, 0x62])
  private static let people = PortableValue(shapes: [["name"]], bytes: [0xd1, 0x02, 0x01, 0x41, 0x62, 0x40])

  struct Person: Codable, Hashable, Sendable { var name: String }
  struct Book: Codable, Hashable, Sendable {
    var title: String
    var author: Person
  }

  @Test func `extensions are notified of the rows, and the count and the row ids are kept`() throws {
    let words = try database.registerReady(WordCount(), as: "words")
    try database.write { tx in try tx.set("old words", key: "a", in: "notes", metadata: 1) }
    let id = try database.read { tx in try tx.row(key: "a", in: "notes")?.id }
    let rowImport = try RowImport(into: "notes", of: database, as: nil)
    let bytes = PortableValue(bytes: [0x43] + Array("new".utf8))
    try rowImport.commit([
      try rowImport.prepare(row("a", bytes)), try rowImport.prepare(row("b", bytes, metadata: bytes)),
    ])
    try database.read { tx throws in
      #expect(try tx.object(String.self, key: "a", in: "notes") == "new")
      #expect(try tx.metadata(Int.self, key: "a", in: "notes") == nil)
      #expect(try tx.metadata(String.self, key: "b", in: "notes") == "new")
      #expect(try tx.count(in: "notes") == 2)
      #expect(try tx.row(key: "a", in: "notes")?.id == id)
      #expect(try tx[words].count(of: "new") == 2)
      #expect(try tx[words].count(of: "old") == 0)
    }
  }

  @Test func `imported shapes get the numbers of the target database`() throws {
    // Other shapes take the first numbers in this database.
    try database.write { tx in try tx.set(["x": Person(name: "y")], key: "z", in: "others") }
    let rowImport = try RowImport(into: "books", of: database, as: Self.binary)
    let book = try rowImport.prepare(row("a", Self.book, metadata: Self.people))
    #expect(book.object.json == #"{"title":"a","author":{"name":"b"}}"#)
    #expect(book.metadata?.json == #"[{"name":"b"},{"name":""}]"#)
    try rowImport.commit([book])
    try database.read { tx throws in
      #expect(try tx.object(Book.self, key: "a", in: "books") == Book(title: "a", author: Person(name: "b")))
      #expect(try tx.metadata([Person].self, key: "a", in: "books") == [Person(name: "b"), Person(name: "")])
    }
  }

  @Test func `an import creates the collection that the rows describe, and refuses a different one`() throws {
    #expect(throws: DatabaseError.self) { try RowImport(into: "notes", of: database, as: nil) }
    let own = try RowImport(
      into: "own", of: database, as: PortableCollection(keyType: "int", coder: .json, storage: .own()))
    try own.commit([try own.prepare(PortableRow(key: try 7.encoded(), object: text("[1]")))])
    try database.read { tx throws in #expect(try tx.object([Int].self, key: 7, in: "own") == [1]) }
    for terms in [Self.json, PortableCollection(keyType: "int", coder: .raw)] {
      let error = #expect(throws: DatabaseError.self) { try RowImport(into: "own", of: database, as: terms) }
      #expect(error?.code == .definitionDiffers)
    }
    #expect(throws: DatabaseError.self) { try RowImport(into: "", of: database, as: Self.json) }
  }

  @Test func `a row that does not fit the collection is refused, and nothing is written`() throws {
    let rowImport = try RowImport(into: "notes", of: database, as: Self.json)
    func refused(_ row: PortableRow, _ code: DatabaseError.Code) {
      let error = #expect(throws: DatabaseError.self) { try rowImport.prepare(row) }
      #expect(error?.code == code && error?.collection == "notes", "\(row)")
    }
    refused(PortableRow(key: try 7.encoded(), object: text("1")), .keyTypeDiffers)
    refused(PortableRow(key: try Compound("a", "b").encoded(), object: text("1")), .keyTypeDiffers)
    refused(PortableRow(key: [0x11, 0x61], object: text("1")), .invalidKey)
    refused(PortableRow(key: [], object: text("1")), .keyTypeDiffers)
    refused(try row(String(repeating: "k", count: 65_535), text("1")), .keyTooLong)
    refused(try row("a", text("{")), .corruption)
    refused(try row("a", text("1"), metadata: text("\u{feff}1")), .corruption)
    refused(try row("a", PortableValue(bytes: [0x31, 0x00])), .corruption)
    refused(try row("a", PortableValue(shape: ["a"], bytes: [0x31])), .invalidArgument)
    #expect(try database.read { tx in try tx.count() } == 0)
  }

  @Test func `keys of a type with its own name can have any parts`() throws {
    let rowImport = try RowImport(
      into: "locations", of: database, as: PortableCollection(keyType: "location", coder: .json))
    _ = try rowImport.prepare(PortableRow(key: try Compound("a", 1).encoded(), object: text("1")))
    _ = try rowImport.prepare(PortableRow(key: try Int?.none.encoded(), object: text("1")))
    #expect(throws: DatabaseError.self) { try rowImport.prepare(PortableRow(key: [0xff], object: text("1"))) }
  }
}
