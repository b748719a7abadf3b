import EngineTestSupport
import Testing

@testable import Varve

/// Tests of groups of elements, in a collection with a row that can't be decoded.
struct UndecodableElementTests {
  /// A book as a newer program stores it, of any kind.
  private struct WideBook: Codable, Identifiable, Sendable {
    var id: Int
    var tags: [String]
    var kind = "novel"
  }

  private struct Book: Codable, Identifiable, Sendable {
    enum Kind: String, Codable, Sendable { case novel }
    var id: Int
    var tags: [String]
    var kind = Kind.novel
  }

  private struct WideBooks: StoreFormat {
    typealias Instance = WideBook
    static let collection = "books"
    let byTag = ManyToManyIndex(\.tags)
  }

  private struct SkippingBooks: StoreFormat {
    typealias Instance = Book
    static let collection = "books"
    static let undecodable: UndecodablePolicy = .skips
    let byTag = ManyToManyIndex(\.tags)
  }

  private struct ReplacingBooks: StoreFormat {
    typealias Instance = Book
    static let collection = "books"
    static let undecodable: UndecodablePolicy = .fallback { row in
      (try? row.key.key(as: Int.self)).map { Book(id: $0, tags: ["unknown"]) }
    }
    let byTag = ManyToManyIndex(\.tags)
  }

  private let directory: TemporaryDirectory
  private var path: String { directory.path + "/db" }

  init() async throws {
    directory = try TemporaryDirectory()
    let database = try await Database.open(at: directory.path + "/db") { WideBooks.self }
    try await Store<WideBooks>(in: database).persist(contentsOf: [
      WideBook(id: 1, tags: ["a"]), WideBook(id: 2, tags: ["a", "b"], kind: "poem"),
    ])
    try await database.close()
  }

  private func groups<Format: StoreFormat>(_ format: Format.Type) async throws -> (groups: [String: Int], skipped: Int)
  where Format.Instance == Book {
    let database = try await Database.open(at: path) { format }
    let query = Store<Format>(in: database).query
    let answer = try await database.read { tx in
      let groups = try query.grouped(byElementsOf: \.tags, in: tx)
      #expect(try query.distinct(elementsOf: \.tags, in: tx) == groups.map(\.value))
      return (Dictionary(uniqueKeysWithValues: groups.map { ($0.value, $0.count) }), tx.skippedRows.count)
    }
    try await database.close()
    return answer
  }

  @Test func `groups of elements follow the policy as fetch does, although an index has the entries of all rows`()
    async throws
  {
    let skipping = try await groups(SkippingBooks.self)
    #expect(skipping.groups == ["a": 1] && skipping.skipped == 1)
    let replacing = try await groups(ReplacingBooks.self)
    #expect(replacing.groups == ["a": 1, "unknown": 1] && replacing.skipped == 0)
  }
}
