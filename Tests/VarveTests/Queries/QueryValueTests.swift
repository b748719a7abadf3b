import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of pages, values, groups, sums, changes and included instances. The models of `VarveModelTests` test these
/// at random.
struct QueryValueTests {
  private let database: Database
  private let volumes: Store<VolumeFormat>

  init() throws {
    database = try Database.inMemory {
      VolumeFormat.self
      ReviewFormat.self
    }
    volumes = Store(in: database)
    try database.write { [volumes] tx in
      for id in 1...100 {
        try volumes.persist(
          Volume(
            id: id, title: "title \(id % 5)", year: 1990 + id % 10, isbn: id % 2 == 0 ? "i\(id)" : nil,
            price: Decimal(id)), in: tx)
      }
    }
  }

  struct Review: Codable, Identifiable, Sendable {
    var id: Int
    var volume: Int
    var others: [Int] = []
    var reply: Int?
  }

  struct ReviewFormat: StoreFormat {
    typealias Instance = Review
    static let collection = "reviews"
    let volume = Index(\.volume)
  }

  // MARK: - Pages

  @Test func `pages contain what is strictly after their cursor, whatever changes meanwhile`() async throws {
    let query = volumes.query.sorted(by: \.year, descending: true).sorted(by: \.title)
    let first = try await query.page(size: 10)
    #expect(first.instances.map(\.id) == [9, 19, 29, 39, 49, 59, 69, 79, 89, 99] && first.hasMore)
    // The cursor's instance is removed, and one is inserted before it.
    try await volumes.delete(99)
    try await volumes.persist(Volume(id: 0, title: "title 0", year: 1999))
    let second = try await query.page(after: first.lastCursor, size: 4)
    #expect(second.instances.allSatisfy { $0.year == 1998 } && second.instances.map(\.id) == [8, 18, 28, 38])
    let before = try await query.page(before: second.firstCursor, size: 3)
    #expect(before.instances.map(\.id) == [69, 79, 89] && before.hasMore)
    let last = try await query.page(before: nil, size: 2)
    #expect(last.instances.map(\.id) == [90, 100] && last.hasMore)
    #expect(try await !query.page(after: last.lastCursor, size: 2).hasMore)
  }

  @Test func `a cursor belongs to one query, and survives encoding as bytes`() async throws {
    let query = volumes.query.filter { $0.year > 1991 }.sorted(by: \.year)
    let cursor = try #require(try await query.page(size: 3).lastCursor)
    let same = volumes.query.filter { $0.year > 1991 }.sorted(by: \.year)
    let next = try await same.page(after: try QueryCursor(bytes: cursor.bytes), size: 3)
    #expect(try await next.instances.map(\.id) == query.page(after: cursor, size: 3).instances.map(\.id))
    for other in [query.sorted(by: \.title), query.filter { $0.price > 3 }, volumes.query.sorted(by: \.year)] {
      #expect(try await code { _ = try await other.page(after: cursor, size: 1) } == .invalidArgument)
    }
    for size in 0..<cursor.bytes.count - 1 {
      let bytes = Array(cursor.bytes.prefix(size))
      // A cut within the row's key yields another key.
      if let cut = try? QueryCursor<VolumeFormat>(bytes: bytes) { #expect(cut != cursor) }
    }
    #expect(try await code { _ = try await query.page(size: 0) } == .invalidArgument)
    #expect(try await code { _ = try await query.limit(3).page(size: 2) } == .invalidArgument)
  }

  @Test func `a cursor of fields that have other types now has expired`() throws {
    struct Old: Codable, Identifiable, Sendable {
      var id: Int
      var mark: Int
    }
    struct New: Codable, Identifiable, Sendable {
      var id: Int
      var mark: String
    }
    struct OldFormat: StoreFormat {
      typealias Instance = Old
      static let collection = "marks"
      let mark = Index(\.mark)
    }
    struct NewFormat: StoreFormat {
      typealias Instance = New
      static let collection = "marks"
      let mark = Index(\.mark)
    }
    let old = try Database.inMemory { OldFormat.self }
    let marks = Store<OldFormat>(in: old)
    try old.write { tx in try marks.persist(Old(id: 1, mark: 1), in: tx) }
    let page = try old.read { tx in try marks.query.sorted(by: \.mark).page(size: 1, in: tx) }
    let bytes = try #require(page.lastCursor?.bytes)
    let new = try Database.inMemory { NewFormat.self }
    let renamed = Store<NewFormat>(in: new)
    #expect(
      errorCode {
        let cursor = try QueryCursor<NewFormat>(bytes: bytes)
        _ = try new.read { tx in try renamed.query.sorted(by: \.mark).page(after: cursor, size: 1, in: tx) }
      } == .cursorExpired)
  }

  // MARK: - Values

  @Test func `values, ends, groups and sums come from an index that has them, else from instances`()
    async throws
  {
    let query = volumes.query.filter { $0.year >= 1998 }
    #expect(try await query.sorted(by: \.year).sorted(by: \.title).values(of: \.title).count == 20)
    #expect(try await query.distinct(\.title) == ["title 3", "title 4"])
    #expect(try await query.min(of: \.year) == 1998)
    #expect(try await query.max(of: \.title) == "title 4")
    #expect(try await query.sum(of: \.price) == (1...100).filter { $0 % 10 >= 8 }.reduce(0) { $0 + Decimal($1) })
    #expect(try await query.average(of: \.year) == 1998.5)
    #expect(
      try await query.grouped(by: \.year) == [QueryGroup(value: 1998, count: 10), QueryGroup(value: 1999, count: 10)])
    #expect(try await query.grouped(by: \.year, summing: \.id).map(\.sum) == [530, 540])
    #expect(try await volumes.query.min(of: \.isbn) == "i10")
    #expect(try await volumes.query.filter { $0.isbn == nil }.min(of: \.isbn) == nil)
    #expect(try await volumes.query.limit(0).average(of: \.year) == nil)
    #expect(try await volumes.query.distinct(\.isbn).first == .some(nil))
  }

  @Test func `a sum outside the range of its type is an error`() async throws {
    try await volumes.persist(Volume(id: 1_000, title: "", year: .max))
    #expect(try await code { _ = try await volumes.query.sum(of: \.year) } == .sumTooLarge)
  }

  // MARK: - Changes

  @Test func `update and delete find all rows first, and return how many matched the query`() async throws {
    // A row that would match again after its change is changed once.
    #expect(try await volumes.query.filter { $0.year >= 1995 }.update { $0.year += 10 } == 50)
    #expect(try await volumes.query.filter { $0.year >= 2005 }.count() == 50)
    #expect(try await volumes.query.filter { $0.year >= 2005 }.sorted(by: \.id).limit(20).delete() == 20)
    #expect(try await volumes.query.count() == 80)
    #expect(try await volumes.query.filter { $0.year < 1995 }.update(inBatchesOf: 7) { $0.title = "old" } == 50)
    #expect(try await volumes.query.filter { $0.title == "old" }.delete(inBatchesOf: 50) == 50)
    #expect(try await volumes.query.count() == 30)
    #expect(try await code { _ = try await volumes.query.update { $0.id += 1 } } == .invalidArgument)
    #expect(try await code { _ = try await volumes.query.delete(inBatchesOf: 0) } == .invalidArgument)
  }

  // MARK: - Included instances

  @Test func `including follows identifiers in both directions, in one snapshot`() async throws {
    let reviews = Store<ReviewFormat>(in: database)
    for id in 1...6 {
      try await reviews.persist(
        Review(id: id, volume: id % 2 == 0 ? 7 : 999, others: [1, id, 500], reply: id == 3 ? 4 : nil))
    }
    let listed = try await reviews.query.including(
      .instance(\.volume, from: volumes), .instances(\.others, from: volumes), .instance(\.reply, from: reviews)
    ).fetch()
    #expect(listed.map { $0.0.id } == [1, 2, 3, 4, 5, 6])
    #expect(listed.map { $0.1?.id } == [nil, 7, nil, 7, nil, 7])
    #expect(listed.map { $0.2.map(\.id) } == (1...6).map { [1, $0] })
    #expect(listed.map { $0.3?.id } == [nil, nil, 4, nil, nil, nil])
    #expect(try await reviews.query.including(\.reply, from: reviews).fetch().compactMap { $0.1?.id } == [4])
    let named = try await volumes.query.filter { $0.id.isIn(6...7) }.including(from: reviews, index: \.volume).fetch()
    #expect(named.map { $0.1.map(\.id) } == [[], [2, 4, 6]])
  }

  private func code(_ body: () async throws -> Void) async throws -> DatabaseError.Code? {
    do { try await body() } catch let error as DatabaseError { return error.code }
    return nil
  }
}
