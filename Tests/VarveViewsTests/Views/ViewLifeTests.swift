import EngineTestSupport
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve
@testable import VarveViews

/// Tests of how views come into being: built, built by tables, brought up to date, replaced, in memory, followed.
struct ViewLifeTests {
  private typealias Handle = ExtensionHandle<AutoView<String>>
  private let site: StorageSite

  init() throws { site = try StorageSite(.memory) }

  private func open() throws -> Database { try Database.open(try site.open(), path: "life") }

  @discardableResult
  private func with<Result>(
    _ view: AutoView<String>? = nil, _ body: (Database, Handle) throws -> Result
  ) throws -> Result {
    let database = try open()
    let handle = try view.map { try database.registerReady($0, as: "view") } ?? BookView.byAuthor().named("view")
    let result = try body(database, handle)
    try database.close()
    return result
  }

  private func fill(_ database: Database, _ range: Range<Int>, author: (Int) -> String? = { "\($0 % 7)" }) throws {
    try database.change { tx throws in
      for number in range { try tx.set(Book(author(number), number, "\(number)"), key: "\(number)", in: "books") }
    }
  }

  private func expectRight(
    _ database: Database, _ view: Handle, count: Int? = nil, location: SourceLocation = #_sourceLocation
  ) throws {
    try database.look { tx throws in
      let differences = try tx[view].verify(limit: 5)
      #expect(differences == [], sourceLocation: location)
      if let count { #expect(try tx[view].count() == count, sourceLocation: location) }
    }
  }

  // MARK: - Built

  @Test(arguments: [nil, 24 << 10, 1 << 20])
  func `a view over existing rows is built, by puts or by tables, and has the same content`(spill: Int?) throws {
    let database = try open()
    if let spill {
      database.core.extensions.rowsForIngestion.store(100, ordering: .relaxed)
      database.core.extensions.spillSize.store(spill, ordering: .relaxed)
    }
    try fill(database, 0..<1_500) { $0 % 10 == 3 ? nil : "\($0 % 7)" }
    try database.change { tx throws in
      try tx.set("no book", key: "text", in: "books")
      try tx.set(Book(String(repeating: "x", count: 70_000), 1, "long"), key: "long", in: "books")
    }
    let view = try database.registerReady(BookView.byAuthor(), as: "view")
    try expectRight(database, view, count: 1_350)
    #expect(try database.look { tx in try tx[view].unplacedRows().count } == 2)
    #expect(try database.look { tx in try tx[view].groups().count } == 7)
    try fill(database, 100..<200) { _ in "moved" }
    try expectRight(database, view)
    #expect(try database.look { tx in try tx[view].count(in: "moved") } == 100)
    try database.close()
  }

  @Test func `changes that are made while a view is built by tables are not lost`() throws {
    let database = try open()
    database.core.extensions.rowsForIngestion.store(100, ordering: .relaxed)
    database.core.extensions.spillSize.store(8 << 10, ordering: .relaxed)
    try fill(database, 0..<2_000)
    let view = try database.core.register(BookView.byAuthor(), "view", nil)
    for round in 0..<20 {
      try fill(database, round * 90..<round * 90 + 50) { "\(round) \($0 % 2)" }
      try database.change { tx throws in
        for number in round * 90 + 60..<round * 90 + 70 { try tx.remove(key: "\(number)", in: "books") }
        try tx.add(Book("a", 1, "\(round * 90 + 61)"))
      }
    }
    try database.waitReady(view)
    try expectRight(database, view, count: 2_000 - 20 * 9)
    try database.close()
  }

  // MARK: - Brought up to date

  // yap 72
  @Test func `a view that was not registered for a while receives what it has missed`() throws {
    let counter = Counter()
    let view = AutoView<String>(version: "1", of: ["books"]) { row in
      counter.add()
      let book = try row.object(as: Book.self)
      return book.author.map { ViewPlace($0, Descending(book.year), book.title) }
    }
    try with(view) { database, _ in try fill(database, 0..<300) }
    try with { database, _ throws in
      try fill(database, 10..<15) { _ in nil }
      try fill(database, 300..<302) { _ in "new" }
      try database.change { tx throws in
        for number in 20..<25 { try tx.remove(key: "\(number)", in: "books") }
        try tx.remove(key: "30", in: "books")
        try tx.set("no book", key: "30", in: "books")
      }
    }
    counter.reset()
    try with(view) { database, handle throws in
      #expect(counter.count == 8, "each missed row that exists, once")
      try expectRight(database, handle, count: 300 - 5 + 2 - 5 - 1)
      #expect(try database.look { tx in try tx[handle].unplacedRows().count } == 1)
    }
    // All rows were removed meanwhile, of one collection and of all.
    try with { database, _ in try database.change { tx in try tx.removeAll(in: "books") } }
    try with(view) { database, handle throws in
      try expectRight(database, handle, count: 0)
      try fill(database, 0..<10)
    }
    try with { database, _ throws in
      try database.change { tx in try tx.removeAll() }
      try fill(database, 5..<7)
    }
    try with(view) { database, handle in try expectRight(database, handle, count: 2) }
  }

  @Test func `a view of several collections receives that one of them was emptied while it was not registered`() throws
  {
    let view = BookView.byAuthor(of: ["books", "films"])
    try with(view) { database, _ throws in
      try fill(database, 0..<20)
      try database.change { tx in try tx.add(Book("a", 1, "film"), in: "films") }
    }
    try with { database, _ in try database.change { tx in try tx.removeAll(in: "books") } }
    try with(view) { database, handle in try expectRight(database, handle, count: 1) }
    try with { database, _ in _ = try database.core.dropCollection("films") }
    try with(view) { database, handle in try expectRight(database, handle, count: 0) }
  }

  // yap 70: versions differ or not; they have no order.
  @Test func `another version or scope builds the view again, the same one keeps it`() throws {
    let calls = Counter()
    func view(_ version: String, of collections: Set<String> = ["books"]) -> AutoView<String> {
      AutoView(version: version, of: collections) { row in
        calls.add()
        return ViewPlace(version, try row.object(as: Book.self).title)
      }
    }
    func groups(_ view: AutoView<String>) throws -> [String] {
      try with(view) { database, handle throws in
        try expectRight(database, handle)
        calls.reset()
        return try database.look { tx in try tx[handle].groups().map(\.group) }
      }
    }
    try with { database, _ in try fill(database, 0..<10) }
    #expect(try groups(view("2")) == ["2"])
    #expect(try groups(view("1")) == ["1"])
    #expect(try groups(view("2")) == ["2"])
    try with(view("2")) { _, _ in #expect(calls.count == 0) }
    try with(view("2", of: ["books", "films"])) { database, handle throws in
      #expect(calls.count == 10)
      try expectRight(database, handle, count: 10)
    }
  }

  @Test func `another type of groups builds the view again, even with the same version`() throws {
    try with { database, _ in try fill(database, 0..<10) }
    try with(AutoView(version: "1", of: ["books"]) { _ in ViewPlace("text") }) { _, _ in }
    let database = try open()
    let numbers = AutoView<Int>(version: "1", of: ["books"]) { ViewPlace(try $0.object(as: Book.self).year % 2) }
    let handle = try database.registerReady(numbers, as: "view")
    #expect(try database.look { tx in try tx[handle].groups().map(\.count) } == [5, 5])
    #expect(try database.look { tx in try tx[handle].verify() } == [])
    try database.close()
  }

  // MARK: - Replaced

  // yap 67, 68, 82
  @Test(arguments: [false, true])
  func `another definition is put in force, at once or beside the old one, and old snapshots keep theirs`(
    byShadow: Bool
  ) throws {
    try with(BookView.byAuthor()) { database, view throws in
      if byShadow { database.core.extensions.rowsInTransaction.store(10, ordering: .relaxed) }
      try fill(database, 0..<500)
      let held = try database.holdSnapshot()
      try database.change { tx in try tx.replaceDefinition(of: view, by: BookView.byDecade()) }
      try fill(database, 100..<120) { _ in "x" }
      try database.waitReady(view)
      try database.look { tx throws in
        #expect(try tx[view].versionTag == "2")
        #expect(try tx[view].groups().count == 50)
        #expect(try tx[view].verify() == [])
      }
      try held.read { tx throws in
        #expect(try tx[view].versionTag == "1")
        #expect(try tx[view].groups().map(\.group) == ["0", "1", "2", "3", "4", "5", "6"])
        #expect(try tx[view].verify() == [])
      }
      // The same version is ignored: the content stays, and the closure is not called.
      let calls = Counter()
      try database.change { tx throws in
        try tx.replaceDefinition(
          of: view,
          by: AutoView(version: "2", of: ["books"]) { row in
            calls.add()
            return ViewPlace("other")
          })
      }
      #expect(calls.count == 0)
      #expect(try database.look { tx in try tx[view].groups().count } == 50)
    }
  }

  @Test func `a replacement that is built by tables continues after the death of the process`() throws {
    func open() throws -> Database {
      let database = try self.open()
      database.core.extensions.rowsInTransaction.store(10, ordering: .relaxed)
      database.core.extensions.rowsForIngestion.store(100, ordering: .relaxed)
      database.core.extensions.spillSize.store(4 << 10, ordering: .relaxed)
      return database
    }
    let database = try open()
    try fill(database, 0..<1_500)
    let view = try database.registerReady(BookView.byAuthor(), as: "view")
    let isAbandoned = Setting(false)
    let site = site
    nonisolated(unsafe) let dying = site
    try database.change { tx in
      try tx.replaceDefinition(of: view, by: BookView.byDecade()) { _ in
        guard case .ingesting? = database.core.extensionCatalog.record("view")?.shadow?.state else { return }
        if isAbandoned.value { return }
        isAbandoned.value = (try? unsafe dying.abandon()) != nil
      }
    }
    try database.waitReady(view)
    try database.close()
    #expect(isAbandoned.value)
    let again = try open()
    let replaced = try again.core.register(BookView.byDecade(), "view", replacing: BookView.byAuthor(), nil)
    try again.waitReady(replaced)
    try expectRight(again, replaced, count: 1_500)
    #expect(try again.look { tx in try tx[replaced].versionTag } == "2")
    try again.close()
  }

  @Test func `a definition that orders the rows by keys of other types replaces the old one`() throws {
    try with(BookView.byAuthor()) { database, view throws in
      try fill(database, 0..<20) { _ in "a" }
      let byPrice = AutoView<String>(version: "price", of: ["books"]) { row in
        let book = try row.object(as: Book.self)
        return ViewPlace("all", Descending(Double(book.year)), book.author == nil)
      }
      try database.change { tx throws in
        try tx.replaceDefinition(of: view, by: byPrice)
        #expect(try tx[view].titles("all") == (0..<20).reversed().map { "\($0)" })
        try tx.add(Book("a", 100, "19"))
        #expect(try tx[view].verify() == [])
      }
      try expectRight(database, view, count: 20)
    }
  }

  // MARK: - In memory, and unfilled

  // yap 84
  @Test func `a volatile view is built at each registration, and old snapshots keep the old content`() throws {
    let view = BookView.byAuthor(isVolatile: true)
    try with(view) { database, handle throws in
      try fill(database, 0..<10)
      try expectRight(database, handle, count: 10)
      let held = try database.holdSnapshot()
      try fill(database, 0..<5) { _ in nil }
      try expectRight(database, handle, count: 5)
      try held.read { tx throws in #expect(try tx[handle].count() == 10 && tx[handle].verify() == []) }
    }
    try with(view) { database, handle in try expectRight(database, handle, count: 5) }
    // yap 70: the same view on disk, and back in memory.
    try with(BookView.byAuthor()) { database, handle in try expectRight(database, handle, count: 5) }
    try with(view) { database, handle in try expectRight(database, handle, count: 5) }
  }

  // yap 83
  @Test func `an unfilled view has the rows that were changed or touched since, and no others`() throws {
    try with { database, _ in try fill(database, 0..<10) { _ in "a" } }
    let view = BookView.byAuthor(isFilled: false)
    try with(view) { database, handle throws in
      #expect(try database.look { tx in try tx[handle].isEmpty })
      try database.change { tx throws in
        try tx.add(Book("a", 1, "1"), Book("b", 2, "new"))
        _ = try tx.touchRow(key: "5", in: "books")
        try tx.remove(key: "6", in: "books")
      }
      #expect(try database.look { tx in try tx[handle].shelves() } == ["a": ["5", "1"], "b": ["new"]])
      try expectRight(database, handle)
    }
    try with { database, _ in try fill(database, 7..<8) { _ in "c" } }
    try with(view) { database, handle throws in
      #expect(try database.look { tx in try tx[handle].groups().map(\.group) } == ["a", "b", "c"])
      try expectRight(database, handle, count: 4)
    }
  }

  // MARK: - Others

  @Test func `a process that follows reads the view as of each commit`() throws {
    let writer = try open()
    var options = DatabaseOptions()
    options.follows = true
    let view = try writer.registerReady(BookView.byAuthor(), as: "view")
    try fill(writer, 0..<50)
    let follower = try Database.open(try site.follow(), path: "follower", options: options)
    let followed = try follower.registerReady(BookView.byAuthor(), as: "view")
    #expect(try follower.look { tx in try tx[followed].count() } == 50)
    try fill(writer, 10..<20) { _ in nil }
    try follower.look { tx throws in
      #expect(try tx[followed].count() == 40)
      #expect(try tx[followed].verify() == [])
      #expect(try tx[followed].shelves() == writer.look { try $0[view].shelves() })
    }
    try follower.close()
    let volatile = try Database.open(try site.follow(), path: "follower", options: options)
    #expect(
      errorCode { try volatile.registerReady(BookView.byAuthor(isVolatile: true), as: "view") } == .definitionDiffers)
    try volatile.close()
    try writer.close()
  }

  // yap 98: a snapshot from before the registration says that the view is not ready, and never that it is empty.
  @Test func `a snapshot from before the registration does not have the view`() throws {
    try with { database, _ throws in
      try fill(database, 0..<10)
      let held = try database.holdSnapshot()
      let view = try database.registerReady(BookView.byAuthor(), as: "late")
      #expect(errorCode { try held.read { tx in _ = try tx[view].count() } } == .notReady)
      #expect(try database.look { tx in try tx[view].count() } == 10)
    }
  }

  // yap 95: hooks that ask before a change find the old place, and after it the new one.
  @Test func `hooks read the view before and after each change`() throws {
    try with(BookView.byAuthor()) { database, view throws in
      let seen = Setting<[String]>([])
      @Sendable func note(_ what: String, _ row: RowKey, _ tx: ReadTransaction) throws {
        let group = try tx[view].group(of: row) ?? "-"
        seen.value += ["\(what) \(group)"]
      }
      try database.registerReady(
        Watching { change, when, tx in try note("\(when) \(change)", book("x"), tx) }, as: "watching")
      try database.change { tx throws in
        try tx.add(Book("a", 1, "x"))
        try tx.add(Book("b", 1, "x"))
        try tx.remove(key: "x", in: "books")
      }
      #expect(
        seen.value == [
          "before inserted -", "after inserted a", "before updated a", "after updated b", "before removed b",
          "after removed -",
        ])
    }
  }
}

/// An extension that calls a closure before and after each change.
private struct Watching: DatabaseExtension {
  static let kind = "test.watching"
  let note: @Sendable (RowChange.Event, String, ReadTransaction) throws -> Void
  init(_ note: @escaping @Sendable (RowChange.Event, String, ReadTransaction) throws -> Void) { self.note = note }
  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.needs = .before
    configuration.build = .none
    return configuration
  }
  func makeTransaction(_ context: ExtensionContext<Self>) throws -> WatchingTransaction {
    WatchingTransaction(note, context)
  }
}

private final class WatchingTransaction: ExtensionTransaction {
  typealias Definition = Watching
  let note: @Sendable (RowChange.Event, String, ReadTransaction) throws -> Void
  let context: ExtensionContext<Watching>
  init(
    _ note: @escaping @Sendable (RowChange.Event, String, ReadTransaction) throws -> Void,
    _ context: ExtensionContext<Watching>
  ) {
    (self.note, self.context) = (note, context)
  }
  func willChange(_ change: borrowing RowChange) throws { try note(change.event, "before", context.transaction) }
  func didChange(_ change: borrowing RowChange) throws { try note(change.event, "after", context.transaction) }
}
