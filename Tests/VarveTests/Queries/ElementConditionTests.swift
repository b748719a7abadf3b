import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

private struct Writer: Codable, Hashable, Sendable { var name: String }

private struct Note: Codable, Identifiable, Sendable, Equatable {
  var id: Int
  var tags: [String] = []
  var years: [Int] = []
  var marks: [Double] = []
  var names: [String]?
  var writers: [Writer] = []
}

private struct NoteFormat: StoreFormat {
  static let collection = "notes"
  typealias Instance = Note
  let tags = ManyToManyIndex(\.tags)
  let years = ManyToManyIndex(\.years, counted: true)
  let marks = ManyToManyIndex(\.marks, skipsInvalid: true)
  let names = ManyToManyIndex(\.names)
}

private struct BareFormat: StoreFormat {
  static let collection = "notes"
  typealias Instance = Note
}

/// Tests of conditions on the elements of a field with several values (`$0.tags.any`).
struct ElementConditionTests {
  private typealias Model = (condition: Condition<Note>, isRight: (Note) -> Bool, isIndexed: Bool)

  private static let words = ["", "a", "ab", "abc", "Ä", "ä", "a\u{308}", "b", "ba", "é", "É", "zz"]

  private static func note(_ id: Int, _ random: inout SeededRandom) -> Note {
    func some<Value>(_ make: (inout SeededRandom) -> Value) -> [Value] {
      (0..<random.below(5)).map { _ in make(&random) }
    }
    func word(_ random: inout SeededRandom) -> String { words[random.below(words.count)] }
    return Note(
      id: id, tags: some(word), years: some { $0.below(12) - 6 },
      marks: some { $0.below(8) == 0 ? .nan : Double($0.below(6)) }, names: random.below(4) == 0 ? nil : some(word),
      writers: some { Writer(name: words[$0.below(words.count)]) })
  }

  /// Conditions with what they mean, written with the methods of arrays.
  private static func model(_ random: inout SeededRandom) -> Model {
    typealias Fields = Varve.Fields<Note>
    let (word, other) = (words[random.below(words.count)], words[random.below(words.count)])
    let (low, high) = (random.below(12) - 6, random.below(12) - 6)
    let (first, last) = (min(low, high), max(low, high))
    let mark = Double(random.below(6))
    func key(_ text: String) -> [UInt8] { (try? text.encoded()) ?? [] }
    func precedes(_ left: String, _ right: String) -> Bool { ByteOrder.precedes(key(left), key(right)) }
    func begins(_ text: String, _ prefix: String) -> Bool { key(text).starts(with: key(prefix).dropLast()) }
    switch random.below(18) {
    case 0: return (Condition { $0.tags.any == word }, { $0.tags.contains(word) }, true)
    case 1: return (Condition { $0.tags.any.hasPrefix(word) }, { $0.tags.contains { begins($0, word) } }, true)
    case 2: return (Condition { $0.tags.any < word }, { $0.tags.contains { precedes($0, word) } }, true)
    case 3: return (Condition { $0.tags.any >= word }, { $0.tags.contains { !precedes($0, word) } }, true)
    case 4:
      return (Condition { $0.tags.any.isIn([word, other]) }, { !Set($0.tags).isDisjoint(with: [word, other]) }, true)
    case 5: return (Condition { $0.tags.any.isIn([]) }, { _ in false }, true)
    case 6: return (Condition { $0.tags.any.contains("b") }, { $0.tags.contains { $0.contains("b") } }, false)
    case 7: return (Condition { $0.tags.any.hasSuffix("c") }, { $0.tags.contains { $0.hasSuffix("c") } }, false)
    case 8:
      return (Condition { $0.tags.any.folded == word }, { $0.tags.contains { $0.folded == word.folded } }, false)
    case 9: return (Condition { $0.years.any < low }, { $0.years.contains { $0 < low } }, true)
    case 10: return (Condition { $0.years.any <= low }, { $0.years.contains { $0 <= low } }, true)
    case 11: return (Condition { $0.years.any > low }, { $0.years.contains { $0 > low } }, true)
    case 12: return (Condition { $0.years.any.isIn(first...last) }, { $0.years.contains { first...last ~= $0 } }, true)
    case 13: return (Condition { $0.years.any.isIn(first..<last) }, { $0.years.contains { first..<last ~= $0 } }, true)
    // Rows with a value that has no key are in the index without it, so it can't be used.
    case 14: return (Condition { $0.marks.any > mark }, { $0.marks.contains { $0 > mark } }, false)
    case 15:
      return (Condition { $0.names.any.hasPrefix(word) }, { $0.names?.contains { begins($0, word) } ?? false }, true)
    case 16: return (Condition { $0.writers.any.name == word }, { $0.writers.contains { $0.name == word } }, false)
    default:
      return (
        Condition { $0.years.any < low || $0.tags.any.hasPrefix(word) },
        { $0.years.contains { $0 < low } || $0.tags.contains { begins($0, word) } }, true
      )
    }
  }

  @Test(arguments: 0..<6) func `element conditions find what arrays say, each row once, from indexes and rows`(
    _ number: UInt64
  ) throws {
    var random = SeededRandom(seed: 48_100 + number)
    let database = try Database.inMemory { NoteFormat.self }
    let notes = Store<NoteFormat>(in: database)
    var rows = (0..<120).map { Self.note($0, &random) }
    try database.write { tx in try notes.persist(contentsOf: rows, in: tx) }
    for _ in 0..<TestScale.count(30) {
      let (condition, isRight, isIndexed) = Self.model(&random)
      try check(condition, isRight, isIndexed, notes, rows, "seed \(48_100 + number)")
      let changed = Self.note(random.below(rows.count), &random)
      rows[changed.id] = changed
      try database.write { tx in _ = try notes.persist(changed, in: tx) }
    }
    try checkGroups(notes, rows)
    try database.close()
  }

  private func check(
    _ condition: Condition<Note>, _ isRight: (Note) -> Bool, _ isIndexed: Bool, _ notes: Store<NoteFormat>,
    _ rows: [Note], _ comment: Comment
  ) throws {
    let right = rows.filter(isRight).map(\.id)
    #expect(try rows.filter { try condition.holds(for: $0) }.map(\.id) == right, comment)
    #expect(
      try rows.filter { try (!condition).holds(for: $0) }.map(\.id) == rows.map(\.id).filter { !right.contains($0) })
    try notes.database.read { tx throws in
      let query = notes.query.filter(condition)
      if isIndexed {
        #expect(try query.fetch(in: tx).map(\.id).sorted() == right, comment)
        #expect(try query.count(in: tx) == right.count, comment)
        #expect(try query.ids(in: tx).count == right.count, comment)
        #expect(
          try query.sorted(by: \.id, descending: true).limit(7).fetch(in: tx).map(\.id)
            == Array(right.reversed().prefix(7)))
        #expect(try query.page(size: 5, in: tx).instances.map(\.id) == Array(right.prefix(5)), comment)
      } else {
        #expect(throws: DatabaseError.self) { _ = try query.fetch(in: tx) }
      }
      #expect(try query.scan().sorted(by: \.id).fetch(in: tx).map(\.id) == right, comment)
      #expect(try notes.query.filter(!condition).scan().count(in: tx) == rows.count - right.count, comment)
    }
  }

  private func checkGroups(_ notes: Store<NoteFormat>, _ rows: [Note]) throws {
    func right<Value: KeyCodable>(_ values: (Note) -> [Value]) -> [QueryGroup<Value>] {
      var counts: [Value: Int] = [:]
      for row in rows { for value in Set(values(row)) { counts[value, default: 0] += 1 } }
      return counts.map { QueryGroup(value: $0, count: $1) }.sorted { left, right in
        ByteOrder.precedes((try? left.value.encoded()) ?? [], (try? right.value.encoded()) ?? [])
      }
    }
    try notes.database.read { tx throws in
      #expect(try notes.query.grouped(byElementsOf: \.tags, in: tx) == right(\.tags))
      #expect(try notes.query.grouped(byElementsOf: \.years, in: tx) == right(\.years))
      #expect(try notes.query.grouped(byElementsOf: \.names, in: tx) == right { $0.names ?? [] })
      #expect(try notes.query.distinct(elementsOf: \.names, in: tx) == right { $0.names ?? [] }.map(\.value))
      // The rows of a condition have other elements than those that it asks for.
      let some = try notes.query.filter { $0.years.any < 0 }.grouped(byElementsOf: \.tags, in: tx)
      let ids = Set(rows.filter { $0.years.contains { $0 < 0 } }.map(\.id))
      #expect(
        some.map(\.count).reduce(0, +) == rows.filter { ids.contains($0.id) }.reduce(0) { $0 + Set($1.tags).count })
    }
  }

  @Test func `a condition on elements is planned on the index of the elements`() throws {
    let database = try Database.inMemory { NoteFormat.self }
    let notes = Store<NoteFormat>(in: database)
    try database.write { tx in
      try notes.persist(contentsOf: (0..<20).map { Note(id: $0, tags: ["a\($0)", "ab", "ab"], years: [$0]) }, in: tx)
    }
    try database.read { tx throws in
      let prefix = notes.query.filter { $0.tags.any.hasPrefix("a") }
      #expect(try prefix.explain(in: tx).description == #"index "tags", 1 range of 1 field"#)
      #expect(try prefix.count(in: tx) == 20 && prefix.fetch(in: tx).count == 20)
      #expect(
        try notes.query.filter { $0.tags.any == "ab" }.explain(in: tx)
          == notes.query.filter { $0.tags.contains("ab") }.explain(in: tx))
      // One value has one entry for a row, so its counts answer; a range has not.
      let one = try notes.query.filter { $0.years.any == 3 }.explain(in: tx)
      let range = try notes.query.filter { $0.years.any < 3 }.explain(in: tx)
      #expect(one.countedIndex == "years" && range.countedIndex == nil && range.accesses.map(\.index) == ["years"])
      #expect(errorCode { _ = try notes.query.filter { $0.tags.any.folded == "ab" }.count(in: tx) } == .notIndexed)
    }
    try database.close()
  }

  @Test func `Boolean fields, values on the left, and texts that end are conditions`() throws {
    typealias V = Condition<Flagged>
    let rows = [Flagged(a: true, b: false, n: 1, m: nil, t: "xyz"), Flagged(a: false, b: true, n: 5, m: 2, t: "x")]
    func found(_ condition: V) throws -> [Int] { try rows.filter(condition.holds).map(\.n) }
    #expect(try found(V { $0.a && $0.n < 3 }) == [1] && found(V { $0.n < 3 && $0.b }) == [])
    #expect(try found(V { $0.a || $0.b }) == [1, 5] && found(V { !$0.a }) == [5] && found(V { $0.a && !$0.b }) == [1])
    #expect(try found(V { $0.b || $0.n == 1 }) == [1, 5] && found(V { $0.n == 7 || $0.b }) == [5])
    #expect(try found(V { 3 < $0.n }) == [5] && found(V { 1 >= $0.n }) == [1] && found(V { 1 < $0.m }) == [5])
    #expect(try found(V { "x" == $0.t }) == [5] && found(V { "x" != $0.t }) == [1])
    #expect(try found(V { ["x", "q"].contains($0.t) }) == [5] && found(V { (0..<5).contains($0.n) }) == [1])
    #expect(try found(V { (0...5).contains($0.m) }) == [5] && found(V { $0.t.hasSuffix("yz") }) == [1])
    // They are the same conditions as the ones with the field on the left.
    #expect(V { 3 < $0.n } == V { $0.n > 3 } && V { (0..<5).contains($0.n) } == V { $0.n.isIn(0..<5) })
    #expect(V { !$0.a } == V { !$0.a.isTrue } && V { 2 >= $0.m } == V { $0.m <= 2 })
  }

  private struct Flagged: Codable, Sendable {
    var a: Bool
    var b: Bool
    var n: Int
    var m: Int?
    var t: String
  }
}
