import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of defects of CodableDatastore that concern stores: none exists here.
struct DefectTests {
  @Test(arguments: StoreLocation.allCases)
  func `dates are keys with their full precision`(location: StoreLocation) async throws {
    struct Event: Codable, Identifiable, Hashable, Sendable {
      var id: Date
      var text: String
    }
    struct EventFormat: StoreFormat {
      static let collection = "events"
      typealias Instance = Event
    }
    let open = try location.open()
    let events = Store<EventFormat>(in: open.database)
    let date = Date(timeIntervalSinceReferenceDate: 700_000_000.123_456_7)
    try await events.persist(Event(id: date, text: "first"))
    #expect(try await events.load(date...(date + 1)).collect().count == 1)
    #expect(try await events.load((date - 1)..<date).collect().isEmpty)
    #expect(try await events.update(Event(id: date, text: "second")).text == "first")
    #expect(try await events.load(...).first?.id == date)
    #expect(try await events.delete(date).text == "second")
    #expect(try await events.count == 0)
  }

  @Test(arguments: [true, false])
  func `another type of identifier is an error, and the rows stay`(isDefined: Bool) async throws {
    struct Renamed: StoreFormat {
      static let collection = "notes"
      struct Instance: Codable, Identifiable, Sendable { var id: String }
    }
    let directory = try TemporaryDirectory()
    var database = try OpenDatabase.database(in: directory)
    try await Store<NoteFormat>(in: database).persist(contentsOf: (1...5).map(Note.init))
    try await database.close()
    if isDefined {
      let definition = DatabaseDefinition {
        Renamed.self
      }
      #expect(errorCode { _ = try OpenDatabase.database(in: directory, definition) } == .definitionDiffers)
    } else {
      database = try OpenDatabase.database(in: directory)
      let store = Store<Renamed>(in: database)
      #expect(await errorCode { _ = try await store.count } == .definitionDiffers)
      #expect(await errorCode { try await store.migrate() } == .definitionDiffers)
      #expect(await errorCode { try await store.persist(Renamed.Instance(id: "a")) } == .definitionDiffers)
      try await database.close()
    }
    database = try OpenDatabase.database(in: directory)
    #expect(try await Store<NoteFormat>(in: database).load(...).collect() == (1...5).map(Note.init))
    try await database.close()
  }

  @Test(arguments: StoreLocation.allCases)
  func `a store first used in a transaction that throws writes no row and no collection`(location: StoreLocation)
    async throws
  {
    let open = try location.open()
    let books = Store<BookFormat>(in: open.database)
    let book = Book(id: UUID(), title: "Emma", authors: ["Austen"])
    #expect(throws: StoreStop.self) {
      try open.writing { tx in
        try books.persist(book, in: tx)
        throw StoreStop()
      }
    }
    await #expect(throws: StoreStop.self) {
      try await open.database.perform {
        try await books.persist(book)
        throw StoreStop()
      }
    }
    #expect(try await books.count == 0)
    #expect(try await books.load(...).collect().isEmpty)
    #expect(try open.reading { tx in try tx.collections() }.isEmpty)
    #expect(try await books.persist(book) == nil)
    #expect(try await books.load(book.id) == book)
    #expect(try await books.migrate() == 0)
  }

  @Test(arguments: StoreLocation.allCases)
  func `a store first used in a read can be used after it`(location: StoreLocation) async throws {
    let open = try location.open()
    let books = Store<BookFormat>(in: open.database)
    #expect(try open.reading { tx in try books.count(in: tx) } == 0)
    let book = Book(id: UUID(), title: "Emma", authors: ["Austen"])
    try await books.persist(book)
    #expect(try open.reading { tx in try books.load(book.id, in: tx) } == book)
    #expect(try await books.modify(book.id) { $0.year = 1815 }.year == 1815)
  }

  @Test(arguments: StoreLocation.allCases)
  func `a write inside a read throws, and is not shown and then lost`(location: StoreLocation) async throws {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    try open.reading { tx throws in
      #expect(errorCode { try open.writing { inner in _ = try notes.persist(Note(1), in: inner) } } == .writeInsideRead)
      #expect(try notes.load(1, in: tx) == nil)
    }
    let readOnly = Store<NoteFormat>(in: try SharedBackend().readOnlyAfterOpening().open())
    #expect(await errorCode { try await readOnly.persist(Note(1)) } == .readOnly)
    #expect(await errorCode { try await readOnly.delete(...) } == .readOnly)
  }

  @Test(arguments: StoreLocation.allCases)
  func `a long key is stored, and one that is too long is refused before anything is written`(
    location: StoreLocation
  ) async throws {
    let open = try location.open()
    let store = Store(of: Data.self, key: String.self, in: open.database, collection: "long")
    let long = String(repeating: "k", count: 9_000)
    try await store.persist(Data([1]), for: long)
    try await store.persist(Data([2]), for: "short")
    #expect(try await store.load(long) == Data([1]))
    #expect(try await store.load(...).collect() == [Data([1]), Data([2])])
    let tooLong = String(repeating: "k", count: 70_000)
    try open.writing { tx throws in
      try store.persist(Data([3]), for: "before", in: tx)
      #expect(errorCode { try store.persist(Data([4]), for: tooLong, in: tx) } == .keyTooLong)
      #expect(errorCode { _ = try store.load(tooLong, in: tx) } == .keyTooLong)
    }
    #expect(try await store.count == 3)
    #expect(try await store.delete(long) == Data([1]))
  }

  @Test(arguments: StoreLocation.allCases)
  func `an emptied store is empty in both directions`(location: StoreLocation) async throws {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    try await notes.persist(contentsOf: (1...300).map(Note.init))
    for id in 1...300 { try await notes.delete(id) }
    #expect(try await notes.load(..., descending: true).collect().isEmpty)
    #expect(try await notes.load(...).collect().isEmpty)
    #expect(try await notes.load(5..., descending: true).first == nil)
    #expect(try open.reading { tx in try Array(notes.load(..., descending: true, in: tx)) }.isEmpty)
    #expect(try await notes.count == 0)
  }

  @Test func `a reader sees each new commit of a writer`() async throws {
    let directory = try TemporaryDirectory()
    let writer = try OpenDatabase.database(in: directory)
    let written = Store<NoteFormat>(in: writer)
    try await written.persist(Note(1))
    var options = DatabaseOptions()
    options.follows = true
    let reader = try OpenDatabase.database(in: directory, options: options)
    let read = Store<NoteFormat>(in: reader)
    for id in 2...5 {
      try await written.persist(Note(id))
      try await written.delete(id - 1)
      #expect(try await read.load(...).collect() == [Note(id)])
      #expect(try await read.load(id) == Note(id))
    }
    // The collection may also be written for the first time while the reader is open; it is read in each way.
    try await Store<NoteFormat>(in: writer, collection: "later").persist(Note(9))
    #expect(try await Store<NoteFormat>(in: reader, collection: "later").load(...).collect() == [Note(9)])
    try await Store(of: Data.self, key: Int.self, in: writer, collection: "last").persist(Data([1]), for: 1)
    #expect(try await Store(of: Data.self, key: Int.self, in: reader, collection: "last").load(1) == Data([1]))
    #expect(await errorCode { try await read.persist(Note(1)) } == .readOnly)
    try await reader.close()
    try await writer.close()
  }

  @Test(arguments: StoreLocation.allCases)
  func `two stores in one read share a snapshot`(location: StoreLocation) async throws {
    let open = try location.open()
    let first = Store<NoteFormat>(in: open.database, collection: "first")
    let second = Store<NoteFormat>(in: open.database, collection: "second")
    func write(_ text: String) async throws {
      try await open.database.write { tx in
        try first.persist(Note(id: 1, text: text), in: tx)
        try second.persist(Note(id: 1, text: text), in: tx)
      }
    }
    try await write("old")
    let gate = Gate()
    gate.shut()
    // The read waits on a separate thread between the two stores.
    let seen = Mutex<[String?]>([])
    let reading = Thread {
      do {
        try open.reading { tx in
          let one = try first.load(1, in: tx)?.text
          gate.pass()
          let other = try second.load(1, in: tx)?.text
          seen.withLock { $0 = [one, other] }
        }
      } catch {
        Issue.record(error)
        seen.withLock { $0 = [nil] }
      }
    }
    reading.start()
    await gate.waitUntilHeld()
    try await write("new")
    gate.open()
    while seen.withLock({ $0.isEmpty }) { await Task.yield() }
    #expect(seen.withLock { $0 } == ["old", "old"])
    #expect(try await second.load(1)?.text == "new")
  }

  @Test func `collect returns as many as requested`() async throws {
    let open = try StoreLocation.memory.open()
    let notes = Store<NoteFormat>(in: open.database)
    try await notes.persist(contentsOf: (1...5).map(Note.init))
    #expect(try await notes.load(...).collect(upTo: 0).isEmpty)
    #expect(try await notes.load(...).collect(upTo: 3).map(\.id) == [1, 2, 3])
  }

  @Test func `two formats of one key are an error`() async throws {
    let open = try StoreLocation.memory.open()
    let notes = Store<NoteFormat>(in: open.database, collection: "shared")
    let books = Store<BookFormat>(in: open.database, collection: "shared")
    try await notes.persist(Note(1))
    #expect(await errorCode { _ = try await books.load(UUID()) } == .alreadyDefined)
    #expect(await errorCode { try await books.persist(Book(id: UUID(), title: "", authors: [])) } == .alreadyDefined)
    #expect(await errorCode { try await books.delete(...) } == .alreadyDefined)
    // Adding the same format twice is allowed.
    #expect(try await Store<NoteFormat>(in: open.database, collection: "shared").load(1) == Note(1))
  }

  @Test func `a detached write that perform waits for throws, and does not hang`() async throws {
    var options = DatabaseOptions()
    options.writerTimeout = .milliseconds(20)
    let database = try await Database.inMemory(options: options)
    let notes = Store<NoteFormat>(in: database)
    try await database.perform {
      try await notes.persist(Note(1))
      let detached = Task.detached { await errorCode { try await notes.persist(Note(2)) } }
      #expect(await detached.value == .writerBusy)
    }
    #expect(try await notes.load(...).collect() == [Note(1)])
  }

  @Test func `a sequence can be iterated any number of times`() async throws {
    let open = try StoreLocation.memory.open()
    let notes = Store<NoteFormat>(in: open.database)
    try await notes.persist(contentsOf: (1...5).map(Note.init))
    let rows = notes.load(...)
    for _ in 0..<3 { #expect(try await rows.collect().count == 5) }
  }

  @Test func `versions of strings are in the order of their declaration`() async throws {
    struct Nine: StoreFormat {
      static let collection = "versions"
      enum Version: String, CaseIterable, Sendable { case v9 }
      static let currentVersion = Version.v9
      typealias Instance = Note
      static func decode(_ stored: StoredValue, version: Version) throws -> Note { try stored.decode() }
    }
    struct Ten: StoreFormat {
      static let collection = "versions"
      enum Version: String, CaseIterable, Sendable { case v9, v10 }
      static let currentVersion = Version.v10
      typealias Instance = Note
      static func decode(_ stored: StoredValue, version: Version) throws -> Note {
        switch version {
        case .v9: Note(id: try stored.decode(Note.self).id, text: "converted")
        case .v10: try stored.decode()
        }
      }
    }
    let backend = try SharedBackend()
    try await Store<Nine>(in: try backend.open()).persist(contentsOf: [Note(1), Note(2)])
    let store = Store<Ten>(in: try backend.open())
    #expect(try await store.load(1)?.text == "converted")
    try await store.persist(Note(3))
    #expect(try await store.migrate(olderThan: .v9) == 0)
    #expect(try await store.migrate(olderThan: .v10) == 2)
    #expect(await errorCode { _ = try await Store<Nine>(in: try backend.open()).load(3) } == .unsupportedVersion)
  }

  @Test(arguments: StoreLocation.allCases)
  func `observers that start inside a transaction receive all of it, the first like the second`(
    location: StoreLocation
  ) async throws {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    var made: [ChangeSequence] = []
    try open.writing { tx in
      try notes.persist(Note(1), in: tx)
      made.append(open.database.changes())
      try notes.persist(Note(2), in: tx)
      made.append(open.database.changes())
      try notes.persist(Note(3), in: tx)
    }
    #expect(made.count == 2)
    for sequence in made {
      var events = sequence.makeAsyncIterator()
      guard case .changes(let changes) = try await events.next() else {
        Issue.record("no commit came")
        continue
      }
      #expect(try changes.insertedKeys(in: "notes").map { try $0.key(as: Int.self) } == [1, 2, 3])
    }
  }

  @Test func `a task that continues after its transaction gets an error`() async throws {
    let open = try StoreLocation.memory.open()
    let notes = Store<NoteFormat>(in: open.database)
    let (ended, end) = AsyncStream.makeStream(of: Void.self)
    let late = try await open.database.perform {
      try await notes.persist(Note(1))
      return Task {
        for await _ in ended {}
        return await errorCode { try await notes.persist(Note(2)) }
      }
    }
    end.finish()
    #expect(await late.value == .transactionEnded)
    #expect(try await notes.count == 1)
  }

  // MARK: - Defects without a number

  @Test func `reads write nothing`() async throws {
    let backend = try SharedBackend()
    let notes = Store<NoteFormat>(in: try backend.open())
    try await notes.persist(contentsOf: (1...300).map(Note.init))
    backend.setBack()
    #expect(try await notes.load(1) == Note(1))
    #expect(try await notes.load(...).collect().count == 300)
    #expect(try await notes.count(5..<10) == 5)
    #expect(try await notes.metadata(of: 1) == nil)
    #expect(try await notes.contains(301) == false)
    let again = Store<NoteFormat>(in: try backend.open())
    backend.setBack()
    #expect(try await again.count == 300)
    #expect(try await again.load(2) == Note(2))
    #expect(backend.asked.commits == 0)
  }

  @Test func `two nested databases are independent`() async throws {
    let outer = Store<NoteFormat>(in: try await Database.inMemory())
    let inner = Store<NoteFormat>(in: try await Database.inMemory())
    await #expect(throws: StoreStop.self) {
      try await outer.database.perform {
        try await outer.persist(Note(1))
        try await inner.persist(Note(2))
        #expect(try await inner.count == 1)
        #expect(try await outer.count == 1)
        throw StoreStop()
      }
    }
    #expect(try await outer.count == 0)
    #expect(try await inner.load(...).collect() == [Note(2)])
  }

  @Test func `a slow read does not undo what was written meanwhile`() async throws {
    let notes = Store<NoteFormat>(in: try await Database.inMemory())
    try await notes.persist(contentsOf: (0..<600).map(Note.init))
    var slow = notes.load(...).makeAsyncIterator()
    #expect(try await slow.next() == Note(0))
    try await notes.delete(100..<600)
    try await notes.persist(Note(id: 1, text: "written meanwhile"))
    var seen = 1
    while try await slow.next() != nil { seen += 1 }
    #expect(seen == 600)
    #expect(try await notes.count == 100)
    #expect(try await notes.load(1)?.text == "written meanwhile")
  }

  // MARK: - Behavior that was right, and stays

  @Test func `identifiers of strings compare as strings do`() async throws {
    let open = try StoreLocation.memory.open()
    let store = Store(of: Data.self, key: String.self, in: open.database, collection: "strings")
    try await store.persist(Data([1]), for: "\u{e9}")
    #expect(try await store.persist(Data([2]), for: "e\u{301}") == Data([1]))
    #expect(try await store.count == 1)
  }

  @Test(arguments: StoreLocation.allCases)
  func `fifty concurrent changes of one instance all apply`(location: StoreLocation) async throws {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    try await notes.persist(Note(id: 1, text: ""))
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<50 { group.addTask { try await notes.modify(1) { $0.text += "x" } } }
      try await group.waitForAll()
    }
    #expect(try await notes.load(1)?.text.count == 50)
    try await open.database.perform {
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<50 { group.addTask { try await notes.modify(1) { $0.text += "y" } } }
        try await group.waitForAll()
      }
    }
    #expect(try await notes.load(1)?.text.count == 100)
  }

  @Test(arguments: StoreLocation.allCases)
  func `rows are removed and moved during an iteration without affecting it`(location: StoreLocation) async throws {
    let open = try location.open()
    let notes = Store<NoteFormat>(in: open.database)
    try await notes.persist(contentsOf: (0..<300).map(Note.init))
    var seen = 0
    for try await note in notes.load(...) {
      try await notes.delete(note)
      try await notes.persist(Note(note.id + 1_000))
      seen += 1
    }
    #expect(seen == 300)
    #expect(try await notes.load(...).collect().map(\.id) == Array(1_000..<1_300))
  }
}
