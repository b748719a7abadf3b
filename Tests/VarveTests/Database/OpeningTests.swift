import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures

/// Tests of opening, closing and backing up a database, and of collection definitions.
struct OpeningTests {
  private struct Book: Codable, Sendable { var title: String }
  private struct Film: Codable, Sendable { var title: String }

  private func code(_ body: () throws -> Void) -> DatabaseError.Code? {
    do {
      try body()
      return nil
    } catch {
      return (error as? DatabaseError)?.code
    }
  }

  private func keys(_ database: Database, _ collection: String = "c") throws -> [Int] {
    try database.read { tx in try tx.keys(Int.self, in: collection) }
  }

  private func fill(_ path: String, _ keys: Range<Int> = 0..<10) throws {
    let database = try Database.open(at: path)
    try database.write { tx in for key in keys { try tx.set("row \(key)", key: key, in: "c", metadata: key) } }
    try database.close()
  }

  @Test func `a database of the engine is refused, and stays as it was`() throws {
    let directory = try TemporaryDirectory()
    let fills: [(Engine) throws -> Void] = [
      { engine in _ = try engine.put([1], [2]) }, { engine in _ = try engine.createFamily("events") },
      { engine in _ = try engine.put([1], [2], in: try engine.createFamily("catalog")) },
    ]
    for (number, fill) in fills.enumerated() {
      let path = directory.path + "/engine\(number)"
      var engine = try Engine.open(at: path)
      try fill(engine)
      let families = engine.families.map(\.name)
      try engine.close()
      let error = #expect(throws: DatabaseError.self) { try Database.open(at: path) }
      #expect(error?.code == .notADatabase && error?.message.contains("Engine.open") == true, "\(number)")
      engine = try Engine.open(at: path)
      #expect(engine.families.map(\.name) == families)
      try engine.close()
    }
    // What an interrupted first opening leaves is continued.
    let path = directory.path + "/begun"
    let engine = try Engine.open(at: path)
    _ = try engine.createFamily("catalog")
    try engine.close()
    try fill(path)
  }

  @Test func `a missing database is reported with the options of the object database`() throws {
    let directory = try TemporaryDirectory()
    for (change, words) in [
      ({ $0.createsIfMissing = false }, "createsIfMissing is false"), ({ $0.isReadOnly = true }, "isReadOnly is true"),
      ({ $0.follows = true }, "follows is true"),
    ] as [((inout DatabaseOptions) -> Void, String)] {
      var options = DatabaseOptions()
      change(&options)
      let error = #expect(throws: DatabaseError.self) {
        try Database.open(at: directory.path + "/none", options: options)
      }
      #expect(error?.code == .notFound && error?.message.contains(words) == true, "\(error?.message ?? "")")
    }
    let error = #expect(throws: DatabaseError.self) { try Database.open(at: directory.path + "/none/notes.varve") }
    #expect(error?.code == .notFound)
    #expect(error?.message.hasSuffix("and the directory that is to contain it is missing") == true)
  }

  @Test func `committed rows, counts and numbers are there after reopening`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    try fill(path)
    var database = try Database.open(at: path)
    let (count, id, metadata) = try database.read { tx in
      (try tx.count(in: "c"), try tx.row(key: 9, in: "c")?.id, try tx.metadata(Int.self, key: 9, in: "c"))
    }
    #expect(count == 10)
    #expect(metadata == 9)
    try database.write { tx in try tx.set("new", key: 100, in: "c") }
    let next = try database.read { tx in try tx.row(key: 100, in: "c")?.id }
    #expect(try #require(next) > #require(id), "numbers are never given again")
    try database.close()
    database = try Database.open(at: path)
    #expect(try keys(database) == Array(0..<10) + [100])
    try database.close()
  }

  @Test func `keys of another type, another coder or another storage are refused, and nothing is lost`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    func open(_ collection: CollectionDefinition) throws -> Database {
      let definition = DatabaseDefinition {
        collection
      }
      return try Database.open(at: path, definition: definition)
    }
    var database = try open(CollectionDefinition("books", Book.self, key: Int.self))
    try database.write { tx in try tx.set(Book(title: "Emma"), key: 1, in: "books") }
    #expect(
      code { try database.write { tx in try tx.set(Book(title: "x"), key: "1", in: "books") } } == .keyTypeDiffers)
    #expect(code { try database.write { tx in try tx.set(Film(title: "x"), key: 1, in: "books") } } == .invalidArgument)
    try database.close()
    #expect(code { _ = try open(CollectionDefinition("books", Book.self, key: String.self)) } == .definitionDiffers)
    #expect(
      code { _ = try open(CollectionDefinition("books", Book.self, key: Int.self, coder: .json)) } == .definitionDiffers
    )
    #expect(
      code { _ = try open(CollectionDefinition("books", Book.self, key: Int.self, storage: .own())) }
        == .definitionDiffers)
    database = try open(CollectionDefinition("books", Book.self, key: Int.self))
    #expect(try keys(database, "books") == [1])
    try database.close()
  }

  @Test func `a collection is defined once`() throws {
    let definition = DatabaseDefinition { CollectionDefinition("books", Book.self, key: Int.self) }
    let twice = DatabaseDefinition {
      definition
      CollectionDefinition("books", Film.self, key: Int.self)
    }
    #expect(code { _ = try Database.inMemory(definition: twice) } == .alreadyDefined)
    let database = try Database.inMemory(definition: definition)
    #expect(code { try database.define(CollectionDefinition("books", Film.self, key: Int.self)) } == .alreadyDefined)
    try database.define(CollectionDefinition("films", Film.self, key: Int.self))
    try database.write { tx in try tx.set(Film(title: "Ran"), key: 1, in: "films") }
    #expect(try keys(database, "films") == [1])
  }

  @Test func `a collection is defined once, however many threads try at the same time`() throws {
    let database = try Database.inMemory()
    let defined = Mutex<[String: Int]>([:])
    Threads.run(4) { thread in
      for number in 0..<300 {
        let name = "c\(number)"
        // Half of the definitions have another type, so that they contradict each other.
        let isBook = thread % 2 == 0
        let definition =
          isBook
          ? CollectionDefinition(name, Book.self, key: Int.self)
          : CollectionDefinition(name, Film.self, key: Int.self)
        do {
          try database.define(definition)
          defined.withLock { $0[name, default: 0] += 1 }
        } catch let error as DatabaseError where error.code == .alreadyDefined {}
      }
    }
    #expect(defined.withLock { Set($0.values) } == [1] && defined.withLock { $0.count } == 300)
  }

  @Test func `a follower accepts one definition of a collection that its writer has not created yet`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    try fill(path)
    let writer = try Database.open(at: path)
    var options = DatabaseOptions()
    options.follows = true
    let definition = DatabaseDefinition {
      CollectionDefinition("films", Film.self, key: Int.self)
    }
    let follower = try Database.open(at: path, definition: definition, options: options)
    #expect(code { try follower.define(CollectionDefinition("films", Book.self, key: Int.self)) } == .alreadyDefined)
    try follower.define(CollectionDefinition("books", Book.self, key: Int.self))
    #expect(code { try follower.define(CollectionDefinition("books", Film.self, key: Int.self)) } == .alreadyDefined)
    try writer.write { tx in
      try tx.set(Film(title: "Ran"), key: 1, in: "films")
      try tx.set(Book(title: "Emma"), key: 1, in: "books")
    }
    let titles = try follower.read { tx in
      (try tx.object(Film.self, key: 1, in: "films")?.title, try tx.object(Book.self, key: 1, in: "books")?.title)
    }
    #expect(titles == ("Ran", "Emma"))
    #expect(code { try follower.define(CollectionDefinition("books", Film.self, key: Int.self)) } == .alreadyDefined)
    try follower.close()
    try writer.close()
  }

  @Test func `a late definition whose rule is for another type is refused`() throws {
    let database = try Database.inMemory()
    let books = CollectionDefinition("books", Book.self, key: Int.self)
    #expect(code { try database.define(books.sanitized(before: { (film: Film) in film })) } == .invalidDefinition)
    #expect(code { try database.define(books.sanitized(after: { (_: Film) in })) } == .invalidDefinition)
    // The refused definition must leave no state.
    try database.define(books)
  }

  @Test func `a collection with its own families keeps its rows there, even after reopening`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let definition = DatabaseDefinition {
      CollectionDefinition("books", Book.self, key: Int.self, storage: .own(compression: .zstd))
    }
    var database = try Database.open(at: path, definition: definition)
    try database.write { tx in
      for key in 0..<100 { try tx.set(Book(title: "\(key)"), key: key, in: "books", metadata: "m\(key)") }
      try tx.set("other", key: 5, in: "c")
    }
    try database.close()
    database = try Database.open(at: path, definition: definition)
    try database.write { tx in _ = try tx.remove(in: "books", 10..<90) }
    let found = try database.read { tx in
      (
        try tx.keys(Int.self, in: "books"), try tx.metadata(String.self, key: 95, in: "books"),
        try tx.count(in: "books")
      )
    }
    #expect(found.0 == Array(0..<10) + Array(90..<100))
    #expect(found.1 == "m95")
    #expect(found.2 == 20)
    try database.write { tx in _ = try tx.removeAll(in: "books") }
    #expect(try keys(database, "books") == [])
    #expect(try keys(database) == [5])
    try database.close()
  }

  @Test func `a read-only database reads and refuses writes`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    var options = DatabaseOptions()
    options.isReadOnly = true
    #expect(code { _ = try Database.open(at: path, options: options) } == .notFound)
    try fill(path)
    let database = try Database.open(at: path, options: options)
    #expect(try keys(database) == Array(0..<10))
    #expect(code { try database.write { tx in try tx.set(1, key: 1, in: "c") } } == .readOnly)
    try database.close()
  }

  @Test func `a follower sees what the writer has committed so far`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    try fill(path)
    let writer = try Database.open(at: path)
    var options = DatabaseOptions()
    options.follows = true
    let follower = try Database.open(at: path, options: options)
    #expect(try keys(follower) == Array(0..<10))
    try writer.write { tx in
      try tx.set("new", key: 50, in: "c")
      try tx.set("first of its collection", key: 1, in: "late")
    }
    #expect(try keys(follower) == Array(0..<10) + [50])
    #expect(try keys(follower, "late") == [1])
    #expect(code { try follower.write { tx in try tx.set(1, key: 1, in: "c") } } == .readOnly)
    try follower.close()
    try writer.close()
  }

  @Test func `a backup is an independent database as of one commit`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    try fill(path)
    let database = try Database.open(at: path)
    try database.backup(to: directory.path + "/copy")
    try database.write { tx in _ = try tx.removeAll() }
    let copy = try Database.open(at: directory.path + "/copy")
    #expect(try keys(copy) == Array(0..<10))
    try copy.write { tx in try tx.set("x", key: 77, in: "c") }
    #expect(try keys(database) == [])
    #expect(code { try database.backup(to: directory.path + "/copy") } == .alreadyExists)
    try copy.close()
    try database.close()
  }

  @Test func `a backup of a database in memory is a database on disk`() throws {
    let directory = try TemporaryDirectory()
    let database = try Database.inMemory()
    try database.write { tx in for key in 0..<10 { try tx.set("row \(key)", key: key, in: "c", metadata: key) } }
    #expect(code { try database.backup(to: directory.path + "/missing/copy") } == .notFound)
    try database.backup(to: directory.path + "/copy")
    #expect(code { try database.backup(to: directory.path + "/copy") } == .alreadyExists)
    try database.write { tx in _ = try tx.removeAll() }
    let copy = try Database.open(at: directory.path + "/copy")
    #expect(try keys(copy) == Array(0..<10))
    try copy.write { tx in try tx.set("x", key: 77, in: "c") }
    #expect(try keys(database) == [])
    try copy.close()
    // The backup keeps its rows after the original is closed.
    try database.close()
    let again = try Database.open(at: directory.path + "/copy")
    #expect(try keys(again) == Array(0..<10) + [77])
    try again.close()
  }

  @Test func `close is refused while a transaction runs, and may be called twice`() throws {
    let database = try Database.inMemory()
    #expect(try database.read { _ in code { try database.close() } } == .writerBusy)
    try database.close()
    try database.close()
    #expect(code { _ = try database.read { tx in try tx.count() } } == .closed)
  }

  @Test func `invalid options are refused by name`() throws {
    var options = DatabaseOptions()
    options.writerTimeout = .zero
    #expect(code { _ = try Database.inMemory(options: options) } == .invalidArgument)
    options = DatabaseOptions()
    options.memoryBudget = 5
    #expect(code { _ = try Database.inMemory(options: options) } == .invalidArgument)
    options = DatabaseOptions()
    options.feed?.sizeMaximum = 1
    #expect(code { _ = try Database.inMemory(options: options) } == .invalidArgument)
  }

  @Test func `a key that is too long is refused before anything is written`() throws {
    let database = try Database.inMemory()
    let error = #expect(throws: DatabaseError.self) {
      try database.write { tx in try tx.set(1, key: String(repeating: "k", count: 70_000), in: "c") }
    }
    #expect(error?.code == .keyTooLong)
    #expect(error?.collection == "c")
    try database.write { tx in try tx.set(1, key: String(repeating: "k", count: 60_000), in: "c") }
    #expect(try database.read { tx throws in try tx.count(in: "c") } == 1)
  }
}
