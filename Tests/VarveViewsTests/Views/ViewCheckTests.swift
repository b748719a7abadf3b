import EngineTestSupport
import Testing
import VarveTesting

@testable import ObjectFixtures
@testable import Varve
@testable import VarveViews

/// Tests of views by `checkExtension`, and of the check itself: on an index, and on extensions that are wrong.
struct ViewCheckTests {
  private static let steps = TestScale.count(80)
  private static let collections = ["books", "films"]

  private static func book(_ values: inout SampleValues) -> Book {
    let author: String? = values.int(in: 0...5) == 0 ? nil : "\(values.int(in: 0...2))"
    let price = values.int(in: 0...9) == 0 ? Double.nan : values.double()
    return Book(author, values.int(in: 0...3), "t\(values.int(in: 0...9))", price: price)
  }

  @Test(arguments: [1, 2] as [UInt64])
  func `a view has what a fresh build of it has`(seed: UInt64) throws {
    let view = AutoView<String>(version: "1", of: ["books", "films"]) { row in
      let book = try row.object(as: Book.self)
      return book.author.map { ViewPlace($0, book.year, book.price) }
    }
    try checkExtension(
      view, collections: Self.collections, steps: Self.steps, seed: seed, row: Self.book,
      inspect: { tx, handle in try tx[handle].verify().map(\.description) })
    let filtered = view.filtered(version: "1", reads: .key) { try $0.key(as: Int.self) % 2 == 0 }
    try checkExtension(filtered, collections: Self.collections, steps: Self.steps, seed: seed, row: Self.book)
  }

  @Test(arguments: [1, 2] as [UInt64])
  func `a volatile view, and one of a single collection, have what a fresh build has`(seed: UInt64) throws {
    for isVolatile in [false, true] {
      try checkExtension(
        BookView.byAuthor(isVolatile: isVolatile), collections: Self.collections, steps: Self.steps, seed: seed,
        row: Self.book, inspect: { tx, handle in try tx[handle].verify().map(\.description) })
    }
  }

  @Test(arguments: [1, 2] as [UInt64])
  func `a manual view keeps its order through undone savepoints and reopenings`(seed: UInt64) throws {
    try checkExtension(
      ManualView<Int>(of: ["books", "films"]), collections: Self.collections, steps: Self.steps, seed: seed,
      row: Self.book,
      operation: { tx, handle, values in
        let view = try tx[handle]
        let row = try RowKey(values.int(in: 0...20), in: Self.collections[values.int(in: 0...1)])
        let group = values.int(in: 0...1)
        switch values.int(in: 0...3) {
        case 0: try view.append(row, to: group)
        case 1: try view.insert([row], at: values.int(in: 0...view.count(in: group)), in: group)
        case 2: try view.move([row], before: view.first(in: group), in: group)
        default: try view.remove(row)
        }
      },
      inspect: { tx, handle in try tx[handle].verify().map(\.description) })
  }

  @Test(arguments: [1, 2] as [UInt64])
  func `indexes have what a fresh build of them has`(seed: UInt64) throws {
    try checkIndexes(of: CheckedFormat.self, steps: Self.steps, seed: seed) { values in
      CheckedBook(id: values.int(in: 0...20), author: "\(values.int(in: 0...3))", title: "t\(values.int(in: 0...30))")
    }
  }

  @Test func `an extension that is wrong is found, with a seed that finds it again`() throws {
    func failure(_ fault: Faulty.Fault, seed: UInt64 = 4) -> ExtensionCheckFailure? {
      do {
        try checkExtension(Faulty(fault: fault), collections: ["rows"], steps: 200, seed: seed) { $0.int(in: 0...9) }
        return nil
      } catch { return error as? ExtensionCheckFailure }
    }
    #expect(failure(.none) == nil)
    for fault in [Faulty.Fault.ignoresRemovals, .countsInField, .keepsFirst] {
      let found = try #require(failure(fault), "\(fault)")
      #expect(found.seed == 4 && found.description.contains("seed 4"))
      #expect(failure(fault)?.description == found.description)
    }
  }
}

/// An instance with indexes.
struct CheckedBook: Codable, Hashable, Sendable, Identifiable {
  var id: Int
  var author: String
  var title: String
}

private struct CheckedFormat: StoreFormat {
  static let collection = "checked"
  typealias Instance = CheckedBook
  let byAuthor = Index(\.author)
  let byTitle = OneToOneIndex(\.title)
}

/// An extension that keeps the rows' numbers, and has a fault.
private struct Faulty: DatabaseExtension {
  enum Fault: Sendable { case none, ignoresRemovals, countsInField, keepsFirst }
  static let kind = "test.faulty"
  let fault: Fault
  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.events = [.inserts, .updates, .removals]
    configuration.parts = [PartDefinition("numbers"), PartDefinition("count")]
    return configuration
  }
  func makeTransaction(_ context: ExtensionContext<Self>) throws -> FaultyTransaction { try .init(fault, context) }
}

private final class FaultyTransaction: ExtensionTransaction {
  typealias Definition = Faulty
  private let fault: Faulty.Fault
  private let numbers: Part
  private let counter: Part
  private var count: Int?

  init(_ fault: Faulty.Fault, _ context: ExtensionContext<Faulty>) throws {
    self.fault = fault
    numbers = try context.part("numbers")
    counter = try context.part("count")
  }

  func didChange(_ change: borrowing RowChange) throws {
    let key = change.key.bytes
    let existed = try numbers.get(key) != nil
    if let number = try change.row?.object(as: Int.self) {
      if !(existed && fault == .keepsFirst) { try numbers.put(key, [UInt8(number)]) }
    } else if fault != .ignoresRemovals {
      try numbers.delete(key)
    }
    // The number of rows is kept in a field that no savepoint undoes, or read each time.
    var total = try fault == .countsInField ? count ?? stored() : stored()
    if change.event == .inserted, !existed { total += 1 }
    if change.event == .removed { total -= 1 }
    count = total
    try counter.put([0], [UInt8(clamping: total)])
    if total == 0 { try counter.delete([0]) }
  }

  private func stored() throws -> Int { Int(try counter.get([0])?.first ?? 0) }
}
