import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of the plan that a query chooses when there are many rows.
struct QueryPlanTests {
  private let database: Database
  private let volumes: Store<VolumeFormat>

  init() throws {
    database = try Database.inMemory { VolumeFormat.self }
    volumes = Store(in: database)
    try database.write { [volumes] tx in
      for id in 0..<2_000 {
        try volumes.persist(
          Volume(
            id: id, title: "title \(id % 20)", year: 1990 + id % 40, tags: ["m\(id % 2)", "n\(id % 3)"],
            price: Decimal(id % 2)), in: tx)
      }
    }
  }

  private func plan(_ query: StoreQuery<VolumeFormat>) throws -> String {
    try database.read { tx in try query.explain(in: tx).description }
  }

  private func ids(_ query: StoreQuery<VolumeFormat>) throws -> [Int] {
    try database.read { tx in try query.ids(in: tx) }
  }

  @Test func `two indexed terms are answered by seeks into both in turn, and no row is read`() throws {
    let query = volumes.query.filter { $0.tags.contains("m1") && $0.tags.contains("n2") }
    #expect(try plan(query) == "index \"tags\", 1 range of 1 field\nand index \"tags\", 1 range of 1 field")
    #expect(try ids(query) == (0..<2_000).filter { $0 % 2 == 1 && $0 % 3 == 2 })
    #expect(try ids(query.sorted(by: \.id, descending: true)) == ids(query).reversed())
    let three = query.filter { $0.price == 1 }
    #expect(try plan(three).split(separator: "\n").count == 3)
    #expect(try ids(three) == ids(query))
  }

  @Test func `of a range with few entries and one with many, the smaller is read and filtered`() throws {
    let query = volumes.query.filter { $0.tags.contains("m1") && $0.id.isIn(10..<30) }
    #expect(try plan(query) == "rows by identifier, 1 range of 1 field, filtered")
    #expect(try ids(query) == Array(stride(from: 11, to: 30, by: 2)))
  }

  @Test func `branches with one order are merged, and a row of several branches is returned once`() throws {
    let query = volumes.query.filter { $0.tags.contains("m1") || $0.tags.contains("n2") }
    #expect(try plan(query).hasSuffix("merged"))
    #expect(try ids(query) == (0..<2_000).filter { $0 % 2 == 1 || $0 % 3 == 2 })
    let sorted = query.sorted(by: \.id, descending: true).limit(7)
    #expect(try plan(sorted).hasSuffix("merged\nin order"))
    #expect(try ids(sorted) == (0..<2_000).reversed().filter { $0 % 2 == 1 || $0 % 3 == 2 }.prefix(7).map(\.self))
    let apart = volumes.query.filter { $0.tags.contains("m1") || $0.year > 2_020 }
    #expect(try !plan(apart).hasSuffix("merged"))
    #expect(try Set(ids(apart)) == Set((0..<2_000).filter { $0 % 2 == 1 || 1_990 + $0 % 40 > 2_020 }))
  }

  @Test(arguments: [false, true])
  func `branches that fix the ordering field to different values are merged by it`(isDescending: Bool) throws {
    let query = volumes.query.filter { ($0.title == "title 1" && $0.year > 1_991) || $0.title == "title 0" }
    let sorted = query.sorted(by: \.title, descending: isDescending).limit(150)
    #expect(try plan(sorted).hasSuffix("merged\nin order"))
    let (zero, one) = (Array(stride(from: 0, to: 2_000, by: 20)), Array(stride(from: 21, to: 2_000, by: 40)))
    #expect(try ids(sorted) == Array((isDescending ? (zero + one).reversed() : zero + one).prefix(150)))
  }

  @Test func `a query with a limit reads its order from an index and filters the rows, if that is cheaper`() throws {
    let query = volumes.query.filter { $0.tags.contains("m1") }.sorted(by: \.year).sorted(by: \.title)
    #expect(try plan(query.limit(5)) == "index \"byYear\", all of it, filtered\nin order")
    #expect(try plan(query) == "index \"tags\", 1 range of 1 field\nsorted in memory")
    #expect(try ids(query.limit(5)) == Array(ids(query).prefix(5)))
  }

  private struct Loan: Codable, Identifiable, Sendable, Equatable {
    var id: Int
    var due: Int
    var returned: Int?
    var shelf: String
  }

  private struct LoanFormat: StoreFormat {
    typealias Instance = Loan
    static let collection = "loans"
    let open = Index(\.due, where: { $0.returned == nil })
    let hall = Index(\.due, name: "hall", where: { $0.returned == nil && $0.shelf.contains("hall") })
  }

  @Test func `an index with a condition serves its own list, whatever else is asked of it`() throws {
    let database = try Database.inMemory { LoanFormat.self }
    let loans = Store<LoanFormat>(in: database)
    let all = (0..<300).map {
      Loan(id: $0, due: ($0 * 37) % 101, returned: $0 % 5 == 0 ? nil : $0, shelf: $0 % 3 == 0 ? "hall \($0)" : "attic")
    }
    try database.write { [all] tx in try loans.persist(contentsOf: all, in: tx) }
    let isOpen = all.filter { $0.returned == nil }
    func check(
      _ query: StoreQuery<LoanFormat>, _ expected: [Loan], _ plan: String, line: Int = #line
    ) throws {
      try database.read { tx throws in
        #expect(try query.fetch(in: tx) == expected, "line \(line)")
        #expect(try query.count(in: tx) == expected.count, "line \(line)")
        #expect(try query.explain(in: tx).description == plan, "line \(line)")
      }
    }
    let open = loans.query.filter { $0.returned == nil }
    let byDue = isOpen.sorted { ($0.due, $0.id) < ($1.due, $1.id) }
    try check(open.sorted(by: \.due), byDue, "index \"open\", all of it\nin order")
    try check(open.sorted(by: \.due).limit(7), Array(byDue.prefix(7)), "index \"open\", all of it\nin order")
    try check(
      open.sorted(by: \.due, descending: true), byDue.sorted { ($0.due, $0.id) > ($1.due, $1.id) },
      "index \"open\", all of it\nin order")
    try check(
      open.sorted(by: \.shelf).sorted(by: \.id), isOpen.sorted { ($0.shelf, $0.id) < ($1.shelf, $1.id) },
      "index \"open\", all of it\nsorted in memory")
    // Another condition is tested on the rows, and a bound is one of the index.
    let attic = open.filter { $0.shelf == "attic" }.sorted(by: \.due)
    try check(attic, byDue.filter { $0.shelf == "attic" }, "index \"open\", all of it, filtered\nin order")
    let late = open.filter { $0.due < 50 }.sorted(by: \.due)
    try check(late, byDue.filter { $0.due < 50 }, "index \"open\", 1 range of 1 field\nin order")
    // The smaller of two, and one whose condition is not a range of keys.
    let hall = open.filter { $0.shelf.contains("hall") }.sorted(by: \.due)
    try check(hall, byDue.filter { $0.shelf.contains("hall") }, "index \"hall\", all of it\nin order")
    try database.read { tx throws in
      #expect(try open.sum(of: \.due, in: tx) == isOpen.map(\.due).reduce(0, +))
      let other = loans.query.filter { $0.returned != 1 }.sorted(by: \.due)
      #expect(errorCode { _ = try other.fetch(in: tx) } == .notIndexed, "it does not contain that of an index")
      let either = loans.query.filter { $0.returned == nil || $0.shelf == "attic" }
      #expect(errorCode { _ = try either.fetch(in: tx) } == .notIndexed)
    }
  }

  @Test func `an index with a field in descending order bounds ranges of it`() throws {
    struct Page: Codable, Identifiable, Sendable, Equatable {
      var id: Int
      var text: String
      var number: Int?
      var weight: Double
    }
    struct PageFormat: StoreFormat {
      typealias Instance = Page
      static let collection = "pages"
      let text = Index({ $0.text.descending }, { $0.id })
      let number = Index({ $0.number.descending })
      let weight = Index({ $0.weight.descending })
    }
    let database = try Database.inMemory { PageFormat.self }
    let pages = Store<PageFormat>(in: database)
    let texts = ["", "a", "a\0", "a\0\0", "ab", "b", "\u{7f}", "é", "z"]
    let numbers: [Int?] = [nil, .min, -1, 0, 1, 300, .max]
    let weights = [-Double.infinity, -1.5, 0, 0.25, 1e300, .infinity]
    var all: [Page] = []
    for (index, text) in texts.enumerated() {
      for (other, number) in numbers.enumerated() {
        let weight = weights[(index + other) % weights.count]
        all.append(Page(id: index * 10 + other, text: text, number: number, weight: weight))
      }
    }
    try database.write { [all] tx in try pages.persist(contentsOf: all, in: tx) }
    func expect(_ condition: Condition<Page>, _ holds: (Page) -> Bool, line: Int = #line) throws {
      let query = pages.query.filter(condition)
      let (found, count) = try database.read { tx in (try query.ids(in: tx), try query.count(in: tx)) }
      #expect(found.sorted() == all.filter(holds).map(\.id), "line \(line)")
      #expect(count == found.count, "line \(line)")
    }
    for text in texts {
      try expect(Condition { $0.text < text }) { ByteOrder.precedes(Array($0.text.utf8), Array(text.utf8)) }
      try expect(Condition { $0.text >= text }) { !ByteOrder.precedes(Array($0.text.utf8), Array(text.utf8)) }
      try expect(Condition { $0.text <= text && $0.text != "" }) {
        !ByteOrder.precedes(Array(text.utf8), Array($0.text.utf8)) && $0.text != ""
      }
    }
    for number in numbers.compactMap({ $0 }) {
      try expect(Condition { $0.number > number }) { $0.number.map { $0 > number } ?? false }
      try expect(Condition { $0.number <= number }) { $0.number.map { $0 <= number } ?? false }
      try expect(Condition { $0.number != number }) { $0.number != number }
    }
    for weight in weights {
      try expect(Condition { $0.weight < weight }) { $0.weight < weight }
      try expect(Condition { $0.weight > weight }) { $0.weight > weight }
    }
    let query = pages.query.filter { $0.number > 0 }.sorted(by: \.number, descending: true).sorted(by: \.id).limit(5)
    let plan = try database.read { tx in try query.explain(in: tx).description }
    #expect(plan.hasSuffix("in order") && plan.contains("\"number\""))
  }
}
