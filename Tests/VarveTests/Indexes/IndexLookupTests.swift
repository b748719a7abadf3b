import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of loading instances by the indexes of a format.
struct IndexLookupTests {
  private let database: Database
  private let volumes: Store<VolumeFormat>

  init() throws {
    database = try Database.inMemory { VolumeFormat.self }
    volumes = Store(in: database)
    try database.write { [volumes] tx in
      try volumes.persist(
        contentsOf: [
          Volume(id: 1, title: "Emma", year: 1815, isbn: "a", tags: ["love", "village", "love"], codes: [1, 2]),
          Volume(id: 2, title: "Persuasion", year: 1817, tags: ["love", "sea"], home: Volume.Home(city: "Bath")),
          Volume(id: 3, title: "Emma", year: 2009, shelf: .science, home: Volume.Home(city: "London"), weight: .nan),
          Volume(id: 4, title: "Optics", year: 2009, isbn: "b", codes: [3], shelf: .science, price: 2.50),
          Volume(id: 5, title: "Älg", year: 1999, tags: ["sea"], shelf: .science, price: 2.5),
        ], in: tx)
    }
  }

  private func ids(_ load: (ReadTransaction) throws -> StoreCursor<Volume>) throws -> [Int] {
    try database.read { tx in try Array(load(tx)).map(\.id) }
  }

  @Test func `a value of a unique index has one instance or none`() async throws {
    #expect(try await volumes.load(.value("a"), from: \.isbn)?.id == 1)
    #expect(try await volumes.load(.value("b"), from: \.isbn)?.id == 4)
    #expect(try await volumes.load(.value("c"), from: \.isbn) == nil)
    // Several instances may have no value, so none is the one with nil.
    let none: Volume? = try await volumes.load(.value(nil), from: \.isbn)
    #expect(none == nil)
    #expect(try await volumes.load(.value(nil), from: \.isbn).collect().count > 1)
    #expect(try await volumes.load(.value(2), from: \.codes)?.id == 1)
    #expect(try await volumes.load(.value(4), from: \.codes) == nil)
  }

  @Test func `values and ranges are in the order of the index, and then of the identifiers`() async throws {
    #expect(try ids { try volumes.load(.value("Emma"), from: \.title, in: $0) } == [1, 3])
    #expect(try ids { try volumes.load(.value("Emma"), from: \.title, descending: true, in: $0) } == [3, 1])
    #expect(try ids { try volumes.load(.value("Emma"), from: \.direct, in: $0) } == [1, 3])
    #expect(try ids { try volumes.load(.range("F"..<"Q"), from: \.title, in: $0) } == [4, 2])
    #expect(try ids { try volumes.load(.all, from: \.title, in: $0) } == [1, 3, 4, 2, 5])
    #expect(try ids { try volumes.load(.all, from: \.title, descending: true, limit: 2, in: $0) } == [5, 2])
    #expect(try ids { try volumes.load(.range("Emma" ..> "Optics"), from: \.title, in: $0) } == [4])
    #expect(try await volumes.load(.range("F"..<"Q"), from: \.title).collect().map(\.id) == [4, 2])
    #expect(try await volumes.load(.all, from: \.direct, descending: true).collect().map(\.id) == [5, 2, 4, 3, 1])
    #expect(errorCode { _ = try ids { try volumes.load(.all, from: \.title, limit: -1, in: $0) } } == .invalidArgument)
  }

  @Test func `an index of several fields is looked up by all of them, or by the first ones`() async throws {
    #expect(try ids { try volumes.load(.value(Compound(2009, "Emma")), from: \.byYear, in: $0) } == [3])
    #expect(try ids { try volumes.load(.prefix(2009), from: \.byYear, in: $0) } == [3, 4])
    #expect(try ids { try volumes.load(.prefix(2009), from: \.byYear, descending: true, in: $0) } == [4, 3])
    #expect(try ids { try volumes.load(.range(.beginning(with: 1816...1999)), from: \.byYear, in: $0) } == [2, 5])
    #expect(try ids { try volumes.load(.range(Compound(1815, "F")...), from: \.byYear, limit: 2, in: $0) } == [2, 5])
    // The index sorts by descending year.
    #expect(try ids { try volumes.load(.prefix(Volume.Shelf.science), from: \.byShelf, in: $0) } == [3, 4, 5])
    #expect(try ids { try volumes.load(.prefix(Volume.Shelf.fiction), from: \.byShelf, in: $0) } == [2, 1])
    #expect(try await volumes.count(.prefix(2009), from: \.byYear) == 2)
  }

  @Test func `an index of an optional field takes values and ranges of the wrapped type`() async throws {
    let (isbn, city) = ("a", "Bath")
    #expect(try await volumes.load(.value(isbn), from: \.isbn)?.id == 1)
    #expect(try await database.read { tx in try volumes.load(.value(isbn), from: \.isbn, in: tx)?.id } == 1)
    #expect(try await volumes.load(.value(Optional(isbn)), from: \.isbn)?.id == 1)
    #expect(try ids { try volumes.load(.value(city), from: \.city, in: $0) } == [2])
    #expect(try await volumes.load(.value(city), from: \.city, limit: 3).collect().map(\.id) == [2])
    #expect(try ids { try volumes.load(.range(city..<"M"), from: \.city, in: $0) } == [2, 3])
    #expect(try ids { try volumes.load(.range(city ..> "M"), from: \.city, descending: true, in: $0) } == [3])
    // Instances without a city are before all others, and in no range of cities.
    #expect(try ids { try volumes.load(.range(...city), from: \.city, in: $0) } == [2])
    #expect(try await volumes.load(.range(..."M"), from: \.city).collect().map(\.id) == [2, 3])
    #expect(try await volumes.count(.value(city), from: \.city) == 1)
    #expect(try await volumes.count(.range(city...), from: \.city) == 2)
    #expect(try await database.read { tx in try volumes.count(.value(city), from: \.city, in: tx) } == 1)
    #expect(try await database.read { tx in try volumes.count(.range(..."M"), from: \.city, in: tx) } == 2)
  }

  @Test func `an index may have optional and nested fields, decimals, conditions and values that aren't keys`() throws {
    #expect(try ids { try volumes.load(.value("Bath"), from: \.city, in: $0) } == [2])
    #expect(try ids { try volumes.load(.value(nil), from: \.city, in: $0) } == [1, 4, 5])
    #expect(try ids { try volumes.load(.value(Decimal(string: "2.50")!), from: \.price, in: $0) } == [4, 5])
    #expect(try ids { try volumes.load(.value(2009), from: \.recent, in: $0) } == [3, 4])
    #expect(try ids { try volumes.load(.all, from: \.recent, in: $0) } == [3, 4])
    #expect(try ids { try volumes.load(.all, from: \.weight, in: $0) } == [1, 2, 4, 5])
  }

  @Test func `an instance with several values is returned once, for the first of them`() async throws {
    #expect(try ids { try volumes.load(.value("love"), from: \.tags, in: $0) } == [1, 2])
    #expect(try ids { try volumes.load(.all, from: \.tags, in: $0) } == [1, 2, 5])
    #expect(try ids { try volumes.load(.all, from: \.tags, descending: true, in: $0) } == [1, 5, 2])
    #expect(try await volumes.count(.all, from: \.tags) == 3)
    #expect(try await volumes.count(.value("sea"), from: \.tags) == 2)
    #expect(try await volumes.count(.range("M"..."z"), from: \.tags) == 3)
  }

  @Test func `a cursor of an index seeks by its values`() throws {
    try database.read { tx throws in
      var cursor = try volumes.load(.all, from: \.title, in: tx)
      try cursor.seek(to: "F")
      #expect(try cursor.next()?.id == 4)
      try cursor.seek(to: "Emma")
      #expect(try cursor.next()?.id == 1)
      var descending = try volumes.load(.all, from: \.title, descending: true, in: tx)
      try descending.seek(to: "Emma")
      #expect(try descending.next()?.id == 3)
      #expect(try descending.count() == 1)
    }
  }

  @Test func `a transaction finds its own writes, and an undone savepoint removes them`() throws {
    try database.write { tx throws in
      try volumes.modify(1, in: tx) { $0.title = "Zoe" }
      try volumes.delete(3, in: tx)
      #expect(try Array(volumes.load(.value("Emma"), from: \.title, in: tx)).isEmpty)
      #expect(try Array(volumes.load(.value("Zoe"), from: \.direct, in: tx)) == [volumes.load(1, in: tx)])
      try? database.write { tx throws in
        try volumes.modify(1, in: tx) { $0.isbn = "z" }
        #expect(try volumes.load(.value("a"), from: \.isbn, in: tx) == nil)
        throw StoreStop()
      }
      #expect(try volumes.load(.value("a"), from: \.isbn, in: tx)?.title == "Zoe")
      #expect(try volumes.load(.value("z"), from: \.isbn, in: tx) == nil)
    }
  }
}
