import Foundation
import Testing
import Varve

/// Tests of `varve indexes` as a script sees it.
struct IndexesCommandTests {
  private struct Film: Codable, Identifiable, Sendable {
    var id: Int
    var title: String
    var year: Int
    var code: String?
    var genres: [String] = []
  }

  private struct FilmFormat: StoreFormat {
    typealias Instance = Film
    static let collection = "films"
    let byTitle = Index(\.title)
    let byYear = Index(\.year, \.title)
    let code = OneToOneIndex(\.code)
    @Direct var genres = ManyToManyIndex(\.genres)
  }

  private struct PersonFormat: StoreFormat {
    typealias Instance = Person
    static let collection = "persons"
    let byTitle = Index(\.title)
  }

  private struct Person: Codable, Identifiable, Sendable {
    var id: Int
    var title: String
    var refused: Refused { Refused() }
  }

  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }

  init() throws {
    let definition = DatabaseDefinition {
      FilmFormat.self
      PersonFormat.self
    }
    try ObjectFixture.with(database, definition) { database in
      let films = Store<FilmFormat>(in: database)
      let persons = Store<PersonFormat>(in: database)
      try database.write { tx in
        for id in 1...10 {
          try films.persist(
            Film(id: id, title: "film \(id)", year: 2000 + id % 3, code: "c\(id)", genres: ["all", "g\(id % 2)"]),
            in: tx)
        }
        try persons.persist(Person(id: 1, title: "Dr"), in: tx)
      }
    }
  }

  // MARK: - Listing

  @Test func `indexes are listed with their definitions, states and numbers of entries`() throws {
    let rows = try Tool.objects(["indexes", database, "--json"])
    #expect(rows.map { $0["collection"] as? String } == ["films", "films", "films", "films", "persons"])
    #expect(rows.map { $0["name"] as? String } == ["byTitle", "byYear", "code", "genres", "byTitle"])
    #expect(rows.map { $0["kind"] as? String } == ["index", "index", "oneToOne", "manyToMany", "index"])
    #expect(
      rows.map { $0["keyType"] as? String } == [
        "string", "compound(int,string)", "optional(string)", "string", "string",
      ])
    #expect(rows.map { $0["unique"] as? Bool } == [false, false, true, false, false])
    #expect(rows.map { $0["direct"] as? Bool } == [false, false, false, true, false])
    #expect(rows.map { $0["entries"] as? Int } == [10, 10, 10, 20, 1])
    #expect(rows.allSatisfy { $0["state"] as? String == "ready" && $0["replaced"] as? Bool == false && $0.count == 10 })
    #expect(rows.allSatisfy { ($0["bytes"] as? Int ?? 0) > 0 })

    let table = Tool.lines(try Tool.good(["indexes", database, "--collection", "films"]))
    #expect(table.count == 5)
    #expect(
      table[0].split(separator: " ").map(String.init) == [
        "collection", "name", "kind", "values", "unique", "direct", "entries", "bytes", "state",
      ])
    #expect(table[3].hasPrefix("films       code     oneToOne    optional(string)      yes     no      10 "))
    #expect(table[4].hasSuffix("  ready"))
    #expect(try Tool.objects(["indexes", database, "--collection", "persons", "--json"]).count == 1)
  }

  @Test func `a database without indexes lists none, and a missing collection is an error`() throws {
    let bare = directory.path + "/bare"
    try ObjectFixture.makeBooks(bare)
    #expect(try Tool.good(["indexes", bare]) == "no indexes\n")
    #expect(try Tool.good(["indexes", bare, "--collection", "books", "--json"]) == "")
    let missing = try Tool.run(["indexes", bare, "--collection", "none"])
    #expect(missing.status == 3 && missing.errors.contains("(collection \"none\")"), "\(missing)")
    #expect(try Tool.run(["indexes", directory.path + "/none"]).status == 3)
    #expect(!FileManager.default.fileExists(atPath: directory.path + "/none"))
  }

  @Test(arguments: [
    ["--verify", "--rebuild", "a"], ["--limit", "3"], ["--verify", "--limit", "-1"], ["--rebuild"],
  ])
  func `an invalid command line exits with status 2`(arguments: [String]) throws {
    #expect(try Tool.run(["indexes", database] + arguments).status == 2)
  }

  @Test func `the help of the command has an example`() throws {
    let help = try Tool.good(["indexes", "--help"])
    #expect(help.contains("Example: varve indexes") && help.contains("--json") && help.contains("--rebuild"))
  }

  // MARK: - Verifying and rebuilding

  @Test func `differences of an index are printed with exit status 1, and a rebuild repairs them`() throws {
    #expect(
      try Tool.good(["indexes", database, "--verify"]) == "no differences found: 5 indexes, 11 rows, 51 entries\n")
    let family = try family("byTitle")
    let entries = Tool.lines(try Tool.good(["scan", database, "--family", family, "--hex", "--keys-only"]))
    #expect(entries.count == 10)
    for entry in entries.prefix(2) {
      try Tool.good(["delete", database, entry, "--hex", "--raw", "--family", family])
    }
    let verify = ["indexes", database, "--collection", "films", "--verify"]
    let found = try Tool.run(verify)
    #expect(found.status == 1)
    #expect(
      found.output == """
        index "byTitle" of films: the entry of the row 1 for "film 1" is missing
        index "byTitle" of films: the entry of the row 10 for "film 10" is missing
        2 differences found: 4 indexes, 10 rows, 48 entries

        """)
    let rows = try Tool.lines(Tool.run(verify + ["--json", "--limit", "1"]).output)
    #expect(rows.count == 2 && rows[1] == #"{"differences":2,"entries":48,"indexes":4,"rows":10,"skipped":0}"#)
    #expect(
      rows[0] == #"{"collection":"films","index":"byTitle","key":"1","kind":"missing","value":"\"film 1\""}"#)

    let several = try Tool.run(["indexes", database, "--rebuild", "byTitle"])
    #expect(several.status == 2 && several.errors.contains("films, persons"), "\(several)")
    let rebuild = ["indexes", database, "--collection", "films", "--rebuild", "byTitle"]
    #expect(try Tool.good(rebuild) == "index \"byTitle\" of films: 10 entries, 2 added, 0 removed\n")
    #expect(
      try Tool.good(rebuild + ["--json"])
        == #"{"added":0,"collection":"films","corrected":0,"entries":10,"index":"byTitle","removed":0,"removedRows":0}"#
        + "\n")
    try Tool.good(verify)
  }

  @Test func `a rebuild that needs values only the program can compute is refused, and changes nothing`() throws {
    let family = try family("byTitle").replacing(".i.byTitle", with: ".emitted")
    let emitted = Tool.lines(try Tool.good(["scan", database, "--family", family, "--hex", "--keys-only"]))
    try Tool.good(["delete", database, emitted[0], "--hex", "--raw", "--family", family])
    let result = try Tool.run(["indexes", database, "--collection", "films", "--rebuild", "byTitle", "--json"])
    #expect(result.status == 3 && result.errors.contains("the program makes it from the rows"), "\(result)")
    let unknown = try Tool.run(["indexes", database, "--collection", "films", "--rebuild", "none"])
    #expect(
      unknown.status == 3 && unknown.errors.contains("no index is named \"none\"; there are \"byTitle\" of films"))
    let found = try Tool.run(["indexes", database, "--verify", "--collection", "films"])
    #expect(found.status == 1 && found.output.contains("indexes of films: the row 1 has no emitted values\n"))
  }

  @Test func `rows are listed in the order of an index, in both directions, and by its values`() throws {
    func keys(_ arguments: String...) throws -> [String] {
      Tool.lines(try Tool.good(["objects", database, "films", "--keys-only", "--index"] + arguments))
    }
    let byYear = ["3", "6", "9", "1", "10", "4", "7", "2", "5", "8"]
    #expect(try keys("byYear") == byYear)
    #expect(try keys("byYear", "--reverse", "--limit", "3") == ["8", "5", "2"])
    #expect(try keys("byYear", "--from", "2001", "--to", "2002") == ["1", "10", "4", "7"])
    #expect(try keys("byYear", "--prefix", "(2001, \"film 1\")") == ["1"])
    #expect(try keys("byTitle", "--prefix", "film 1", "--reverse") == ["10", "1"])
    #expect(try keys("genres", "--from", "g1") == ["1", "3", "5", "7", "9"])
    #expect(try keys("genres").count == 20, "a row comes once for each of its values")
    let row = try #require(try Tool.objects(["objects", database, "films", "--index", "code", "--json"]).first)
    #expect(row["keyText"] as? String == "1" && (row["object"] as? [String: Any])?["code"] as? String == "c1")

    let unknown = try Tool.run(["objects", database, "films", "--index", "none"])
    #expect(unknown.status == 3 && unknown.errors.contains("there are \"byTitle\" of films, \"byYear\" of films"))
    let wrong = try Tool.run(["objects", database, "films", "--index", "byYear", "--from", "x"])
    #expect(wrong.status == 2 && wrong.errors.contains("index \"byYear\" of values that are compound(int,string)"))
    #expect(try Tool.run(["objects", database, "films", "--index", "byYear", "--key", "1"]).status == 2)
  }

  private struct PlainPersonFormat: StoreFormat {
    typealias Instance = Person
    static let collection = "persons"
  }

  /// A value whose encoding fails.
  fileprivate struct Refused: KeyCodable {
    static var keyType: KeyType { .string }
    func encodeKey(into encoder: inout KeyEncoder) throws { throw DatabaseError(.encodingFailed, "no value is good") }
    static func decodeKey(from decoder: inout KeyDecoder) throws -> Refused {
      _ = try decoder.decodeString()
      return Refused()
    }
  }

  private struct StrictPersonFormat: StoreFormat {
    typealias Instance = Person
    static let collection = "persons"
    let byTitle = Index(\.refused, version: 1)
  }

  @Test func `an index whose build has failed is listed with its error`() throws {
    let path = directory.path + "/failed"
    try ObjectFixture.with(path, DatabaseDefinition { PlainPersonFormat.self }) { database in
      let persons = Store<PlainPersonFormat>(in: database)
      try database.write { tx in try persons.persist(Person(id: 7, title: "x"), in: tx) }
    }
    _ = try ObjectFixture.with(path, DatabaseDefinition { StrictPersonFormat.self }) { database in
      #expect(throws: DatabaseError.self) { try Store<StrictPersonFormat>(in: database).warm() }
    }
    let rows = try Tool.objects(["indexes", path, "--json"])
    #expect(rows.count == 1 && rows[0]["state"] as? String == "failed")
    #expect((rows[0]["error"] as? String)?.contains("no value is good") ?? false, "\(rows)")
    #expect(try Tool.good(["indexes", path]).contains("  failed"))
    #expect(try Tool.good(["indexes", path, "--verify"]).contains("not compared: index \"byTitle\" of persons"))
  }

  @Test func `an index that has missed changes is not compared`() throws {
    let line = #"{"key":7,"keyType":"int","coder":"binary","objectHex":"01","shape":["id"]}"#
    try Tool.good(["load", database, try directory.file("rows", line), "--collection", "films"])
    let rows = try Tool.objects(["indexes", database, "--json", "--collection", "films"])
    #expect(rows.allSatisfy { $0["state"] as? String == "stale" })
    let text = try Tool.good(["indexes", database, "--verify", "--collection", "films"])
    #expect(text.contains("not compared: index \"code\" of films is stale\n"))
    #expect(text.hasSuffix("no differences found: 0 indexes, 0 rows, 0 entries\n"))
    let rebuild = try Tool.run(["indexes", database, "--collection", "films", "--rebuild", "code"])
    #expect(rebuild.status == 3 && rebuild.errors.contains("catches up when the program opens the database"))
  }

  @Test func `an unreadable table is reported as damage, and never leads to a wrong result`() throws {
    try Tool.good(["compact", database])
    let tables = try FileManager.default.contentsOfDirectory(atPath: database).filter { $0.hasSuffix(".sst") }
    #expect(tables.count > 5)
    var found: [Int32: Int] = [:]
    for table in tables {
      let copy = directory.path + "/copy-\(table)"
      try FileManager.default.copyItem(atPath: database, toPath: copy)
      var bytes = try Data(contentsOf: URL(fileURLWithPath: copy + "/" + table))
      bytes[20] ^= 0x55
      try bytes.write(to: URL(fileURLWithPath: copy + "/" + table))
      let result = try Tool.run(["indexes", copy, "--verify"])
      found[result.status, default: 0] += 1
      #expect(result.status == 1 || result.status == 3 || result.output.hasPrefix("no differences found"), "\(result)")
      if result.status == 1 {
        #expect(result.output.contains("damaged: ") && result.output.contains(table), "\(result)")
      }
      #expect(try Tool.run(["indexes", copy, "--collection", "films", "--rebuild", "code"]).status >= 0)
    }
    // There are five indexes, the rows of both collections, and the emitted values: each in its own table.
    #expect((found[1] ?? 0) >= 8, "\(found)")
  }

  /// Returns the name of the family of an index of films.
  private func family(_ index: String) throws -> String {
    let catalog = try Tool.good(["dump", "catalog", database])
    let line = try #require(Tool.lines(catalog).first { $0.contains("indexes.films") })
    let number = try #require(line.firstMatch(of: /number (\d+)/)).output.1
    return "x.\(number).i.\(index)"
  }
}
