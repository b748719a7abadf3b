import Foundation
import Testing
import Varve
import VarveTesting

/// Tests of stores for tests, which are created by one call.
struct InMemoryTests {
  @Test func `inMemory creates a usable store that contains the given instances`() async throws {
    let emma = Book(id: 1, title: "Emma", authors: ["Jane Austen"])
    let books = try Store<BookFormat>.inMemory(containing: [emma])
    #expect(try await books.load(1) == emma)
    try await books.persist(Book(id: 2, title: "Persuasion", authors: ["Jane Austen"]), metadata: Stars(stars: 5))
    #expect(try await books.count == 2)
    #expect(try await books.metadata(of: 2) == Stars(stars: 5))
    #expect(books.database.path == ":memory:")
  }

  @Test func `each in-memory store has its own database, and may have another collection name`() async throws {
    let first = try Store<ShelfFormat>.inMemory(containing: [Shelf(id: "a", subject: "novels")])
    let second = try Store<ShelfFormat>.inMemory(collection: "other shelves")
    #expect(try await first.count == 1)
    #expect(try await second.count == 0)
    try await second.persist(Shelf(id: "b", subject: "poems"))
    #expect(try reading(second.database) { tx in try tx.collections() } == ["other shelves"])
  }

  @Test func `inMemory throws the error of an invalid format or of a duplicate instance`() {
    struct Twice: StoreFormat {
      static let collection = ""
      typealias Instance = Shelf
    }
    #expect(databaseError { _ = try Store<Twice>.inMemory() }?.code == .invalidDefinition)
    let shelf = Shelf(id: "a", subject: "novels")
    let error = databaseError { _ = try Store<ShelfFormat>.inMemory(containing: [shelf, shelf]) }
    #expect(error?.code == .alreadyExists)
    #expect(error?.collection == "shelves")
    #expect(error?.key == "\"a\"")
  }

  @Test func `several formats can be defined together, for stores of one database`() async throws {
    let database = try await Database.inMemory(
      definition: DatabaseDefinition {
        BookFormat.self
        ShelfFormat.self
      })
    let books = Store<BookFormat>(in: database)
    let shelves = Store<ShelfFormat>(in: database)
    try await database.write { tx in
      try books.persist(Book(id: 1, title: "Emma", authors: []), in: tx)
      try shelves.persist(Shelf(id: "a", subject: "novels"), in: tx)
    }
    #expect(try await books.count == 1)
    #expect(try await shelves.count == 1)
    #expect(
      databaseError {
        _ = try Database.inMemory {
          BookFormat.self
          OldBookFormat.self
        }
      }?.code == .alreadyDefined)
  }
}
