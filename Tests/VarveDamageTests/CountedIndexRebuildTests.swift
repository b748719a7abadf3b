import EngineTestSupport
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve
@testable import VarveInspection

/// Tests of rebuilds of counted indexes without the program's code: the counts are right after each commit.
struct CountedIndexRebuildTests {
  private struct Song: Codable, Identifiable, Sendable {
    var id: Int
    var title: String
    var tags: [String]
  }

  private struct Songs: StoreFormat {
    typealias Instance = Song
    static let collection = "songs"
    let title = Index(\.title, counted: true)
    let tags = ManyToManyIndex(\.tags, counted: true)
  }

  /// A storage that compares the counts of all counted parts with the entries after each commit.
  private final class CountingBackend: ForwardingBackend, @unchecked Sendable {
    // Sendable: a mutex guards the state.
    private let state = Mutex((commits: 0, faults: 0))
    var commits: Int { state.withLock { $0.commits } }
    var faults: Int { state.withLock { $0.faults } }

    override func commit(
      _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
    ) throws -> any StorageTicket {
      let ticket = try super.commit(batch, check: check, durability: durability)
      try ticket.wait()
      let review = try DatabaseInspector(base, path: "counted").verifyCounts { throw $0 }
      state.withLock {
        $0.commits += 1
        $0.faults += review.differenceCount
      }
      return ticket
    }
  }

  @Test(arguments: StorageKind.allCases)
  func `each commit of a rebuild has the counts of its entries`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    let backend = try site.open()
    let database = try Database.open(backend, path: "counted", definition: DatabaseDefinition { Songs.self })
    let songs = Store<Songs>(in: database)
    for batch in 0..<5 {
      try database.change { tx in
        for id in batch * 100..<batch * 100 + 100 {
          try songs.persist(Song(id: id, title: "title \(id % 41)", tags: ["all", "tag \(id % 5)"]), in: tx)
        }
      }
    }
    let inspector = try DatabaseInspector(backend, path: "counted")
    let indexes = try inspector.indexes { throw $0 }
    #expect(indexes.map(\.name) == ["tags", "title"] && indexes.allSatisfy(\.isCounted))
    #expect(try inspector.indexDefinitions(of: "songs").keys.sorted() == ["tags", "title"])
    let collection = try inspector.collection("songs")
    var batch = StorageBatch()
    for index in indexes {
      let entries = try #require(index.entries)
      for (number, pair) in try Contract.content(backend, entries).enumerated() {
        if number % 3 == 0 { batch.delete(pair.key, in: entries) }
        if number % 5 == 0 { batch.put([0x11, UInt8(number & 127), 0] + pair.key, [], in: entries) }
      }
    }
    for id in stride(from: 7, to: 500, by: 50) {
      batch.delete(collection.prefix + (try id.encoded()), in: collection.objects)
    }
    try backend.commit(batch, check: nil, durability: .process).wait()
    let catalog = database.core.catalog.families.catalog
    #expect(try CountRepair(backend: backend, catalog: catalog).run().count == 2)

    let counting = CountingBackend(backend)
    for name in ["title", "tags"] {
      let result = try IndexRebuild.run(name, of: "songs", in: counting, "counted", batchSize: 300) { _, _ in }
      #expect(result.added > 0 && result.removed > 0)
    }
    #expect(counting.commits > 20 && counting.faults == 0, "\(counting.faults) in \(counting.commits)")
    let after = try DatabaseInspector(backend, path: "counted")
    #expect(try after.verify(try after.indexes { throw $0 }).differences.isEmpty)
    #expect(try after.entryCount(of: indexes[1]) == 490)
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test func `an index that is made from nothing gets runs of a size that is fast to read`() throws {
    let site = try StorageSite(.disk)
    let backend = try site.open()
    let database = try Database.open(backend, path: "counted", definition: DatabaseDefinition { Songs.self })
    let songs = Store<Songs>(in: database)
    try database.change { tx in
      for id in 0..<3_000 { try songs.persist(Song(id: id, title: "\(id)", tags: []), in: tx) }
    }
    let index = try #require(
      try DatabaseInspector(backend, path: "counted").indexes { throw $0 }.first { $0.name == "title" })
    for family in [index.entries, index.runs] { try backend.dropFamily(try #require(family)) }
    let result = try IndexRebuild.run("title", of: "songs", in: backend, "counted", batchSize: 4_000) { _, _ in }
    #expect(result.added == 3_000)
    let inspector = try DatabaseInspector(backend, path: "counted")
    let made = try #require(try inspector.indexes { throw $0 }.first { $0.name == "title" })
    var review = RunReview(entries: made.entries, runs: made.runs, in: inspector.snapshot, sizeMaximum: 128)
    try review.run { Issue.record("\($0)") }
    #expect(review.entryCount == 3_000 && review.runCount >= 3_000 / 128)
    try database.close()
    withExtendedLifetime(site) {}
  }
}
