import Foundation
import Testing
import Varve

@testable import VarveTool

/// Tests of importing rows of a table as objects of a typed store.
struct TableImportTests {
  private struct Note: Codable, Hashable, Identifiable, Sendable {
    enum Kind: String, Codable { case short, long }
    struct Location: Codable, Hashable { var name: String?, size: [Double] }

    var id: UUID
    var title: String
    var isPinned = false
    var created: Date?
    var kind: Kind?
    var location: Location?
    var counts: [String: Int]?
    var home: URL?
    var price: Decimal?
    var weight: Float?
    var small: UInt8?
  }

  private struct NoteFormat: StoreFormat {
    typealias Instance = Note
    static let collection = "notes"
    let byTitle = Index(\.title)
  }

  private struct Memo: Codable, Hashable, Identifiable, Sendable {
    var id: Int
    var text: String?
  }

  private struct MemoFormat: StoreFormat {
    enum Version: String, CaseIterable, Sendable { case first, second }
    typealias Instance = Memo
    static let collection = "memos"
    static let currentVersion = Version.second

    static func decode(_ stored: StoredValue, version: Version) throws -> Memo {
      var memo: Memo = try stored.decode()
      memo.text = "\(version): \(memo.text ?? "none")"
      return memo
    }
  }

  private struct List: TableSource {
    let columns: [TableColumn]
    var rows: [[ColumnValue]]
    private var position = 0
    var rowCount: Int { rows.count }

    init(_ names: [String], _ rows: [[ColumnValue]]) {
      columns = names.map { TableColumn(name: $0, declared: "") }
      self.rows = rows
    }

    mutating func next() throws -> TableRow? {
      guard position < rows.count else { return nil }
      position += 1
      return TableRow(number: Int64(position * 10), values: rows[position - 1])
    }
  }

  private let directory = TemporaryDirectory()
  private var path: String { directory.path + "/db" }

  private func run(
    _ list: List, _ options: ImportPlan.Options, _ terms: TableImport.Terms
  ) throws -> (result: TableImport.Result, refused: [String]) {
    var list = list
    var refused: [String] = []
    let plan = try ImportPlan(list.columns, options)
    let result = try ObjectFixture.with(path) { database in
      var work = TableImport(database, plan, terms)
      try work.run(&list, refused: { refused.append($0.text) })
      return work.result
    }
    return (result, refused)
  }

  private static func uuid(_ number: UInt8) -> UUID {
    UUID(uuid: (number, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16))
  }

  @Test func `imported rows are read by a typed store with fields of every type`() throws {
    let list = List(
      ["id", "title", "isPinned", "created", "kind", "location", "counts", "home", "price", "weight", "small", "more"],
      [
        [
          .blob([1] + Array(2...16)), .text("one"), .integer(1), .real(0.25), .text("long"),
          .text(#"{"size":[1,2.5],"name":"x"}"#), .text(#"{"b":2,"a":1}"#), .text("https://example.com/a"), .real(2.5),
          .integer(3), .integer(255), .blob([7]),
        ],
        [.blob([2] + Array(2...16)), .text(""), .integer(0)] + Array(repeating: .null, count: 9),
      ])
    let options = ImportPlan.Options(
      key: "id", types: ["id=uuid", "isPinned=bool", "created=date2001", "location=json", "counts=json"])
    let terms = TableImport.Terms(collection: "notes", creates: true)
    let (result, refused) = try run(list, options, terms)
    #expect(result.rows == 2 && result.refused == 0 && refused.isEmpty && result.stale.isEmpty)
    let expected = [
      Note(
        id: Self.uuid(1), title: "one", isPinned: true, created: Date(timeIntervalSinceReferenceDate: 0.25),
        kind: .long,
        location: Note.Location(name: "x", size: [1, 2.5]), counts: ["a": 1, "b": 2],
        home: URL(string: "https://example.com/a"),
        price: 2.5, weight: 3, small: 255),
      Note(id: Self.uuid(2), title: ""),
    ]
    try ObjectFixture.with(path, DatabaseDefinition { NoteFormat.self }) { database in
      let notes = Store<NoteFormat>(in: database)
      let warm: () throws -> Void = { try notes.warm() }
      try warm()
      try database.write { tx throws in
        #expect(try Array(notes.load(..., in: tx)) == expected)
        #expect(try notes.load(Self.uuid(1), in: tx) == expected[0])
        #expect(try notes.query.filter { $0.title == "one" }.ids(in: tx) == [Self.uuid(1)])
        try notes.modify(Self.uuid(1), in: tx) { $0.title = "two" }
        #expect(try notes.query.filter { $0.title.hasPrefix("t") }.count(in: tx) == 1)
      }
    }
    // The program's indexes are stale until it opens the database again; then they contain the rows.
    let again = try run(list, options, terms)
    #expect(again.result.rows == 2)
    #expect(try Tool.objects(["indexes", path, "--json"]).map { $0["state"] as? String } == ["stale"])
    try ObjectFixture.with(path, DatabaseDefinition { NoteFormat.self }) { database in
      let notes = Store<NoteFormat>(in: database)
      let warm: () throws -> Void = { try notes.warm() }
      try warm()
      try database.read { tx throws in
        #expect(try Array(notes.load(..., in: tx)) == expected)
        #expect(try notes.query.filter { $0.title == "one" }.count(in: tx) == 1)
        #expect(try notes.query.filter { $0.title == "two" }.count(in: tx) == 0)
      }
    }
  }

  @Test func `all rows of an import share one shape, whichever columns are NULL`() throws {
    let rows: [[ColumnValue]] = (0..<64).map { number in
      [.integer(Int64(number))] + (0..<6).map { number >> $0 & 1 == 0 ? .null : .integer(1) }
    }
    _ = try run(
      List(["id", "a", "b", "c", "d", "e", "f"], rows), ImportPlan.Options(key: "id"),
      TableImport.Terms(collection: "bits", creates: true))
    let catalog = Tool.lines(try Tool.good(["dump", "catalog", path]))
    #expect(catalog.count { $0.hasPrefix("shape ") } == 1, "\(catalog)")
    #expect(
      try Tool.good(["objects", path, "bits", "--key", "5"]) == "5\t6\t-\t{\"id\":5,\"a\":1,\"c\":1}\t-\n")
  }

  @Test func `rows with unsuitable values are refused and reported, and the others are imported`() throws {
    let list = List(
      ["id", "text"],
      [
        [.integer(1), .text("a")], [.integer(2), .integer(7)], [.null, .text("b")], [.integer(3), .null],
        [.integer(4), .damagedText([255])], [.text("5"), .text("c")],
      ])
    let (result, refused) = try run(
      list, ImportPlan.Options(key: "id", types: ["id=int", "text=text"]),
      TableImport.Terms(collection: "memos", creates: true))
    #expect(result.rows == 2 && result.refused == 4)
    #expect(
      refused == [
        "row 20, column \"text\": found the integer 7, expected a text in UTF-8",
        "row 30, column \"id\": found NULL, expected a key",
        "row 50, column \"text\": found a text that is not UTF-8, 0xff, expected a text in UTF-8",
        "row 60, column \"id\": found the text \"5\", expected an integer",
      ])
    #expect(try Tool.good(["objects", path, "memos", "--keys-only"]) == "1\n3\n")
  }

  @Test func `a key that is too long refuses only its own row`() throws {
    let list = List(
      ["id"], [[.text(String(repeating: "x", count: 70_000))], [.text("a")], [.text("b")]])
    let (result, refused) = try run(
      list, ImportPlan.Options(key: "id"), TableImport.Terms(collection: "texts", creates: true))
    #expect(result.rows == 2 && refused.count == 1 && refused[0].hasPrefix("row 10: the key has "), "\(refused)")
  }

  @Test func `imported rows have the version that was requested, or else the first version of the format`() throws {
    let list = List(["id", "text"], [[.integer(1), .text("a")]])
    let options = ImportPlan.Options(key: "id")
    func found() throws -> String? {
      try ObjectFixture.with(path, DatabaseDefinition { MemoFormat.self }) { database in
        try database.read { tx in try Store<MemoFormat>(in: database).load(1, in: tx)?.text }
      }
    }
    _ = try run(list, options, TableImport.Terms(collection: "memos", creates: true))
    #expect(try found() == "first: a")
    _ = try run(list, options, TableImport.Terms(collection: "memos", version: "second"))
    #expect(try found() == "second: a")
  }

  @Test func `an import into a missing collection, or one of another coder or key type, is refused`() throws {
    let list = List(["id"], [[.integer(1)]])
    let options = ImportPlan.Options(key: "id")
    let missing = #expect(throws: DatabaseError.self) {
      try run(list, options, TableImport.Terms(collection: "memos"))
    }
    #expect(missing?.code == .notFound)
    try ObjectFixture.with(path, coder: .json) { database in
      try database.write { tx in try tx.set(1, key: 1, in: "texts") }
    }
    let coder = #expect(throws: ToolError.self) { try run(list, options, TableImport.Terms(collection: "texts")) }
    #expect(coder?.message.contains("are of the coder json") == true)
    try ObjectFixture.with(path) { database in try database.write { tx in try tx.set(1, key: "a", in: "names") } }
    let keys = #expect(throws: DatabaseError.self) { try run(list, options, TableImport.Terms(collection: "names")) }
    #expect(keys?.code == .keyTypeDiffers && keys?.message.contains("string") == true)
    #expect(try Tool.good(["objects", path, "names", "--keys-only"]) == "\"a\"\n")
  }

  @Test func `a table with more columns than a shape may have is imported`() throws {
    let names = ["id"] + (0..<1_100).map { "c\($0)" }
    let row: [ColumnValue] = [.integer(1)] + (0..<1_100).map { .integer(Int64($0)) }
    let (result, _) = try run(
      List(names, [row]), ImportPlan.Options(key: "id"), TableImport.Terms(collection: "wide", creates: true))
    #expect(result.rows == 1)
    let text = try Tool.good(["objects", path, "wide", "--json"])
    #expect(text.contains("\"c1099\":1099") && text.contains("\"id\":1"))
  }

  @Test func `an interrupted import leaves complete commits, and can be repeated`() throws {
    struct Broken: TableSource {
      var list: List
      var rest = 10
      var columns: [TableColumn] { list.columns }
      var rowCount: Int { list.rowCount }

      mutating func next() throws -> TableRow? {
        guard rest > 0 else { throw ToolError(.cannotOpen, "broken") }
        rest -= 1
        return try list.next()
      }
    }
    let list = List(["id"], (1...14).map { [.integer($0)] })
    let terms = TableImport.Terms(collection: "ids", creates: true, batchCount: 4)
    let plan = try ImportPlan(list.columns, ImportPlan.Options(key: "id"))
    var positions: [Int] = []
    let error = #expect(throws: ToolError.self) {
      try ObjectFixture.with(path) { database in
        var source = Broken(list: list)
        var work = TableImport(database, plan, terms)
        try work.run(&source, refused: { _ in }, progress: { positions.append($0) })
      }
    }
    #expect(error?.message == "broken" && positions == Array(1...10))
    #expect(try Tool.good(["objects", path, "ids", "--keys-only"]) == (1...8).map { "\($0)\n" }.joined())
    #expect(try run(list, ImportPlan.Options(key: "id"), terms).result.rows == 14)
    #expect(try Tool.good(["objects", path, "ids", "--keys-only"]) == (1...14).map { "\($0)\n" }.joined())
  }
}
