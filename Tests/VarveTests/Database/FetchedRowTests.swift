import EngineTestSupport
import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of rows of any type as an asynchronous sequence.
struct FetchedRowTests {
  private struct Book: Codable, Hashable, Sendable { var title: String }
  private struct Size: Codable, Hashable, Sendable { var pages: Int }

  private static func key(_ number: Int) -> String { "b\(1_000 + number)" }

  /// Stores books, every third of which has metadata, and numbers in another collection.
  private func filled(_ location: StoreLocation) throws -> OpenDatabase {
    let open = try location.open()
    try open.writing { tx in
      for number in 0..<700 {
        let size = number % 3 == 0 ? Size(pages: number) : nil
        try tx.set(Book(title: "t\(number)"), key: Self.key(number), in: "books", metadata: size)
      }
      for number in 0..<5 { try tx.set(Book(title: "n"), key: number, in: "numbers") }
    }
    return open
  }

  private func texts(_ rows: Rows<FetchedRow>) async throws -> [String] {
    var texts: [String] = []
    for try await row in rows { texts.append(row.key.text) }
    return texts
  }

  private func texts(_ numbers: some Sequence<Int>) -> [String] { numbers.map { "\"\(Self.key($0))\"" } }

  @Test(arguments: StoreLocation.allCases)
  func `rows come with key, object and metadata, in order`(location: StoreLocation) async throws {
    let open = try filled(location)
    defer { withExtendedLifetime(open) {} }
    var number = 0
    for try await row in open.database.rows(in: "books") {
      #expect(try row.key(as: String.self) == Self.key(number))
      #expect(try row.object(as: Book.self) == Book(title: "t\(number)"))
      #expect(try row.metadata(as: Size.self) == (number % 3 == 0 ? Size(pages: number) : nil))
      #expect(row.hasMetadata == (number % 3 == 0))
      number += 1
    }
    #expect(number == 700)
  }

  @Test(arguments: StoreLocation.allCases)
  func `ranges, prefixes, directions and limits select rows`(location: StoreLocation) async throws {
    let open = try filled(location)
    defer { withExtendedLifetime(open) {} }
    let database = open.database
    #expect(try await texts(database.rows(in: "books", "b1100"..<"b1600")) == texts(100..<600))
    #expect(try await texts(database.rows(in: "books", "b1690"..., descending: true)) == texts((690..<700).reversed()))
    #expect(try await texts(database.rows(in: "books", keyPrefix: "b12")) == texts(200..<300))
    #expect(try await texts(database.rows(in: "books", descending: true, limit: 2)) == texts([699, 698]))
    #expect(try await texts(database.rows(in: "nothing")) == [])
    #expect(try await texts(database.rows()).count == 705)
    #expect(try await texts(database.rows()).suffix(5) == ["0", "1", "2", "3", "4"])
    #expect(await errorCode { _ = try await texts(database.rows(in: "books", 1..<2)) } == .keyTypeDiffers)
    #expect(await errorCode { _ = try await texts(database.rows(in: "numbers", keyPrefix: "b")) } == .keyTypeDiffers)
    #expect(await errorCode { _ = try await texts(database.rows(in: "books", limit: -1)) } == .invalidArgument)
  }

  @Test(arguments: StoreLocation.allCases)
  func `a sequence keeps its snapshot, and its rows outlive it`(location: StoreLocation) async throws {
    let open = try filled(location)
    let rows = open.database.rows(in: "books")
    try open.writing { tx in
      try tx.set(Book(title: "later"), key: Self.key(0), in: "books")
      try tx.remove(key: Self.key(699), in: "books")
    }
    var kept: [FetchedRow] = []
    for try await row in rows { kept.append(row) }
    #expect(kept.count == 700)
    _ = try open.writing { tx in try tx.removeAll() }
    #expect(try kept[0].object(as: Book.self) == Book(title: "t0"))
    #expect(try kept[0].metadata(as: Size.self) == Size(pages: 0))
    #expect(kept[0].id < kept[699].id)
    #expect(try await texts(open.database.rows()) == [])
  }

  @Test func `values that are not asked for are not decoded`() async throws {
    let open = try filled(.memory)
    defer { withExtendedLifetime(open) {} }
    // The objects have another type: only a read of the object throws.
    var read = 0
    for try await row in open.database.rows(in: "books") where try row.key(as: String.self) == Self.key(5) {
      read += 1
      #expect(throws: DatabaseError.self) { try row.object(as: [Int].self) }
      #expect(throws: DatabaseError.self) { try row.definedObject() }
      #expect(!row.objectBytes.isEmpty)
      #expect(try row.metadataBytes() == nil)
    }
    #expect(read == 1)
  }
}
