import Testing
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

private struct Concert: Codable, Identifiable, Sendable, Equatable {
  var id: Int
  var city: String
  var day: Int
  var price: Double
  var note: String?
}

private struct ConcertFormat: StoreFormat {
  static let collection = "concerts"
  typealias Instance = Concert
  let latest = Index({ $0.city }, { $0.day.descending })
  let ofNotes = Index(\.note)
}

private struct BareFormat: StoreFormat {
  static let collection = "concerts"
  typealias Instance = Concert
}

private struct PriceFormat: StoreFormat {
  static let collection = "concerts"
  typealias Instance = Concert
  let price = Index(\.price, skipsInvalid: true)
  let dayAndCity = Index(\.day, \.city)
  let free = Index(\.note, where: { $0.day < 5 })
}

/// Tests of indexes whose last field has another direction than the ties of a query, and of aggregates that read an
/// index instead of the rows.
struct TurnedOrderTests {
  /// Every value has several rows, and one has more than are collected in memory.
  private static let concerts = (0..<600).map { id in
    Concert(
      id: id, city: "c\(id % 3)", day: id % 3 == 1 ? 7 : id % 40, price: Double(id % 5), note: id % 4 == 0 ? nil : "n")
  }

  private static func filled<Format: StoreFormat>(
    _ format: Format.Type
  ) throws -> (Database, Store<Format>, CountingBackend) where Format.Instance == Concert {
    let base = try EngineBackend(try Engine.open(at: "/turned", environment: .inMemory()), isInMemory: true)
    let backend = CountingBackend(base)
    let database = try Database.open(backend, path: "/turned", definition: DatabaseDefinition { format })
    let store = Store<Format>(in: database)
    try database.write { tx in for concert in concerts { try store.persist(concert, in: tx) } }
    try warm(store)
    return (database, store, backend)
  }

  @Test func `an index serves the sort by its descending last field, in both directions`() throws {
    let (database, store, _) = try Self.filled(ConcertFormat.self)
    try database.read { tx throws in
      for city in ["c0", "c1", "c2", "nowhere"] {
        for descending in [true, false] {
          let query = store.query.filter { $0.city == city }.sorted(by: \.day, descending: descending)
          #expect(try query.explain(in: tx).description == "index \"latest\", 1 range of 1 field\nin order")
          let expected = Self.concerts.filter { $0.city == city }
            .sorted { ($0.day, $0.id) < ($1.day, $1.id) }.map(\.id)
          #expect(try query.ids(in: tx) == (descending ? expected.reversed() : expected))
          #expect(try query.count(in: tx) == expected.count)
          for limit in [1, 10, 63, 64, 65, 150] {
            let limited = query.limit(limit)
            #expect(try limited.ids(in: tx) == Array((descending ? expected.reversed() : expected).prefix(limit)))
          }
          let some = query.filter { $0.day < 20 && $0.note != nil }
          let wanted = try some.ids(in: tx)
          let all = Set(Self.concerts.filter { $0.day < 20 && $0.note != nil }.map(\.id))
          #expect(wanted == (descending ? expected.reversed() : expected).filter(all.contains))
        }
      }
      let byID = store.query.filter { $0.city == "c0" }.sorted(by: \.day, descending: true).sorted(by: \.id)
      #expect(try byID.explain(in: tx).description.hasSuffix("in order"))
      let expected = Self.concerts.filter { $0.city == "c0" }.sorted { ($1.day, $0.id) < ($0.day, $1.id) }
      #expect(try byID.ids(in: tx) == expected.map(\.id))
    }
  }

  @Test func `pages of a turned order are exact, forward and backward`() throws {
    let (database, store, _) = try Self.filled(ConcertFormat.self)
    try database.read { tx throws in
      for city in ["c0", "c1"] {
        for descending in [true, false] {
          let query = store.query.filter { $0.city == city }.sorted(by: \.day, descending: descending)
          let all = try query.ids(in: tx)
          for size in [7, 64, 90] {
            var (forward, cursor): ([Int], QueryCursor<ConcertFormat>?) = ([], nil)
            repeat {
              let page = try query.page(after: cursor, size: size, in: tx)
              forward += page.instances.map(\.id)
              cursor = page.hasMore ? page.lastCursor : nil
            } while cursor != nil
            #expect(forward == all, "\(city), pages of \(size), descending: \(descending)")
            var (backward, end): ([Int], QueryCursor<ConcertFormat>?) = ([], nil)
            repeat {
              let page = try query.page(before: end, size: size, in: tx)
              backward = page.instances.map(\.id) + backward
              end = page.hasMore ? page.firstCursor : nil
            } while end != nil
            #expect(backward == all, "\(city), pages of \(size), descending: \(descending)")
          }
        }
      }
    }
  }

  @Test func `the first rows of a large value are read, and not all of its rows`() throws {
    let (database, store, backend) = try Self.filled(ConcertFormat.self)
    try database.read { tx throws in
      let before = backend.count
      let found = try store.query.filter { $0.city == "c1" }.sorted(by: \.day, descending: true).limit(5).ids(in: tx)
      #expect(found == [598, 595, 592, 589, 586])
      // All 200 concerts are on one day: a part of them is read to see that there are many.
      #expect(backend.count - before < 200)
    }
  }

  // MARK: - Aggregates

  @Test func `aggregates without a condition read an index with the fields, and no row`() throws {
    let (database, store, _) = try Self.filled(ConcertFormat.self)
    let (bare, rows, _) = try Self.filled(BareFormat.self)
    let rowsOnly = Self.concerts
    try database.read { tx throws in
      #expect(try store.query.sum(of: \.day, in: tx) == rowsOnly.reduce(0) { $0 + $1.day })
      #expect(try store.query.average(of: \.day, in: tx) == rows.query.average(of: \.day, in: bare))
      #expect(try store.query.values(of: \.day, in: tx).sorted() == rowsOnly.map(\.day).sorted())
      #expect(try store.query.distinct(\.city, in: tx) == ["c0", "c1", "c2"])
      #expect(try store.query.distinct(\.note, in: tx) == [nil, "n"])
      #expect(try store.query.grouped(by: \.city, in: tx).map(\.count) == [200, 200, 200])
      let sums = try store.query.grouped(by: \.city, summing: \.day, in: tx)
      #expect(
        sums.map(\.sum)
          == ["c0", "c1", "c2"].map { city in rowsOnly.filter { $0.city == city }.reduce(0) { $0 + $1.day } })
      // Without an index of the field, the rows are read.
      #expect(try store.query.sum(of: \.price, in: tx) == 1_200)
      // A limit without an order takes the first rows.
      #expect(try store.query.limit(3).values(of: \.day, in: tx) == rowsOnly.prefix(3).map(\.day))
    }
  }

  @Test func `an index that may lack rows serves no aggregate`() throws {
    let (database, store, _) = try Self.filled(PriceFormat.self)
    try database.write { tx in try store.persist(Concert(id: 700, city: "c0", day: 9, price: .nan), in: tx) }
    try database.read { tx throws in
      #expect(try store.query.values(of: \.price, in: tx).count == 601)
      #expect(try store.query.values(of: \.note, in: tx).count == 601)
      #expect(try store.query.values(of: \.day, in: tx).count == 601)
    }
  }

  @Test func `what an aggregate reads without a condition are entries`() throws {
    let (database, store, backend) = try Self.filled(ConcertFormat.self)
    try database.read { tx throws in
      let objects = try #require(try tx.info("concerts")).objects
      let read = backend.read(of: objects)
      _ = try store.query.sum(of: \.day, in: tx)
      _ = try store.query.grouped(by: \.city, summing: \.day, in: tx)
      #expect(backend.read(of: objects) == read)
      _ = try store.query.sum(of: \.price, in: tx)
      #expect(backend.read(of: objects) == read + 600)
    }
  }
}

extension StoreQuery {
  /// Returns the average in a transaction of its own.
  fileprivate func average<Value: SummableValue>(
    of path: any KeyPath<Format.Instance, Value> & Sendable, in database: Database
  ) throws -> Value.Average? {
    try database.read { tx in try average(of: path, in: tx) }
  }
}
