import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of the descriptions of queries, and of the plans that execute them.
struct QueryTests {
  private let database: Database
  private let volumes: Store<VolumeFormat>

  init() throws {
    database = try Database.inMemory { VolumeFormat.self }
    volumes = Store(in: database)
    try database.write { [volumes] tx in
      for id in 1...200 {
        try volumes.persist(
          Volume(id: id, title: "title \(id % 20)", year: 1990 + id % 40, isbn: "i\(id)", tags: ["t\(id % 4)"]), in: tx)
      }
    }
  }

  private func plan(_ query: StoreQuery<VolumeFormat>) throws -> String {
    try database.read { tx in try query.explain(in: tx).description }
  }

  @Test func `explain names the index, its ranges and fields, and how the order is produced`() throws {
    let query = volumes.query
    #expect(try plan(query.filter { $0.isbn == "i7" }) == "index \"isbn\", 1 range of 1 field")
    #expect(
      try plan(query.filter { $0.year == 1999 && $0.title.hasPrefix("t") })
        == "index \"byYear\", 1 range of 2 fields")
    #expect(
      try plan(query.filter { $0.id.isIn(3...9) && $0.title.contains("t") })
        == "rows by identifier, 1 range of 1 field, filtered"
    )
    #expect(
      try plan(query.filter { $0.isbn == "i7" || $0.id == 3 })
        == "index \"isbn\", 1 range of 1 field\nrows by identifier, 1 range of 1 field\nmerged")
    #expect(
      try plan(query.filter { $0.year == 1999 }.sorted(by: \.title)) == "index \"byYear\", 1 range of 1 field\nin order"
    )
    #expect(
      try plan(query.filter { $0.year > 2025 }.sorted(by: \.title).limit(5))
        == "index \"byYear\", 1 range of 1 field\nsorted in memory, the first 5 kept")
    #expect(try plan(query) == "rows by identifier, all of it")
    #expect(try plan(query.filter { $0.year.isIn([Int]()) }) == "nothing")
    #expect(try plan(query.filter { $0.title.contains("x") }.scan()) == "rows by identifier, all of it, filtered")
  }

  @Test func `of two indexes the one with fewer entries is read`() throws {
    #expect(try plan(volumes.query.filter { $0.tags.contains("t1") && $0.year == 1999 }).hasPrefix("index \"byYear\""))
    #expect(try plan(volumes.query.filter { $0.tags.contains("none") && $0.year == 1999 }).hasPrefix("index \"tags\""))
  }

  @Test func `a condition that is not bounded by an index is refused, and the message names its fields`() throws {
    let query = volumes.query.filter { $0.title.contains("x") || $0.year == 3 }
    let error = #expect(throws: DatabaseError.self) { try database.read { tx in try query.count(in: tx) } }
    #expect(error?.code == .notIndexed && error?.collection == "volumes")
    #expect(error?.message.hasPrefix("no index of VolumeFormat bounds a condition on title;") == true)
    #expect(try database.read { tx in try query.scan().count(in: tx) } == 0)
    #expect(errorCode { _ = try database.read { tx in try volumes.query.limit(-1).fetch(in: tx) } } == .invalidArgument)
  }

  @Test func `equivalent queries are equal, and a query value can be run again`() async throws {
    let one = volumes.query.filter { $0.year > 2000 && $0.title == "title 1" }.sorted(by: \.title).limit(3)
    let other = volumes.query.filter { $0.year > 2000 }.filter { $0.title == "title 1" }.sorted(by: \.title).limit(3)
    #expect(one == other && one.hashValue == other.hashValue)
    #expect(one != other.limit(2) && one != other.scan() && one != volumes.query)
    let before = try await one.limit(100).count()
    try await volumes.persist(Volume(id: 1_000, title: "title 1", year: 2020))
    #expect(try await one.limit(100).count() == min(3, before + 1))
    #expect(try await volumes.query.filter { $0.title == "title 1" }.count() == 11)
    #expect(try await one.rows().collect().map(\.id) == one.ids())
    #expect(try await one.exists())
    #expect(try await one.explain().order == .read)
  }

  @Test func `a limit may be as large as an integer, and a list of values longer than other bounds`() throws {
    try database.read { tx throws in
      let all = volumes.query.filter { $0.title.contains("title 1") }.scan().sorted(by: \.weight)
      #expect(try all.limit(.max).ids(in: tx) == all.ids(in: tx))
      #expect(try all.limit(.max).count(in: tx) == 110)
      let many = volumes.query.filter { $0.year.isIn(Array(0..<5_000)) }
      #expect(try many.explain(in: tx).description == "index \"byYear\", 5000 ranges of 1 field")
      #expect(try many.count(in: tx) == 200)
    }
  }

  @Test func `an optional field of an optional field is one optional`() throws {
    struct Inner: Codable, Sendable { var city: String? }
    struct Outer: Codable, Identifiable, Sendable {
      var id: Int
      var home: Inner?
    }
    struct OuterFormat: StoreFormat {
      typealias Instance = Outer
      static let collection = "outers"
      let city = Index({ $0.home.city })
    }
    let database = try Database.inMemory { OuterFormat.self }
    let store = Store<OuterFormat>(in: database)
    try database.write { tx in
      let homes = [nil, Inner(city: nil), Inner(city: "a"), Inner(city: "b")]
      for (id, home) in homes.enumerated() { try store.persist(Outer(id: id, home: home), in: tx) }
    }
    try database.read { tx throws in
      #expect(try store.query.filter { $0.home.city == nil }.ids(in: tx) == [0, 1])
      #expect(try store.query.filter { $0.home.city != nil }.ids(in: tx) == [2, 3])
      #expect(
        try store.query.filter { $0.home.city > "a" || $0.home.city.hasPrefix("a") }.ids(in: tx).sorted() == [2, 3])
      #expect(try store.query.sorted { $0.home.city }.limit(2).ids(in: tx) == [0, 1])
    }
  }

  @Test func `the indexes that a transaction uses are released at its end`() throws {
    weak var indexes: IndexesTransaction<Volume>?
    try database.core.write(WriteTerms()) { tx in
      try volumes.persist(Volume(id: 1, title: "other"), in: tx)
      let info = try #require(try tx.knownInfo("volumes"))
      indexes = try tx.indexes(of: "volumes", named: info.indexesName, Volume.self)
      #expect(indexes != nil)
    }
    #expect(indexes == nil)
  }

  @Test func `a format may have an identifier other than id, and conditions on id are not ones on the key`() throws {
    struct Swapped: StoreFormat {
      typealias Instance = Volume
      static let collection = "swapped"
      static let isIdentifiedByID = false
      static func identifier(of instance: Volume) -> Int { instance.year }
    }
    let database = try Database.inMemory { Swapped.self }
    let store = Store<Swapped>(in: database)
    try database.write { tx in try store.persist(Volume(id: 7, title: "", year: 1999), in: tx) }
    try database.read { tx throws in
      #expect(errorCode { _ = try store.query.filter { $0.id == 7 }.fetch(in: tx) } == .notIndexed)
      #expect(try store.query.filter { $0.id == 7 }.scan().count(in: tx) == 1)
    }
  }
}
