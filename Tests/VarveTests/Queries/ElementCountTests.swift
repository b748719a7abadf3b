import EngineTestSupport
import Testing

@testable import ObjectFixtures
@testable import Varve

private struct Leaf: Codable, Identifiable, Sendable, Equatable {
  var id: Int
  var tags: [String] = []
}

/// A format with an index of the elements, which has one entry for a value that occurs twice.
private struct ElementFormat: StoreFormat {
  static let collection = "leaves"
  typealias Instance = Leaf
  let tags = ManyToManyIndex(\.tags, counted: true)
}

/// A format with an index of the numbers of elements.
private struct CountFormat: StoreFormat {
  static let collection = "leaves"
  typealias Instance = Leaf
  let tags = ManyToManyIndex(\.tags, counted: true)
  let tagCount = Index(\.tags.count, version: 1, counted: true)
}

/// Tests of conditions on the number of elements of a field (`$0.tags.count`), which no index of the elements has.
struct ElementCountTests {
  private typealias Model = (condition: Condition<Leaf>, isRight: (Leaf) -> Bool)

  private static let words = ["a", "b", "c"]

  private static func leaf(_ id: Int, _ random: inout SeededRandom) -> Leaf {
    Leaf(id: id, tags: (0..<random.below(6)).map { _ in words[random.below(words.count)] })
  }

  private static func model(_ random: inout SeededRandom) -> Model {
    let (low, high) = (random.below(7) - 1, random.below(7) - 1)
    let (first, last) = (min(low, high), max(low, high))
    let word = words[random.below(words.count)]
    switch random.below(7) {
    case 0: return (Condition { $0.tags.count == low }, { $0.tags.count == low })
    case 1: return (Condition { $0.tags.count > low }, { $0.tags.count > low })
    case 2: return (Condition { $0.tags.count <= low }, { $0.tags.count <= low })
    case 3: return (Condition { $0.tags.count.isIn(first...last) }, { first...last ~= $0.tags.count })
    case 4: return (Condition { $0.tags.count.isIn([low, high]) }, { [low, high].contains($0.tags.count) })
    case 5: return (Condition { !($0.tags.count == low) }, { $0.tags.count != low })
    default:
      return (
        Condition { $0.tags.any == word && $0.tags.count > low }, { $0.tags.contains(word) && $0.tags.count > low }
      )
    }
  }

  private static func check<Format: StoreFormat>(
    _ query: StoreQuery<Format>, _ right: [Leaf], _ note: String
  ) throws where Format.Instance == Leaf, Format.Identifier == Int {
    try query.store.database.read { tx throws in
      let note = Comment("\(note), \(try query.explain(in: tx))")
      #expect(try query.sorted(by: \.id).fetch(in: tx) == right, note)
      #expect(try Set(query.ids(in: tx)) == Set(right.map(\.id)), note)
      #expect(try query.count(in: tx) == right.count, note)
      #expect(try query.exists(in: tx) == !right.isEmpty, note)
      #expect(try query.values(of: \.tags.count, in: tx).sorted() == right.map(\.tags.count).sorted(), note)
      #expect(try query.sum(of: \.tags.count, in: tx) == right.map(\.tags.count).reduce(0, +), note)
      #expect(try query.distinct(\.tags.count, in: tx) == Set(right.map(\.tags.count)).sorted(), note)
      let ordered = try query.sorted(by: \.tags.count, descending: true).fetch(in: tx).map(\.tags.count)
      #expect(ordered == right.map(\.tags.count).sorted(by: >), note)
    }
  }

  @Test("a count of elements finds what the arrays say, with an index of counts and without one", arguments: 0..<4)
  func answers(_ number: UInt64) throws {
    let seed = 48_200 + number
    var random = SeededRandom(seed: seed)
    let shared = try SharedBackend()
    var rows = (0..<80).map { Self.leaf($0, &random) }
    let bare = try shared.open(DatabaseDefinition { ElementFormat.self })
    let leaves = Store<ElementFormat>(in: bare)
    try bare.write { tx in try leaves.persist(contentsOf: rows, in: tx) }
    for _ in 0..<TestScale.count(10) {
      let (condition, isRight) = Self.model(&random)
      try Self.check(leaves.query.filter(condition).scan(), rows.filter(isRight), "seed \(seed), without an index")
    }
    try bare.close()
    let indexed = try shared.open(DatabaseDefinition { CountFormat.self })
    let counted = Store<CountFormat>(in: indexed)
    try counted.warm()
    for _ in 0..<TestScale.count(20) {
      let (condition, isRight) = Self.model(&random)
      let right = rows.filter(isRight)
      try Self.check(counted.query.filter(condition), right, "seed \(seed), with an index")
      try Self.check(counted.query.filter(condition).scan(), right, "seed \(seed), by a scan")
      let changed = Self.leaf(random.below(rows.count), &random)
      rows[changed.id] = changed
      try indexed.write { tx in _ = try counted.persist(changed, in: tx) }
    }
    #expect(try counted.verifyIndexes().isEmpty)
    try indexed.close()
  }

  @Test("the index of the elements does not answer for their number, and the error says so")
  func declines() throws {
    let database = try Database.inMemory { ElementFormat.self }
    let leaves = Store<ElementFormat>(in: database)
    // The index has two entries for the row: one for each value.
    try database.write { tx in try leaves.persist(Leaf(id: 1, tags: ["a", "a", "b"]), in: tx) }
    try database.read { tx throws in
      let three = leaves.query.filter { $0.tags.count == 3 }
      #expect(errorCode { _ = try three.count(in: tx) } == .notIndexed)
      #expect(try leaves.query.sorted(by: \.tags.count).explain(in: tx).accesses.map(\.index) == [nil])
      do { _ = try three.fetch(in: tx) } catch let error as DatabaseError {
        #expect(error.message.contains("a computed f"), "\(error)")
      }
      #expect(try three.scan().count(in: tx) == 1)
      #expect(try leaves.query.filter { $0.tags.count == 2 }.scan().count(in: tx) == 0)
      #expect(try three.scan().explain(in: tx).countedIndex == nil)
      // An index of the elements may find the rows, whose numbers are then looked at.
      let both = leaves.query.filter { $0.tags.any == "a" && $0.tags.count == 3 }
      #expect(try both.explain(in: tx).accesses.map(\.index) == ["tags"] && both.count(in: tx) == 1)
      #expect(try both.explain(in: tx).countedIndex == nil)
    }
    try database.close()
  }

  @Test("an index of the number is used for a condition, an order and a count")
  func uses() throws {
    let database = try Database.inMemory { CountFormat.self }
    let leaves = Store<CountFormat>(in: database)
    try database.write { tx in
      try leaves.persist(contentsOf: (0..<20).map { Leaf(id: $0, tags: Array(repeating: "a", count: $0 % 4)) }, in: tx)
    }
    try database.read { tx throws in
      let many = leaves.query.filter { $0.tags.count > 2 }
      #expect(try many.explain(in: tx).accesses.map(\.index) == ["tagCount"])
      #expect(try many.explain(in: tx).countedIndex == "tagCount" && many.count(in: tx) == 5)
      let ordered = leaves.query.sorted(by: \.tags.count)
      #expect(try ordered.explain(in: tx).accesses.map(\.index) == ["tagCount"])
      #expect(try ordered.fetch(in: tx).map(\.tags.count) == (0..<4).flatMap { Array(repeating: $0, count: 5) })
      #expect(try leaves.query.grouped(by: \.tags.count, in: tx).map(\.count) == [5, 5, 5, 5])
      #expect(try leaves.query.max(of: \.tags.count, in: tx) == 3)
    }
    try database.close()
  }
}
