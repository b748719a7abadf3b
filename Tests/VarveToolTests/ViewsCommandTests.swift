import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve
import VarveViews

/// Tests of `varve views` as a script sees it.
struct ViewsCommandTests {
  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }

  init() throws { try ViewFixture.make(database) }

  // MARK: - Listing

  @Test func `views are listed with their kinds, versions, groups, sizes and states`() throws {
    let rows = try Tool.objects(["views", database, "--json"])
    #expect(rows.map { $0["name"] as? String } == ["byAuthor", "shelves"])
    #expect(rows.map { $0["kind"] as? String } == ["autoView", "manualView"])
    #expect(rows.map { $0["version"] as? String } == ["2", "1"])
    #expect(rows[0]["keyType"] as? String == "string")
    #expect(rows.map { $0["rows"] as? Int } == [300, 30])
    #expect(rows.allSatisfy { ($0["bytes"] as? Int ?? 0) > 0 && $0["state"] as? String == "ready" })
    #expect(rows.allSatisfy { $0["replaced"] as? Bool == false && $0["volatile"] as? Bool == false })

    let table = Tool.lines(try Tool.good(["views", database]))
    #expect(table.count == 3)
    #expect(
      table[0].split(separator: " ").map(String.init) == [
        "name", "kind", "version", "groups", "rows", "bytes", "state",
      ])
    #expect(table[1].hasPrefix("byAuthor  autoView    2        string  300 ") && table[1].hasSuffix("  ready"))
  }

  @Test func `a database without views lists none`() throws {
    let bare = directory.path + "/bare"
    try ObjectFixture.makeBooks(bare)
    #expect(try Tool.good(["views", bare]) == "no views\n")
    #expect(try Tool.good(["views", bare, "--json"]) == "")
    #expect(try Tool.good(["views", bare, "--verify"]) == "no differences found: 0 views, 0 rows, 0 entries\n")
  }

  @Test func `the groups of a view are listed in order with the numbers of their rows`() throws {
    #expect(
      try Tool.good(["views", database, "byAuthor"]) == "\"author 0\"\t100\n\"author 1\"\t100\n\"author 2\"\t100\n")
    let rows = try Tool.objects(["views", database, "shelves", "--json"])
    #expect(rows.map { $0["group"] as? String } == ["\"shelf 0\"", "\"shelf 10\""])
    #expect(rows.map { $0["rows"] as? Int } == [15, 15])
  }

  @Test func `the rows of a group are those that the program has, from any offset`() throws {
    let content = try ViewFixture.with(database) { try ViewFixture.Content($0) }
    for (name, groups) in [("byAuthor", content.byAuthor), ("shelves", content.shelves)] {
      for (group, keys) in groups {
        // The quotation marks are optional.
        let rows = try Tool.objects(["views", database, name, "--group", group, "--json"])
        #expect(rows.map { $0["key"] as? String } == keys.map(\.text))
        #expect(rows.map { $0["offset"] as? Int } == Array(keys.indices))
        #expect(rows.allSatisfy { $0["collection"] as? String == "books" })
        let some = Tool.lines(
          try Tool.good(["views", database, name, "--group", "\"\(group)\"", "--offset", "7", "--limit", "5"]))
        #expect(some.map { $0.split(separator: "\t")[1] } == keys[7..<12].map { "books/\($0.text)" })
      }
    }
    let line = try Tool.good(["views", database, "byAuthor", "--group", "author 0", "--limit", "1"])
    #expect(line == "0\tbooks/249\t(1949, \"title 249\")\n")
    #expect(try Tool.good(["views", database, "byAuthor", "--group", "author 0", "--offset", "100"]) == "")
    #expect(try Tool.good(["views", database, "byAuthor", "--group", "author 0", "--offset", "\(Int.max)"]) == "")
    #expect(try Tool.good(["views", database, "byAuthor", "--group", "author 0", "--limit", "0"]) == "")
  }

  private struct Pair: Codable, Sendable {
    var number: Int?
    var text: String
  }

  @Test func `groups of compound, optional and descending keys are written as keys are`() throws {
    let path = directory.path + "/groups"
    let compound = AutoView<Compound<Int?, Descending<String>>>(version: "1", of: ["pairs"]) { row in
      let pair = try row.object(as: Pair.self)
      return ViewPlace(Compound(pair.number, Descending(pair.text)), pair.text)
    }.named("compound")
    let bare = AutoView<Int>(version: "1", of: ["pairs"]) { row in
      try row.object(as: Pair.self).number.map { ViewPlace($0) }
    }.named("bare")
    let definition = DatabaseDefinition {
      compound
      bare
    }
    try ObjectFixture.with(path, definition) { database in
      try database.write { tx in
        for number in 0..<20 {
          let pair = Pair(number: number % 4 == 0 ? nil : number % 4 - 2, text: "text \(number % 2)")
          try tx.set(pair, key: number, in: "pairs")
        }
      }
    }
    #expect(
      Tool.lines(try Tool.good(["views", path, "compound"])) == [
        "(nil, \"text 0\")\t5", "(-1, \"text 1\")\t5", "(0, \"text 0\")\t5", "(1, \"text 1\")\t5",
      ])
    #expect(Tool.lines(try Tool.good(["views", path, "bare"])) == ["-1\t5", "0\t5", "1\t5"])
    let rows = Tool.lines(try Tool.good(["views", path, "compound", "--group", "(1, \"text 1\")"]))
    #expect(rows.map { $0.split(separator: "\t")[1] } == [3, 7, 11, 15, 19].map { "pairs/\($0)" })
    #expect(Tool.lines(try Tool.good(["views", path, "bare", "--group=-1"])).count == 5)
    #expect(try Tool.good(["views", path, "--verify"]).hasPrefix("no differences found: 2 views, 35 rows, 35 entries"))
  }

  // MARK: - Errors

  @Test(arguments: [
    ["byAuthor", "--group", "a", "--offset", "-1"], ["byAuthor", "--group", "a", "--limit", "-1"], ["--group", "a"],
    ["byAuthor", "--offset", "1"], ["byAuthor", "--limit", "1"], ["byAuthor", "--verify", "--rebuild"], ["--rebuild"],
    ["byAuthor", "--group", "a", "--verify"],
  ])
  func `an invalid command line exits with status 2`(arguments: [String]) throws {
    #expect(try Tool.run(["views", database] + arguments).status == 2)
  }

  @Test func `a view, a group and a database that do not exist are refused with a clear message`() throws {
    let view = try Tool.run(["views", database, "none"])
    #expect(view.status == 3 && view.errors.contains("no view is named \"none\"; there are \"byAuthor\", \"shelves\""))
    let group = try Tool.run(["views", database, "byAuthor", "--group", "none"])
    #expect(group.status == 1 && group.errors == "varve: the view has no such group\n" && group.output == "")
    let invalid = try Tool.run(["views", database, "byAuthor", "--group", "\"open"])
    #expect(invalid.status == 2 && invalid.errors.contains("is not a group of view \"byAuthor\""), "\(invalid)")
    #expect(try Tool.run(["views", directory.path + "/none"]).status == 3)
    #expect(try Tool.run(["views", database, "none", "--rebuild"]).status == 3)
  }

  @Test func `the help of the command has an example`() throws {
    let help = try Tool.good(["views", "--help"])
    #expect(help.contains("Example: varve views") && help.contains("--json") && help.contains("--verify"))
    #expect(try Tool.good(["--help"]).contains("views"))
  }

  // MARK: - States

  @Test func `a view that has missed changes is listed as stale and is not compared`() throws {
    try ObjectFixture.with(database) { database in
      try database.write { tx throws in _ = try tx.remove(key: 3, in: "books") }
    }
    let rows = try Tool.objects(["views", database, "--json"])
    #expect(rows.allSatisfy { $0["state"] as? String == "stale" })
    let text = try Tool.good(["views", database, "--verify"])
    #expect(text.contains("not compared: view \"byAuthor\" is stale\n"))
    try ViewFixture.with(database) { _ in }
    #expect(try Tool.good(["views", database, "--verify"]) == "no differences found: 2 views, 329 rows, 329 entries\n")
  }

  @Test func `a volatile view is listed as one in the memory of the program`() throws {
    let path = directory.path + "/volatile"
    let view = AutoView<Int>(version: "1", of: ["numbers"], isVolatile: true) { row in
      ViewPlace(try row.object(as: Int.self))
    }.named("numbers")
    try ObjectFixture.with(path, DatabaseDefinition { view }) { database in
      try database.write { tx in for number in 0..<9 { try tx.set(number % 3, key: number, in: "numbers") } }
      // The program has it open.
      let rows = try Tool.objects(["views", path, "--json"])
      #expect(rows.count == 1 && rows[0]["volatile"] as? Bool == true && rows[0]["rows"] as? Int == 0)
      #expect(try Tool.good(["views", path]).hasSuffix(", volatile\n"))
      #expect(try Tool.good(["views", path, "numbers"]) == "")
      #expect(try Tool.good(["views", path, "--verify"]).contains("is in the memory of the program"))
    }
  }

  // MARK: - A process that writes

  @Test func `what is printed while a process writes is the content after one of its commits`() throws {
    try ViewFixture.with(database) { database in
      let books = Store<ViewFixture.Books>(in: database)
      let isDone = Atomic(false)
      let failure = Mutex<(any Error)?>(nil)
      let writer = Thread {
        do {
          for turn in 0..<100_000 {
            if isDone.load(ordering: .relaxed) { break }
            try database.write { tx in
              // Each commit moves a book to another author, and to the end of a shelf.
              var book = ViewFixture.book(turn % 300)
              book.author = "author \(turn % 7)"
              try books.persist(book, in: tx)
              try tx[ViewFixture.shelves].move([ViewFixture.key(turn * 10 % 300)], before: nil, in: "shelf 0")
            }
          }
        } catch {
          failure.withLock { $0 = error }
        }
      }
      writer.start()
      defer {
        isDone.store(true, ordering: .relaxed)
        while !writer.isFinished { Thread.yield() }
      }
      for _ in 0..<TestScale.count(3) {
        let list = try Self.output(["views", self.database, "--json"])
        #expect(list.contains("\"rows\":300,") && list.contains("\"rows\":30,"), "\(list)")
        let groups = Tool.lines(try Self.output(["views", self.database, "byAuthor"]))
        #expect(groups.reduce(0) { $0 + (Int($1.split(separator: "\t")[1]) ?? 0) } == 300, "\(groups)")
        let review = try Self.output(["views", self.database, "--verify"])
        #expect(review == "no differences found: 2 views, 330 rows, 330 entries\n")
        #expect(try Self.output(["verify", self.database]) == "no damage found\n")
      }
      #expect(failure.withLock { $0 } == nil)
    }
  }

  /// Runs a command until the writer does not free segments too often for it.
  private static func output(_ arguments: [String]) throws -> String {
    while true {
      let result = try Tool.run(arguments)
      if result.status == 3, result.errors.contains("busy") { continue }
      #expect(result.status == 0, "\(arguments): \(result.errors)\(result.output)")
      return result.output
    }
  }
}

extension Thread {
  fileprivate static func yield() { usleep(1_000) }
}
