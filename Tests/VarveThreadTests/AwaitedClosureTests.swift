import Dispatch
import EngineTestSupport
import Testing
import Varve

/// Call sites that must compile: what the closures of asynchronous reads and writes may capture, and where they run.
///
/// A closure may change what its caller alone can reach, because the caller awaits it. Each function here is one of the
/// forms that the guide *Errors of the compiler* shows.
struct AwaitedClosureTests {
  private final class Tally {
    var count = 0
  }

  private struct Page: Codable, Identifiable, Sendable {
    var id: Int
    var number: Int
  }

  private struct PageFormat: StoreFormat {
    typealias Instance = Page
    static let collection = "pages"
    let number = Index(\.number)
  }

  private static func open() async throws -> (Database, Store<PageFormat>) {
    let database = try await Database.inMemory { PageFormat.self }
    let pages = Store<PageFormat>(in: database)
    try await pages.persist(contentsOf: (0..<10).map { Page(id: $0, number: $0 % 3) })
    return (database, pages)
  }

  @Test func `a counter of the caller is changed in every closure that the caller awaits`() async throws {
    let (database, pages) = try await Self.open()
    var count = 0
    try await database.read { tx in count += try tx.count(in: "pages") }
    try await database.write { tx in
      for id in 10..<12 {
        try pages.persist(Page(id: id, number: 0), in: tx)
        count += 1
      }
    }
    try await database.writeConcurrently { tx in
      try tx.set("a", key: 1, in: "letters")
      count += 1
    }
    let connection = database.connection()
    try await connection.read { tx in count += try tx.count(in: "pages") }
    try await connection.write { _ in count += 1 }
    let held = try database.holdSnapshot()
    try await held.read { tx in count += try tx.count(in: "letters") }
    try await pages.modify(3) { page in
      page.number = count
      count += 1
    }
    try await pages.query.filter { $0.number == 1 }.update { page in
      page.number = 7
      count += 1
    }
    try await pages.query.filter { $0.number == 7 }.update(inBatchesOf: 2) { _ in count += 1 }
    #expect(count == 10 + 2 + 1 + 12 + 1 + 1 + 1 + 3 + 3)
    try await database.perform {
      count = 0
      try await database.write { tx in count += try tx.count(in: "pages") }
      try await database.read { tx in count += try tx.count(in: "pages") }
    }
    #expect(count == 24)
    try await database.close()
  }

  @Test func `a random generator of the caller is used, and continues after the call`() async throws {
    let (database, _) = try await Self.open()
    var random = SeededRandom(seed: 48)
    var same = random
    for _ in 0..<3 {
      try await database.write { tx in try tx.set(random.below(100), key: random.below(100), in: "numbers") }
    }
    for _ in 0..<6 { _ = same.below(100) }
    #expect(random.next() == same.next())
    try await database.close()
  }

  @Test func `a class that is not Sendable is used by a closure on the caller's actor, or is given away`() async throws
  {
    let (database, _) = try await Self.open()
    let tally = Tally()
    try await database.read(isolation: #isolation) { tx in tally.count += try tx.count(in: "pages") }
    try await database.write(isolation: #isolation) { _ in tally.count += 1 }
    try await Self.add(to: tally, database)
    #expect(tally.count == 21)
    // A class that the caller does not use again needs no isolation.
    let other = Tally()
    let found = try await database.read { tx in
      other.count = try tx.count(in: "pages")
      return other.count
    }
    #expect(found == 10)
    try await database.close()
  }

  /// A sequence that is not `Sendable`, as the reader of a file is.
  private struct Lines: Sequence, IteratorProtocol {
    let tally = Tally()
    let ids: Range<Int>

    func next() -> Page? {
      guard tally.count < ids.count else { return nil }
      tally.count += 1
      return Page(id: ids.lowerBound + tally.count - 1, number: 1)
    }
  }

  @Test func `a sequence that is not Sendable is given away, and is read while the caller is suspended`() async throws {
    let (database, pages) = try await Self.open()
    let texts = "20,a\n21,b".split(separator: "\n")
    try await pages.insert(bulk: texts.lazy.map { Page(id: Int($0.prefix(2)) ?? 0, number: $0.count) })
    try await pages.insert(bulk: Lines(ids: 30..<33))
    var progress = 0
    let count = try await pages.insert(bulk: AnySequence { Lines(ids: 40..<44) }) { progress = $0 }
    #expect(count == 4 && progress == 4)
    #expect(try await pages.persist(bulk: Lines(ids: 42..<46)) == 4)
    try await pages.persist(contentsOf: Lines(ids: 50..<52))
    #expect(try await pages.load(ids: AnySequence([50, 60].map { $0 + 1 })).map { $0?.id } == [51, nil])
    #expect(try await pages.delete(ids: AnyIterator([50, 51].makeIterator())) == 2)
    #expect(try await pages.count == 10 + 2 + 3 + 6)
    // An array that the caller uses afterward is Sendable.
    let some = [Page(id: 70, number: 1)]
    try await pages.insert(bulk: some)
    #expect(some.count == 1)
    try await database.close()
  }

  /// The form that blocks ends no cancelled task.
  @Test func `a call with await selects the form that suspends the task, whatever its sequence and its progress are`()
    async throws
  {
    let (database, pages) = try await Self.open()
    let task = Task {
      unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
      var last = 0
      await #expect(throws: CancellationError.self) {
        try await pages.insert(bulk: Lines(ids: 30..<33)) { last = $0 }
      }
      await #expect(throws: CancellationError.self) {
        try await pages.persist(bulk: [Page(id: 1, number: 1)].lazy.filter { _ in true }, progress: { last = $0 })
      }
      await #expect(throws: CancellationError.self) { try await pages.migrate { last = $0.rowsDone } }
      return last
    }
    #expect(await task.value == 0)
    #expect(try await pages.count == 10)
    try await database.close()
  }

  private static func add(to tally: Tally, _ database: Database) async throws {
    try await database.read(isolation: #isolation) { tx in tally.count += try tx.count(in: "pages") }
  }

  private static func pick(_ database: Database, _ random: inout some RandomNumberGenerator) async throws -> Int {
    try await database.read(isolation: #isolation) { _ in Int.random(in: 0..<10, using: &random) }
  }

  @Test func `a generic generator of a parameter is used on the caller's actor`() async throws {
    let (database, _) = try await Self.open()
    var random = SeededRandom(seed: 3)
    var same = random
    #expect(try await Self.pick(database, &random) == Int.random(in: 0..<10, using: &same))
    try await database.close()
  }

  private actor Library {
    let database: Database
    private(set) var count = 0
    let tally = Tally()

    init(_ database: Database) { self.database = database }

    /// Local variables need no isolation.
    func local() async throws -> Int {
      var found = 0
      try await database.read { tx in found += try tx.count(in: "pages") }
      found += 1
      return found
    }

    func own() async throws {
      try await database.read(isolation: self) { tx in
        count = try tx.count(in: "pages")
        tally.count += 1
        self.preconditionIsolated()
      }
      try await database.write(isolation: self) { tx in
        try tx.set(count, key: 1, in: "counts")
        count += 1
        self.preconditionIsolated()
      }
      try await database.perform {
        try await database.write(isolation: self) { tx in
          try tx.set(count, key: 2, in: "counts")
          count += 1
        }
        try await database.read(isolation: self) { tx in count += try tx.count(in: "counts") }
      }
    }
  }

  @Test func `an actor's own state is used by closures that run on the actor`() async throws {
    let (database, _) = try await Self.open()
    let library = Library(database)
    #expect(try await library.local() == 11)
    try await library.own()
    #expect(await library.count == 10 + 1 + 1 + 2)
    #expect(try await database.read { tx in try tx.object(Int.self, key: 2, in: "counts") } == 11)
    try await database.close()
  }

  @MainActor private final class Screen {
    var title = "none"
    var count = 0

    /// The main thread is not kept from its work, and local variables are changed nevertheless.
    func elsewhere(_ database: Database) async throws -> Int {
      var found = 0
      let title = title
      let free = DispatchSemaphore(value: 0)
      // These run when the main actor is free, which is only while a closure runs elsewhere.
      for _ in 0..<2 { Task { free.signal() } }
      try await database.read { tx in
        found = try tx.count(in: "pages") + title.count
        #expect(free.wait(timeout: .now() + 60) == .success)
      }
      found += 1
      try await database.write { tx in
        try tx.set(title, key: found, in: "titles")
        found += 1
        #expect(free.wait(timeout: .now() + 60) == .success)
      }
      return found
    }

    func here(_ database: Database) async throws {
      try await database.read(isolation: #isolation) { tx in
        count += try tx.count(in: "titles")
        MainActor.preconditionIsolated()
      }
      try await database.write(label: "here", isolation: MainActor.shared) { tx in
        try tx.set(title, key: 0, in: "titles")
        title = "some"
        MainActor.preconditionIsolated()
      }
    }
  }

  @Test @MainActor func `the closures of the main actor run elsewhere, unless they ask for it`() async throws {
    let (database, _) = try await Self.open()
    let screen = Screen()
    #expect(try await screen.elsewhere(database) == 10 + 4 + 2)
    try await screen.here(database)
    #expect(screen.title == "some" && screen.count == 1)
    try await database.close()
  }

  @Test func `a write on the caller's actor is undone if it throws, and leaves the writer free`() async throws {
    struct Stop: Error {}
    let (database, _) = try await Self.open()
    var calls = 0
    await #expect(throws: Stop.self) {
      try await database.write(isolation: #isolation) { tx in
        try tx.set("a", key: 1, in: "letters")
        throw Stop()
      }
    }
    try await database.perform {
      try? await database.write(isolation: #isolation) { tx in
        try tx.set("b", key: 2, in: "letters")
        throw Stop()
      }
      try await database.write(isolation: #isolation) { tx in
        try tx.set("c", key: 3, in: "letters")
        calls += 1
      }
    }
    #expect(try await database.read { tx in try tx.keys(Int.self, in: "letters") } == [3] && calls == 1)
    try await database.close()
    await #expect(throws: DatabaseError.self) { try await database.read(isolation: #isolation) { _ in } }
    await #expect(throws: DatabaseError.self) { try await database.write(isolation: #isolation) { _ in } }
  }

  @Test func `a write that waits for the writer gives up after its own time, on an actor and off it`() async throws {
    let (database, _) = try await Self.open()
    try await database.perform {
      let others = [
        Task.detached { try await database.write(writerTimeout: .milliseconds(1)) { _ in } },
        Task.detached { try await database.write(writerTimeout: .milliseconds(1), isolation: nil) { _ in } },
      ]
      for other in others {
        do {
          try await other.value
          Issue.record("the writer was held")
        } catch let error as DatabaseError { #expect(error.code == .writerBusy) }
      }
    }
    try await database.close()
  }
}
