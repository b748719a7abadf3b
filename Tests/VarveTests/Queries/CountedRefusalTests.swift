import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of the errors of queries that no counted index answers.
struct CountedRefusalTests {
  private struct BareTomeFormat: StoreFormat {
    static let collection = "tomes"
    typealias Instance = Tome
    let byAuthor = Index(\.author, \.title)
  }

  private let database: Database
  private let tomes: Store<BareTomeFormat>

  init() throws {
    database = try Database.inMemory { BareTomeFormat.self }
    tomes = Store(in: database)
  }

  private func expect(
    _ query: StoreQuery<BareTomeFormat>, _ text: String, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    try database.read { tx throws in
      let calls: [() throws -> Void] = [
        { _ = try query.offset(of: 1, in: tx) }, { _ = try query.ids(at: 0..<1, in: tx) },
        { _ = try query.fetch(at: 0..<1, in: tx) },
      ]
      for call in calls {
        #expect(errorCode(call) == .notIndexed, sourceLocation: sourceLocation)
        let message = errorMessage(call) ?? ""
        #expect(message.hasSuffix("; \(text)"), "\(message)", sourceLocation: sourceLocation)
      }
    }
  }

  private func expect<Section: KeyCodable>(
    _ sectioned: SectionedQuery<BareTomeFormat, Section>, _ text: String,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    try database.read { tx throws in
      let message = errorMessage { _ = try sectioned.sections(in: tx) } ?? ""
      #expect(message.hasSuffix("; \(text)"), "\(message)", sourceLocation: sourceLocation)
      #expect(errorCode { _ = try sectioned.place(of: 1, in: tx) } == .notIndexed, sourceLocation: sourceLocation)
      #expect(errorCode { _ = try sectioned.generation(in: tx) } == .notIndexed, sourceLocation: sourceLocation)
    }
  }

  @Test func `the error names the index to declare`() throws {
    try expect(tomes.query.sorted(by: \.title), "declare `Index(\\.title, counted: true)`")
    try expect(
      tomes.query.filter { $0.author == "a" }.sorted(by: \.title), "declare `Index(\\.author, \\.title, counted: true)`"
    )
    try expect(
      tomes.query.filter { $0.author == "a" && $0.year > 3 }.sorted(by: \.year, descending: true),
      "declare `Index(\\.author, \\.year, counted: true)`")
    try expect(
      tomes.query.sorted(by: \.year, descending: true).sorted(by: \.title),
      "declare `Index(counted: true, { $0.year.descending }, { $0.title })`")
    try expect(tomes.query.filter { $0.shelf == 1 }, "declare `Index(\\.shelf, counted: true)`")
    try expect(
      tomes.query.filter { $0.shelf == 1 }.sorted(by: \.id), "declare `Index(\\.shelf, counted: true)`")
    try expect(tomes.query.sorted(by: \.id), "declare `Index(\\.id, counted: true)`")
    try expect(tomes.query.filter { $0.tags.contains("x") }, "declare `ManyToManyIndex(\\.tags, counted: true)`")
    try expect(tomes.query.sorted { $0.title.folded }, "declare `Index(counted: true, { $0.title.folded })`")
    try expect(
      tomes.query.filter { $0.shelf == 1 && $0.year != nil }.sorted(by: \.year),
      "declare `Index(\\.shelf, \\.year, counted: true)`")
  }

  @Test func `the error of sections names the index to declare`() throws {
    try expect(
      tomes.query.sorted(by: \.title).sectioned(by: \.author), "declare `Index(\\.author, \\.title, counted: true)`")
    try expect(
      tomes.query.filter { $0.shelf == 1 && $0.author > "b" }.sorted(by: \.year, descending: true).sectioned(
        by: \.author),
      "declare `Index(\\.shelf, \\.author, \\.year, counted: true)`")
    try expect(tomes.query.sectioned(by: \.author), "declare `Index(\\.author, counted: true)`")
    try expect(
      tomes.query.filter { $0.year > 3 }.sectioned(by: \.author),
      "the condition on year is a range, and only that of the sections may be one")
    try database.read { tx throws in
      let limited = tomes.query.limit(5).sectioned(by: \.author)
      #expect(errorCode { _ = try limited.sections(in: tx) } == .invalidArgument)
    }
  }

  @Test func `the error says why no index can answer`() throws {
    try expect(
      tomes.query.filter { $0.author == "a" || $0.shelf == 1 }.sorted(by: \.title),
      "its condition has 2 alternatives, and only one range of an index has offsets")
    try expect(
      tomes.query.filter { $0.author.isIn(["a", "b"]) }.sorted(by: \.title),
      "the condition on author has 2 ranges of values")
    try expect(
      tomes.query.filter { $0.author.contains("a") }.sorted(by: \.title),
      "the condition on author is not a range of values")
    try expect(
      tomes.query.filter { $0.year > 3 }.sorted(by: \.title),
      "it restricts year to a range, so sort it by that field first")
    try expect(tomes.query, "if `id` is a stored property, declare `Index(\\.id, counted: true)`")
  }

  @Test func `without the format there is no index to ask`() throws {
    let other = try Database.inMemory()
    let tomes = Store<TomeFormat>(in: other)
    try other.read { tx throws in
      // Nothing was ever stored.
      #expect(try tomes.query.sorted(by: \.year).ids(at: 0..<3, in: tx).isEmpty)
    }
  }
}
