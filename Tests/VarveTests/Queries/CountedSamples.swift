import Testing

@testable import ObjectFixtures
@testable import Varve

/// An instance of the tests of counted indexes.
struct Tome: Codable, Identifiable, Sendable, Hashable {
  var id: Int
  var author = "a"
  var title = "t"
  var year: Int? = 1900
  var isRead = false
  var shelf = 1
  var tags: [String] = []
  var text = ""
}

/// A format with counted indexes of each kind.
struct TomeFormat: StoreFormat {
  static let collection = "tomes"
  typealias Instance = Tome
  let byAuthor = Index(\.author, \.title, counted: true)
  let byYear = Index(\.year, counted: true)
  let newest = Index(counted: true, { $0.author }, { $0.year.descending }, { $0.title })
  let unread = Index(\.title, counted: true, where: { $0.isRead == false })
  let byText = Index(\.text, prefix: 4, counted: true)
  let tags = ManyToManyIndex(\.tags, counted: true)
  let sections = Index(counted: true, { $0.shelf }, { $0.author.descending }, { $0.id })
  @Direct var direct = Index(\.shelf, counted: true)
  let unique = OneToOneIndex(\.id, counted: true)
  let plain = Index(\.isRead, \.year)
}

/// A database in memory with a store of tomes.
struct TomeSite {
  let database: Database
  let tomes: Store<TomeFormat>

  init(_ all: [Tome] = []) throws {
    database = try Database.inMemory { TomeFormat.self }
    tomes = Store(in: database)
    try database.write { [tomes] tx in try tomes.persist(contentsOf: all, in: tx) }
  }

  /// Tomes whose fields have few values, so that each value has several tomes.
  static func samples(_ count: Int) -> [Tome] {
    (0..<count).map { id in
      Tome(
        id: id, author: "a\(id * 7 % 5)", title: "t\(id * 11 % 13)", year: id % 6 == 0 ? nil : 1900 + id * 13 % 9,
        isRead: id % 3 == 0, shelf: id % 4, tags: ["x\(id % 2)", "y\(id % 3)"], text: "text \(id % 7)")
    }
  }
}

/// Expects that counts and offsets of a query are those of an array.
func expectCounted<Format: StoreFormat>(
  _ query: StoreQuery<Format>, _ expected: [Format.Instance], in tx: ReadTransaction, limit: Int = 40,
  sourceLocation: SourceLocation = #_sourceLocation
) throws where Format.Instance: Identifiable & Equatable, Format.Identifier == Format.Instance.ID {
  let ids = expected.map(\.id)
  #expect(try query.count(in: tx) == ids.count, sourceLocation: sourceLocation)
  #expect(try query.ids(at: 0..<Int.max, in: tx) == ids, sourceLocation: sourceLocation)
  #expect(try query.fetch(at: 0..<Int.max, in: tx) == expected, sourceLocation: sourceLocation)
  for offset in stride(from: 0, to: ids.count, by: Swift.max(1, ids.count / limit)) {
    #expect(try query.offset(of: ids[offset], in: tx) == offset, sourceLocation: sourceLocation)
    let range = offset..<Swift.min(ids.count, offset + 3)
    #expect(try query.ids(at: range, in: tx) == Array(ids[range]), sourceLocation: sourceLocation)
    #expect(try query.fetch(at: range, in: tx) == Array(expected[range]), sourceLocation: sourceLocation)
  }
  #expect(try query.ids(at: ids.count..<(ids.count + 5), in: tx).isEmpty, sourceLocation: sourceLocation)
}

/// Returns the message of the `DatabaseError` that `body` throws.
func errorMessage(_ body: () throws -> Void) -> String? {
  do { try body() } catch { return (error as? DatabaseError)?.message }
  return nil
}
