import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of the row API.
struct RowTests {
  struct Book: Codable, Hashable, Sendable {
    var title: String
    var year: Int
  }

  struct Size: Codable, Hashable, Sendable { var pages: Int }

  private let database: Database
  init() throws { database = try Database.inMemory() }

  /// Calls the synchronous form of `read`, by a name without overloads.
  private func reading<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result {
    try database.read(body)
  }

  private func writing<Result>(_ body: (WriteTransaction) throws -> Result) throws -> Result {
    try database.write(body)
  }

  private static let moby = Book(title: "Moby-Dick", year: 1851)
  private static let emma = Book(title: "Emma", year: 1815)

  @Test func `a row that was set is read, counted and listed`() throws {
    try database.write { tx in
      try tx.set(Self.moby, key: "m", in: "books")
      try tx.set(Self.emma, key: "e", in: "books", metadata: Size(pages: 400))
    }
    try database.read { tx throws in
      #expect(try tx.object(Book.self, key: "m", in: "books") == Self.moby)
      #expect(try tx.metadata(Size.self, key: "m", in: "books") == nil)
      #expect(try tx.metadata(Size.self, key: "e", in: "books") == Size(pages: 400))
      #expect(try tx.count(in: "books") == 2)
      #expect(try tx.keys(String.self, in: "books") == ["e", "m"])
      #expect(try tx.collections() == ["books"])
      #expect(try tx.contains(key: "x", in: "books") == false)
    }
  }

  @Test func `set without metadata removes it, and replaceObject keeps it`() throws {
    try database.write { tx in
      try tx.set(Self.emma, key: "e", in: "books", metadata: Size(pages: 400))
      try tx.replaceObject(Self.moby, key: "e", in: "books")
    }
    #expect(try reading { try $0.metadata(Size.self, key: "e", in: "books") } == Size(pages: 400))
    try database.write { try $0.set(Self.moby, key: "e", in: "books") }
    #expect(try reading { try $0.metadata(Size.self, key: "e", in: "books") } == nil)
    #expect(try writing { try $0.replaceObject(Self.moby, key: "none", in: "books") } == false)
  }

  @Test func `a write that throws changes nothing, and a nested write that throws is undone alone`() throws {
    struct Stop: Error {}
    #expect(throws: Stop.self) {
      try database.write { tx in
        try tx.set(Self.moby, key: "m", in: "books")
        throw Stop()
      }
    }
    #expect(try reading { try $0.count() } == 0)
    try database.write { tx in
      try tx.set(Self.moby, key: "m", in: "books")
      try? database.write { inner in
        try inner.set(Self.emma, key: "e", in: "books")
        try inner.remove(key: "m", in: "books")
        #expect(try inner.keys(String.self, in: "books") == ["e"])
        throw Stop()
      }
      #expect(try tx.keys(String.self, in: "books") == ["m"])
    }
    #expect(try reading { try $0.keys(String.self, in: "books") } == ["m"])
  }

  @Test func `a row keeps its number through updates, and a new one gets another`() throws {
    try database.write { try $0.set(Self.moby, key: "m", in: "books") }
    let first = try database.read { try $0.row(key: "m", in: "books")?.id }
    try database.write { try $0.set(Self.emma, key: "m", in: "books") }
    #expect(try reading { try $0.row(key: "m", in: "books")?.id } == first)
    try database.write { try $0.remove(key: "m", in: "books") }
    try database.write { try $0.set(Self.emma, key: "m", in: "books") }
    #expect(try reading { try $0.row(key: "m", in: "books")?.id } != first)
  }
}
