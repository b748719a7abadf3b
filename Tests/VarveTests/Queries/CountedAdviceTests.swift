import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests that what the errors of offsets and sections advise is enough: the index that they name, or the other query.
struct CountedAdviceTests {
  @Test func `an index that is advised has the offsets`() throws {
    struct Years: WareFormat { let index = Index(\.author, \.year, counted: true) }
    try advised(
      .init({ $0.author == "a" && $0.year > 1 }, .year.descending),
      "declare `Index(\\.author, \\.year, counted: true)`", Years.self)
    struct Mixed: WareFormat { let index = Index(counted: true, { $0.year.descending }, { $0.title }) }
    try advised(
      .init(nil, .year.descending, .title), "declare `Index(counted: true, { $0.year.descending }, { $0.title })`",
      Mixed.self)
    struct Ties: WareFormat { let index = Index(counted: true, { $0.title.descending }, { $0.id }) }
    try advised(
      .init(nil, .title, .id.descending), "declare `Index(counted: true, { $0.title.descending }, { $0.id })`",
      Ties.self)
    struct Folded: WareFormat { let index = Index(counted: true, { $0.title.folded }) }
    try advised(.init(nil, .folded), "declare `Index(counted: true, { $0.title.folded })`", Folded.self)
    struct Labels: WareFormat { let index = Index(\.label, version: 1, counted: true) }
    try advised(
      .init(nil, .label), "declare an `Index` of a computed field with `version: 1, counted: true`", Labels.self)
    struct Nested: WareFormat { let index = Index(counted: true, { $0.owner.name }) }
    try advised(
      .init({ $0.owner.name == "o1" }), "declare `Index(counted: true, { $0.owner.name })`", Nested.self)
    struct NotNil: WareFormat { let index = Index(\.shelf, \.year, counted: true) }
    try advised(
      .init({ $0.shelf == 1 && $0.year != nil }, .year), "declare `Index(\\.shelf, \\.year, counted: true)`",
      NotNil.self)
    // The values that `!` accepts and that have no key do not exist for whole numbers.
    struct Shelves: WareFormat { let index = Index(\.author, \.shelf, counted: true) }
    try advised(
      .init({ $0.author == "a" && !($0.shelf < 1) && !($0.shelf > 1) }),
      "declare `Index(\\.author, \\.shelf, counted: true)`", Shelves.self)
  }

  @Test func `a range of identifiers, and their order, need no sort`() throws {
    struct Identifiers: WareFormat { let index = Index(\.id, counted: true) }
    let text = "declare `Index(\\.id, counted: true)`"
    try advised(.init(nil), "if `id` is a stored property, \(text)", Identifiers.self)
    for asked in [Ask(nil, .id), Ask(nil, .id.descending), Ask { $0.id > 5 }, Ask({ $0.id > 5 }, .id.descending)] {
      try advised(asked, text, Identifiers.self)
    }
    struct OfAuthors: WareFormat { let index = Index(\.author, \.id, counted: true) }
    for asked in [
      Ask { $0.author == "a" && $0.id > 5 }, Ask({ $0.author == "a" && $0.id > 5 }, .id.descending),
    ] {
      try advised(asked, "declare `Index(\\.author, \\.id, counted: true)`", OfAuthors.self)
    }
    struct Sorted: WareFormat { let index = Index(\.id, \.year, counted: true) }
    try advised(
      .init({ $0.id > 5 }, .year), "it restricts id to a range, so sort it by that field first",
      .init({ $0.id > 5 }, .id, .year), "declare `Index(\\.id, \\.year, counted: true)`", Sorted.self)
  }

  @Test func `an index of elements that is advised has the offsets`() throws {
    struct Tags: WareFormat { let index = ManyToManyIndex(\.tags, counted: true) }
    for asked in [Ask { $0.tags.contains("x") }, Ask({ $0.tags.contains("x") }, .id.descending)] {
      try advised(asked, "declare `ManyToManyIndex(\\.tags, counted: true)`", Tags.self)
    }
    struct Nested: WareFormat { let index = ManyToManyIndex(\.maker.tags, counted: true) }
    try advised(
      .init { $0.maker.tags.contains("x") }, "declare `ManyToManyIndex(\\.maker.tags, counted: true)`", Nested.self)
    struct Computed: WareFormat { let index = ManyToManyIndex(\.ownerTags, version: 1, counted: true) }
    let text = "declare a `ManyToManyIndex` of a computed field with `version: 1, counted: true`"
    try advised(
      .init { $0.owner.tags.contains("x") },
      "the condition on owner.tags leads through an optional property: compare a property of the instance, and declare "
        + "a `ManyToManyIndex` of it with `version: 1, counted: true`",
      .init { $0.ownerTags.contains("x") }, text, Computed.self)
  }

  @Test func `the advice names skipsInvalid where rows may be skipped`() throws {
    struct Skipping: WareFormat {
      let index = Index(\.weight, counted: true, skipsInvalid: true)
      let byAuthor = Index(\.author, \.weight, counted: true, skipsInvalid: true)
    }
    struct Whole: WareFormat {
      let index = Index(\.weight, counted: true)
      let byAuthor = Index(\.author, \.weight, counted: true)
    }
    func text(_ index: String, _ fields: String) -> String {
      "index \"\(index)\" may leave out rows, as it has `skipsInvalid`: declare `Index(\(fields), counted: true)`, "
        + "without `skipsInvalid`"
    }
    try advised(.init(nil, .weight), text("index", "\\.weight"), Whole.self, instead: Skipping.self)
    try advised(
      .init({ $0.author == "a" }, .weight), text("byAuthor", "\\.author, \\.weight"), Whole.self,
      instead: Skipping.self)
    try advised(
      .init(nil, .weight, sections: .author), text("byAuthor", "\\.author, \\.weight"), Whole.self,
      instead: Skipping.self)
    // Without that cause it is not named.
    try advised(.init(nil, .year, .weight), "declare `Index(\\.year, \\.weight, counted: true)`", YearAndWeight.self)

    let unkeyed =
      "the condition on weight accepts values without a key, as NaN, which no index has: compare it by `==`, `<`, "
      + "`<=`, `>` or `>=`"
    let other = Ask({ $0.weight >= 3 }, .weight)
    let asked = Ask({ !($0.weight < 3) }, .weight)
    try advised(asked, unkeyed, other, "declare `Index(\\.weight, counted: true)`", Whole.self)
    try advised(asked, unkeyed, other, nil, Skipping.self)
  }

  private struct YearAndWeight: WareFormat { let index = Index(\.year, \.weight, counted: true) }

  @Test func `a query that is asked as advised has the offsets`() throws {
    struct Years: WareFormat { let index = Index(\.year, counted: true) }
    let sort = "so sort it by that field first"
    try advised(
      .init { $0.year > 2 }, "it restricts year to a range, \(sort)", .init({ $0.year > 2 }, .year),
      "declare `Index(\\.year, counted: true)`", Years.self)
    try advised(
      .init({ $0.year > 2 }, .title), "it restricts year to a range, \(sort)", .init({ $0.year > 2 }, .year, .title),
      "declare `Index(\\.year, \\.title, counted: true)`", YearAndTitle.self)
    try advised(
      .init(nil, .year, .title, .year), "it is sorted by year more than once: sort it by that field once",
      .init(nil, .year, .title), "declare `Index(\\.year, \\.title, counted: true)`", YearAndTitle.self)
    // With keys of the format's own, the identifiers are not a field.
    struct OwnKeys: WareFormat {
      static let isIdentifiedByID = false
      let index = Index(\.year, counted: true)
    }
    try advised(
      .init(nil), "it has no order but that of the identifiers: sort it by a field", .init(nil, .year), nil,
      OwnKeys.self)
    struct Titles: WareFormat { let index = Index(\.title, \.year, counted: true) }
    for asked in [
      Ask({ $0.title.hasPrefix("t1") }, .title.descending, .year),
      Ask({ $0.title.hasPrefix("t1") }, .title, .year.descending),
    ] {
      try advised(
        asked,
        "the condition on title is a range in ascending order alone: sort the other fields in the same direction",
        .init({ $0.title.hasPrefix("t1") }, .title.descending, .year.descending),
        "declare `Index(\\.title, \\.year, counted: true)`", Titles.self)
    }
  }

  private struct YearAndTitle: WareFormat { let index = Index(\.year, \.title, counted: true) }

  @Test func `what no index has is refused with the reason, and without an advice`() throws {
    for (asked, text) in [
      (
        Ask({ $0.author == "a" || $0.shelf == 1 }, .title),
        "its condition has 2 alternatives, and only one range of an index has offsets"
      ),
      (Ask({ $0.author.isIn(["a", "b"]) }, .title), "the condition on author has 2 ranges of values"),
      (Ask({ $0.author.contains("a") }, .title), "the condition on author is not a range of values"),
      (Ask({ $0.tags.contains("x") }, .title), "the condition on tags is not a range of values"),
      (Ask { !$0.tags.contains("x") }, "the condition on tags is not a range of values"),
      (
        Ask({ $0.year > 2 && $0.title > "t1" }, .year, .title),
        "the conditions on year and title are ranges, and only one may be one"
      ),
      (
        Ask({ $0.year > 2 }, sections: .author),
        "the condition on year is a range, and only that of the sections may be one"
      ),
    ] as [(Ask, String)] {
      try asked.expectRefusal(text, NoIndexes.self)
    }
  }

  @Test func `an index that is advised has the sections`() throws {
    struct Titles: WareFormat { let index = Index(\.author, \.title, counted: true) }
    try advised(
      .init(nil, .title, sections: .author), "declare `Index(\\.author, \\.title, counted: true)`", Titles.self)
    struct OfShelf: WareFormat { let index = Index(\.shelf, \.author, \.year, counted: true) }
    try advised(
      .init({ $0.shelf == 1 && $0.author > "a" }, .year.descending, sections: .author),
      "declare `Index(\\.shelf, \\.author, \\.year, counted: true)`", OfShelf.self)
    struct Plain: WareFormat { let index = Index(\.author, counted: true) }
    try advised(.init(nil, sections: .author), "declare `Index(\\.author, counted: true)`", Plain.self)
    try advised(
      .init({ $0.author != "b" }, .id.descending, sections: .author), "declare `Index(\\.author, counted: true)`",
      Plain.self)
  }

  // MARK: - Checks

  private struct NoIndexes: WareFormat {}

  /// Asks without indexes, or with those that do not do, and then with the advised one.
  private func advised<Advised: WareFormat>(
    _ asked: Ask, _ text: String, _ advised: Advised.Type, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    try self.advised(asked, text, advised, instead: NoIndexes.self, sourceLocation: sourceLocation)
  }

  private func advised<Advised: WareFormat, Refused: WareFormat>(
    _ asked: Ask, _ text: String, _ advised: Advised.Type, instead refused: Refused.Type,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    try asked.expectRefusal(text, refused, sourceLocation)
    try asked.expectAnswer(advised, sourceLocation)
  }

  /// Asks, then asks another query as advised, and that with the index that is advised then, if it is not there.
  private func advised<Advised: WareFormat>(
    _ asked: Ask, _ text: String, _ other: Ask, _ otherText: String?, _ advised: Advised.Type,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    try asked.expectRefusal(text, advised, sourceLocation)
    if let otherText { try other.expectRefusal(otherText, NoIndexes.self, sourceLocation) }
    try other.expectAnswer(advised, sourceLocation)
  }
}

private struct Ware: Codable, Identifiable, Sendable, Hashable {
  struct Maker: Codable, Sendable, Hashable {
    var name: String
    var tags: [String]
  }

  var id: Int
  var author: String
  var title: String
  var year: Int?
  var shelf: Int
  var weight: Double
  var tags: [String]
  var maker: Maker
  var owner: Maker?

  var label: String { "\(shelf)\(title)" }
  var ownerTags: [String] { owner?.tags ?? [] }

  static let samples = (0..<60).map { id in
    let tags = id % 3 == 0 ? ["x", "y"] : ["y"]
    let maker = Maker(name: "o\(id % 4)", tags: tags)
    return Ware(
      id: id, author: ["a", "b", "c"][id % 3], title: "t\(id % 7)\(id % 2)", year: id % 5 == 0 ? nil : id % 4,
      shelf: id % 2, weight: Double(id % 6), tags: tags, maker: maker, owner: id % 6 == 0 ? nil : maker)
  }
}

private protocol WareFormat: StoreFormat where Instance == Ware, Identifier == Int {
  init()
}

extension WareFormat {
  static var collection: String { "wares" }
}

/// A query of wares, without a format.
private struct Ask {
  struct Order {
    enum Field { case id, title, year, weight, folded, label }

    let field: Field
    var isDescending = false

    var descending: Order { Order(field: field, isDescending: true) }
    static let id = Order(field: .id)
    static let title = Order(field: .title)
    static let year = Order(field: .year)
    static let weight = Order(field: .weight)
    static let folded = Order(field: .folded)
    static let label = Order(field: .label)
  }

  enum Section { case author }

  let condition: Condition<Ware>?
  let orders: [Order]
  let section: Section?

  init(
    _ condition: ((Fields<Ware>) -> Condition<Ware>)?, _ orders: Order..., sections section: Section? = nil
  ) {
    self.condition = condition.map { $0(Fields()) }
    self.orders = orders
    self.section = section
  }

  private func query<Format: WareFormat>(_ store: Store<Format>) -> StoreQuery<Format> {
    var query = store.query
    if let condition { query = query.filter(condition) }
    for order in orders {
      let isDescending = order.isDescending
      switch order.field {
      case .id: query = query.sorted(by: \.id, descending: isDescending)
      case .title: query = query.sorted(by: \.title, descending: isDescending)
      case .year: query = query.sorted(by: \.year, descending: isDescending)
      case .weight: query = query.sorted(by: \.weight, descending: isDescending)
      case .folded: query = query.sorted(descending: isDescending) { $0.title.folded }
      case .label: query = query.sorted(by: \.label, descending: isDescending)
      }
    }
    return query
  }

  private func reading<Format: WareFormat>(
    _ format: Format.Type, _ body: (StoreQuery<Format>, ReadTransaction) throws -> Void
  ) throws {
    let database = try Database.inMemory { Format.self }
    let store = Store<Format>(in: database)
    try database.write { tx in try store.persist(contentsOf: Ware.samples, in: tx) }
    let query = query(store)
    try database.read { tx in try body(query, tx) }
  }

  func expectRefusal<Format: WareFormat>(
    _ text: String, _ format: Format.Type, _ location: SourceLocation = #_sourceLocation
  ) throws {
    try reading(format) { query, tx in
      let call = { () throws -> Void in
        switch section {
        case nil: _ = try query.ids(at: 0..<1, in: tx)
        case .author: _ = try query.sectioned(by: \.author).sections(in: tx)
        }
      }
      #expect(errorCode(call) == .notIndexed, sourceLocation: location)
      let message = errorMessage(call) ?? ""
      #expect(message.hasSuffix("; \(text)"), "\(message)", sourceLocation: location)
    }
  }

  func expectAnswer<Format: WareFormat>(_ format: Format.Type, _ location: SourceLocation) throws {
    try reading(format) { query, tx in
      let ordered = query.isOrdered ? query : query.sorted(by: \.id)
      let all = try ordered.scan().fetch(in: tx)
      #expect(!all.isEmpty && all.count < Ware.samples.count || condition == nil, sourceLocation: location)
      guard section != nil else {
        #expect(try query.ids(at: 0..<100, in: tx) == all.map(\.id), sourceLocation: location)
        return
      }
      let sectioned = query.sectioned(by: \.author)
      let sections = try sectioned.sections(in: tx)
      #expect(sections.map(\.value) == Set(all.map(\.author)).sorted(), sourceLocation: location)
      for section in sections {
        let ids = try sectioned.ids(of: section.value, at: 0..<100, in: tx)
        #expect(ids == all.filter { $0.author == section.value }.map(\.id), sourceLocation: location)
      }
    }
  }
}
