import EngineTestSupport
import Foundation
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// A run of random queries of random volumes, by a store and by an array.
struct QueryRun {
  private let database: Database
  private let volumes: Store<VolumeFormat>
  private var random: SeededRandom
  private var model: [Int: Volume] = [:]
  /// The numbers of queries answered without a scan, answered in index order, and refused.
  private(set) var served = 0
  private(set) var ordered = 0
  private(set) var refused = 0
  private(set) var merged = 0
  private(set) var intersected = 0
  private(set) var paged = 0
  /// The greatest identifier. With many rows, plans combine indexes.
  private let idMaximum: Int

  /// A condition, and its meaning as a predicate on volumes.
  private struct Asked {
    let condition: Condition<Volume>
    let holds: (Volume) -> Bool
  }

  init(_ kind: StorageKind, seed: UInt64) throws {
    let site = try StorageSite(kind)
    database = try Database.open(site.open(), path: "queries") { VolumeFormat.self }
    volumes = Store(in: database)
    random = SeededRandom(seed: seed)
    idMaximum = seed % 4 == 0 ? 400 : 120
  }

  func close() throws { try database.close() }

  mutating func run(_ count: Int) throws {
    for _ in 0..<(idMaximum > 120 ? 30 : 0) { try change() }
    for step in 0..<count {
      if step % 20 == 0 { try change() }
      if step % 7 == 0 {
        // The query runs inside a transaction that has written.
        try database.core.write(WriteTerms()) { tx in
          try change(in: tx)
          try ask(tx)
        }
      } else {
        try database.core.read { tx in try ask(tx) }
      }
    }
  }

  private mutating func change() throws {
    try database.core.write(WriteTerms()) { tx in for _ in 0..<15 { try change(in: tx) } }
  }

  private static let titles = ["", "Emma", "Emm", "Emma\0", "The Sea", "The", "Theseus", "Älg", "zz"]

  private mutating func change(in tx: WriteTransaction) throws {
    let id = random.below(idMaximum)
    if random.oneIn(5) {
      _ = try volumes.deleteIfPresent(id, in: tx)
      model[id] = nil
      return
    }
    let volume = Volume(
      id: id, title: Self.titles[random.below(Self.titles.count)], year: 1995 + random.below(12),
      isbn: random.oneIn(2) ? nil : "isbn \(id)",
      tags: (0..<random.below(4)).map { _ in ["a", "b", "c"][random.below(3)] },
      codes: random.oneIn(2) ? nil : [id * 2, id * 2 + 1], shelf: random.oneIn(2) ? .fiction : .science,
      home: random.oneIn(2) ? nil : Volume.Home(city: ["Bath", "London"][random.below(2)]),
      price: Decimal(random.below(5)) / 2, weight: random.oneIn(6) ? .nan : Double(random.below(3)))
    try volumes.persist(volume, in: tx)
    model[id] = volume
  }

  // MARK: - Conditions

  private mutating func asked(_ depth: Int) -> Asked {
    if depth > 0, !random.oneIn(3) {
      let (left, right) = (asked(depth - 1), asked(depth - 1))
      switch random.below(5) {
      case 0, 1: return Asked(condition: left.condition && right.condition) { left.holds($0) && right.holds($0) }
      case 2, 3: return Asked(condition: left.condition || right.condition) { left.holds($0) || right.holds($0) }
      default: return Asked(condition: !left.condition) { !left.holds($0) }
      }
    }
    return term()
  }

  /// Returns branches that each fix the same field to one value, and a term that keeps them disjoint.
  private mutating func points() -> Asked {
    let titles = [Self.titles[random.below(Self.titles.count)], Self.titles[random.below(Self.titles.count)]]
    let cities = ["Bath", random.oneIn(2) ? "London" : nil]
    let isByTitle = random.oneIn(2)
    var all: Asked?
    for index in 0..<2 {
      let (title, city) = (titles[index], cities[index])
      let value =
        isByTitle
        ? Asked(condition: Condition { $0.title == title }) { $0.title == title }
        : Asked(condition: Condition { $0.home.city == city }) { $0.home?.city == city }
      let other = term()
      let branch =
        random.oneIn(3)
        ? value : Asked(condition: value.condition && other.condition) { value.holds($0) && other.holds($0) }
      if let last = all {
        all = Asked(condition: last.condition || branch.condition) { last.holds($0) || branch.holds($0) }
      } else {
        all = branch
      }
    }
    return all ?? term()
  }

  private mutating func term() -> Asked {
    let year = 1995 + random.below(12)
    let title = Self.titles[random.below(Self.titles.count)]
    let id = random.below(idMaximum)
    switch random.below(20) {
    case 0: return Asked(condition: Condition { $0.year == year }) { $0.year == year }
    case 1: return Asked(condition: Condition { $0.year >= year }) { $0.year >= year }
    case 2:
      return Asked(condition: Condition { $0.year.isIn(1998..<year + 4) }) {
        (1998..<max(1998, year + 4)).contains($0.year)
      }
    case 3: return Asked(condition: Condition { $0.year.isIn([1995, year]) }) { $0.year == 1995 || $0.year == year }
    case 4: return Asked(condition: Condition { $0.title == title }) { $0.title == title }
    case 5: return Asked(condition: Condition { $0.title.hasPrefix("The") }) { $0.title.utf8.starts(with: "The".utf8) }
    case 6: return Asked(condition: Condition { $0.title > title }) { $0.title > title }
    case 7: return Asked(condition: Condition { $0.title.contains("e") }) { $0.title.contains("e") }
    case 8: return Asked(condition: Condition { $0.isbn == "isbn \(id)" }) { $0.isbn == "isbn \(id)" }
    case 9: return Asked(condition: Condition { $0.isbn == nil }) { $0.isbn == nil }
    case 10: return Asked(condition: Condition { $0.tags.contains("a") }) { $0.tags.contains("a") }
    case 11: return Asked(condition: Condition { $0.tags.contains("b") }) { $0.tags.contains("b") }
    case 12: return Asked(condition: Condition { $0.codes.contains(id) }) { $0.codes?.contains(id) ?? false }
    case 13: return Asked(condition: Condition { $0.shelf == .science }) { $0.shelf == .science }
    case 14: return Asked(condition: Condition { $0.home.city == "Bath" }) { $0.home?.city == "Bath" }
    case 15: return Asked(condition: Condition { $0.home.city != "Bath" }) { $0.home?.city != "Bath" }
    case 16: return Asked(condition: Condition { $0.weight < 2 }) { $0.weight < 2 }
    case 17: return Asked(condition: Condition { $0.price <= 1 }) { $0.price <= 1 }
    case 18: return Asked(condition: Condition { $0.id.isIn(id..<id + 20) }) { (id..<id + 20).contains($0.id) }
    default: return Asked(condition: Condition { $0.id == id }) { $0.id == id }
    }
  }

  // MARK: - Orders

  private mutating func order(
    _ query: StoreQuery<VolumeFormat>
  ) -> (query: StoreQuery<VolumeFormat>, key: ((Volume) -> [UInt8])?) {
    var query = query
    var keys: [(Volume) -> [UInt8]] = []
    var isDescending = false
    let count = random.below(4)
    // The fields often include those that conditions fix.
    let first = random.oneIn(4) ? [0, 4][random.below(2)] : nil
    for number in 0..<(first == nil ? count : max(count, 1)) {
      isDescending = random.oneIn(2)
      let descending = isDescending
      func add<Key: KeyCodable>(_ value: @escaping (Volume) -> Key) {
        keys.append { volume in
          let bytes = try? descending ? Descending(value(volume)).encoded() : value(volume).encoded()
          return bytes ?? [descending ? 1 : 0xfe]
        }
      }
      switch number == 0 ? first ?? random.below(7) : random.below(7) {
      case 0:
        query = query.sorted(by: \.title, descending: descending)
        add { $0.title }
      case 1, 2:
        query = query.sorted(by: \.year, descending: descending)
        add { $0.year }
      case 3:
        query = query.sorted(by: \.shelf, descending: descending)
        add { $0.shelf }
      case 4:
        query = query.sorted(descending: descending) { $0.home.city }
        add { $0.home?.city }
      case 5:
        query = query.sorted(by: \.weight, descending: descending)
        add { $0.weight }
      default:
        query = query.sorted(by: \.id, descending: descending)
        add { $0.id }
      }
    }
    if keys.isEmpty { return (query, nil) }
    let tie = isDescending
    keys.append { volume in (try? tie ? Descending(volume.id).encoded() : volume.id.encoded()) ?? [] }
    return (query, { [keys] volume in keys.flatMap { $0(volume) } })
  }

  // MARK: - Queries

  private mutating func ask(_ tx: ReadTransaction) throws {
    let asked = random.oneIn(12) ? nil : random.oneIn(8) ? points() : asked(random.below(4))
    var query = volumes.query
    if let asked { query = query.filter(asked.condition) }
    let (sorted, key) = order(query)
    query = sorted
    let limit = random.oneIn(2) ? random.below(12) : nil
    if let limit { query = query.limit(limit) }
    let hits = model.values.filter { asked?.holds($0) ?? true }
    let count = min(hits.count, limit ?? .max)
    var found: [Volume]
    do {
      found = try query.fetch(in: tx)
      served += 1
      let explanation = try query.explain(in: tx)
      if explanation.order == .read { ordered += 1 }
      if explanation.isMerged { merged += 1 }
      if explanation.accesses.contains(where: \.isIntersected) { intersected += 1 }
    } catch let error as DatabaseError where error.code == .notIndexed {
      refused += 1
      query = query.scan()
      found = try query.fetch(in: tx)
    }
    func fail(_ what: String) throws {
      let plan = try query.explain(in: tx)
      throw QueryDifference(
        text:
          "\(what): \(String(describing: asked?.condition.definition)), \(query.order.map { ($0.path.text, $0.isDescending) }), limit \(String(describing: limit)): \(found.map(\.id)) of \(hits.map(\.id).sorted()); plan: \(plan)"
      )
    }
    if let key {
      let expected = hits.map { (key($0), $0.id) }.sorted { ByteOrder.precedes($0.0, $1.0) }.map(\.1).prefix(count)
      if found.map(\.id) != Array(expected) { try fail("fetch, not \(Array(expected))") }
    } else {
      let ids = Set(found.map(\.id))
      if ids.count != found.count || found.count != count || !ids.isSubset(of: hits.map(\.id)) { try fail("fetch") }
    }
    if try query.count(in: tx) != count { try fail("count \(try query.count(in: tx))") }
    if try query.exists(in: tx) != (count > 0) { try fail("exists") }
    if try query.ids(in: tx) != found.map(\.id) { try fail("ids \(try query.ids(in: tx))") }
    if try query.first(in: tx)?.id != found.first?.id, key != nil { try fail("first") }
    if limit == nil, random.oneIn(10) {
      let key = key ?? { volume in (try? volume.id.encoded()) ?? [] }
      let order = hits.map { (key($0), $0.id) }.sorted { ByteOrder.precedes($0.0, $1.0) }.map(\.1)
      if let fault = try pageFault(query, order, tx) { try fail(fault) }
      paged += 1
    }
    // Without an order, a limit may select any rows.
    if limit == nil || key != nil, random.oneIn(2), let fault = try valuesFault(query, found, isOrdered: key != nil, tx)
    {
      try fail(fault)
    }
  }

  /// Reads all pages, forwards and backwards.
  private mutating func pageFault(
    _ query: StoreQuery<VolumeFormat>, _ order: [Int], _ tx: ReadTransaction
  ) throws -> String? {
    let size = 1 + random.below(24)
    var page = try query.page(size: size, in: tx)
    var forward = page.instances.map(\.id)
    while page.hasMore, let cursor = page.lastCursor {
      page = try query.page(after: try QueryCursor(bytes: cursor.bytes), size: size, in: tx)
      forward += page.instances.map(\.id)
      if page.instances.isEmpty { return "an empty page after \(forward)" }
    }
    if forward != order { return "pages of \(size): \(forward), not \(order)" }
    page = try query.page(before: nil, size: size, in: tx)
    var backward = page.instances.map(\.id)
    while page.hasMore, let cursor = page.firstCursor {
      page = try query.page(before: cursor, size: size, in: tx)
      backward = page.instances.map(\.id) + backward
      if page.instances.isEmpty { return "an empty page before \(backward)" }
    }
    return backward == order ? nil : "pages of \(size) from the end: \(backward), not \(order)"
  }

  /// Compares fields of the results.
  private mutating func valuesFault(
    _ query: StoreQuery<VolumeFormat>, _ found: [Volume], isOrdered: Bool, _ tx: ReadTransaction
  ) throws -> String? {
    func same<Value: Comparable>(_ some: [Value], _ others: [Value]) -> Bool {
      isOrdered ? some == others : some.sorted() == others.sorted()
    }
    func counts<Value: Hashable>(_ values: [Value]) -> [Value: Int] {
      values.reduce(into: [:]) { $0[$1, default: 0] += 1 }
    }
    switch random.below(10) {
    case 0: return try same(query.values(of: \.year, in: tx), found.map(\.year)) ? nil : "values of year"
    case 1: return try same(query.values(of: \.title, in: tx), found.map(\.title)) ? nil : "values of title"
    case 2: return try same(query.values(of: \.id, in: tx), found.map(\.id)) ? nil : "values of id"
    case 3: return try query.distinct(\.year, in: tx) == Set(found.map(\.year)).sorted() ? nil : "distinct years"
    case 4:
      let isbns = found.compactMap(\.isbn)
      guard try query.min(of: \.isbn, in: tx) == isbns.min(), try query.max(of: \.isbn, in: tx) == isbns.max() else {
        return "ends of isbn"
      }
      return try query.min(of: \.year, in: tx) == found.map(\.year).min() ? nil : "the first year"
    case 5:
      let weights = found.map(\.weight).filter { !$0.isNaN }
      return try query.max(of: \.weight, in: tx) == weights.max() ? nil : "the greatest weight"
    case 6:
      let years = found.map(\.year)
      let average = years.isEmpty ? nil : years.map(Double.init).reduce(0, +) / Double(years.count)
      guard try query.sum(of: \.year, in: tx) == years.reduce(0, +) else { return "the sum of years" }
      return try query.average(of: \.year, in: tx) == average ? nil : "the average year"
    case 7: return try query.sum(of: \.price, in: tx) == found.map(\.price).reduce(0, +) ? nil : "the sum of prices"
    case 8:
      let groups = try query.grouped(by: \.shelf, summing: \.year, in: tx)
      let shelves = counts(found.map(\.shelf))
      let isRight = groups.allSatisfy { group in
        group.count == shelves[group.value]
          && group.sum == found.filter { $0.shelf == group.value }.map(\.year).reduce(0, +)
      }
      return isRight && groups.count == shelves.count ? nil : "groups by shelf"
    default:
      let groups = try query.grouped(byElementsOf: \.tags, in: tx)
      let tags = counts(found.flatMap { Set($0.tags) })
      return groups.map(\.value) == tags.keys.sorted() && groups.allSatisfy { $0.count == tags[$0.value] }
        ? nil : "groups by tag"
    }
  }
}

/// A difference between a query and an array.
struct QueryDifference: Error {
  let text: String
}
