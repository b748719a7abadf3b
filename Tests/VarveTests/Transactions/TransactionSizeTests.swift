import EngineTestSupport
import Synchronization
import Testing

@testable import ObjectFixtures
@testable import Varve

private struct Page: Codable, Identifiable, Sendable, Equatable {
  var id: Int
  var text: String
}

private struct PageFormat: StoreFormat {
  static let collection = "pages"
  typealias Instance = Page
  let text = Index(\.text, prefix: 20)
}

/// Tests of the size that a transaction may have, and of inserting in pieces.
struct TransactionSizeTests {
  private static func pages(_ range: Range<Int>) -> [Page] {
    range.map { Page(id: $0, text: "page \($0) " + String(repeating: "x", count: 4_000)) }
  }

  private static func limited() throws -> (Database, Store<PageFormat>) {
    var options = DatabaseOptions()
    options.transactionBytes = 16 << 20
    let database = try Database.inMemory(definition: DatabaseDefinition { PageFormat.self }, options: options)
    return (database, Store(in: database))
  }

  @Test func `a row beyond the size of a transaction is refused, and the error says how to split it`() throws {
    let (database, pages) = try Self.limited()
    var error: DatabaseError?
    var count = 0
    #expect(throws: DatabaseError.self) {
      try database.write { tx in
        for page in Self.pages(0..<10_000) {
          do { try pages.insert(page, in: tx) } catch let failure as DatabaseError {
            error = failure
            throw failure
          }
          count += 1
        }
      }
    }
    #expect(error?.code == .batchTooLarge)
    #expect(count > 1_000 && count < 5_000, "\(count) rows")
    let message = error?.message ?? ""
    for words in ["\(count) changes of rows", "16777216 bytes", "transactionBytes", "insert(bulk:)", "inBatchesOf:"] {
      #expect(message.contains(words), "\(message)")
    }
    #expect(try database.read { tx in try pages.count(in: tx) } == 0)
    try database.close()
  }

  @Test func `instances are inserted in pieces, with progress, and a failure leaves the pieces before`() async throws {
    let (database, pages) = try Self.limited()
    let steps = Mutex<[Int]>([])
    let count = try await pages.insert(bulk: Self.pages(0..<5_000)) { count in steps.withLock { $0.append(count) } }
    #expect(count == 5_000)
    let progress = steps.withLock { $0 }
    #expect(progress.count >= 4 && progress == progress.sorted() && progress.last == 5_000, "\(progress)")
    #expect(try await pages.count == 5_000)
    #expect(try await pages.verifyIndexes().isEmpty)

    let done = Mutex(0)
    let more = Self.pages(5_000..<6_000) + Self.pages(0..<1) + Self.pages(6_000..<7_000)
    let error = await #expect(throws: DatabaseError.self) {
      try await pages.insert(bulk: more) { count in done.withLock { $0 = count } }
    }
    #expect(error?.code == .alreadyExists && error?.key == "0")
    let kept = done.withLock { $0 }
    #expect(error?.message.contains("; \(kept) instances of the pieces before are committed") == true)
    #expect(try await pages.count == 5_000 + kept)

    let inside = await #expect(throws: DatabaseError.self) {
      try await database.perform { _ = try await pages.insert(bulk: Self.pages(8_000..<8_001)) }
    }
    #expect(inside?.code == .invalidArgument)
    try await database.close()
  }

  @Test func `an import that ended early is repeated by persist, which replaces what is there`() async throws {
    let (database, pages) = try Self.limited()
    try await pages.insert(Page(id: 2_900, text: "former"))
    let all = Self.pages(0..<3_000)
    await #expect(throws: DatabaseError.self) { try await pages.insert(bulk: all) }
    #expect(try await pages.count > 1)
    var steps: [Int] = []
    #expect(try await pages.persist(bulk: all + all.prefix(1)) { steps.append($0) } == 3_001)
    #expect(steps == steps.sorted() && steps.count > 1 && steps.last == 3_001)
    #expect(try await pages.count == 3_000)
    #expect(try await pages.load(2_900) == all[2_900])
    #expect(try Self.persistBlocking(all.lazy.map { Page(id: $0.id, text: "new \($0.id)") }, pages) == 3_000)
    #expect(try await pages.load(7)?.text == "new 7")
    #expect(try await pages.verifyIndexes().isEmpty)
    let inside = await #expect(throws: DatabaseError.self) {
      try await database.perform { _ = try await pages.persist(bulk: all) }
    }
    #expect(inside?.code == .invalidArgument)
    #expect(inside?.message.contains("instances are written in pieces outside of transactions only") == true)
    try await database.close()
  }

  private static func persistBlocking(_ all: some Sequence<Page>, _ pages: Store<PageFormat>) throws -> Int {
    try pages.persist(bulk: all)
  }

  @Test func `an instance that fits in a transaction of its own is inserted after smaller ones`() async throws {
    let (database, pages) = try Self.limited()
    // The bound is 16 MiB.
    var all: [Page] = []
    for id in 0..<90 {
      all.append(Page(id: id, text: String(repeating: "a", count: id % 30 == 29 ? 13 << 20 : 100_000)))
    }
    #expect(try await pages.insert(bulk: all) == 90)
    #expect(try await pages.count == 90)
    #expect(try await pages.verifyIndexes().isEmpty)
    let tooLarge = [Page(id: 100, text: "b"), Page(id: 101, text: String(repeating: "c", count: 17 << 20))]
    let error = await #expect(throws: DatabaseError.self) { try await pages.insert(bulk: tooLarge) }
    #expect(error?.code == .batchTooLarge)
    #expect(try await pages.count == 91)
    try await database.close()
  }

  @Test func `a lazy sequence is read piece by piece, also by the blocking form`() throws {
    let (database, pages) = try Self.limited()
    var (read, ahead) = (0, 0)
    let lazy = (0..<3_000).lazy.map { id in
      read += 1
      return Page(id: id, text: "text")
    }
    let count = try pages.insert(bulk: lazy) { committed in ahead = max(ahead, read - committed) }
    #expect(count == 3_000 && ahead == 0)
    #expect(try database.read { tx in try pages.count(in: tx) } == 3_000)
    try database.close()
  }

  @Test func `the size of a transaction follows the budget, and is unchanged without one`() throws {
    var options = DatabaseOptions()
    #expect(options.transactionLimit == 1 << 30)
    for (budget, limit) in [(1 << 20, 256 << 20), (1 << 29, 256 << 20), (1 << 30, 512 << 20), (1 << 34, 1 << 30)] {
      options.memoryBudget = budget
      #expect(options.transactionLimit == limit)
    }
    for wrong in [0, 100, (1 << 30) + 1] {
      options.transactionBytes = wrong
      #expect(throws: DatabaseError.self) { try options.validate() }
    }
    options.transactionBytes = 16 << 20
    #expect(options.transactionLimit == 16 << 20)
    try options.validate()
  }
}
