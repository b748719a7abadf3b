import Foundation
import Testing

@testable import ObjectFixtures
@_spi(Extensions) @testable import Varve

/// Tests of the change sets of transactions: subscribers and later readers of the feed receive the same ones.
struct ChangeSetTests {
  private let time = ManualTime()
  private let database: Database

  init() throws {
    var options = DatabaseOptions()
    options.clock = time.clock
    database = try Database.inMemory(options: options)
  }

  /// Returns the change set of a commit, as delivered and as stored.
  private func changes(
    label: String? = nil, _ body: (WriteTransaction) throws -> Void
  ) async throws -> [ChangeSet] {
    let before = try database.lastVersion()
    var announced = database.changes().makeAsyncIterator()
    try database.change(label, body)
    let stored = try database.feedEvents(after: before)
    #expect(stored.count == 1)
    let changes = try await announced.nextChanges()
    #expect(!changes.isFromFeed)
    return [changes] + stored.compactMap(\.changes)
  }

  private func fill() throws {
    try database.change { tx throws in
      for key in ["a", "b", "c"] { try tx.set(ChangedNote(key), key: key, in: "notes") }
      try tx.set(ChangedNote("x"), key: "x", in: "others", metadata: 1)
    }
  }

  // MARK: - Queries on change sets

  @Test func `collections with changes report them, and others don't`() async throws {
    try fill()
    for set in try await changes({ try $0.set(ChangedNote("1"), key: "a", in: "notes") }) {
      #expect(set.changedCollections == ["notes"])
      #expect(set.hasChange(in: "notes"))
      #expect(set.hasObjectChange(in: "notes"))
      #expect(set.hasMetadataChange(in: "notes"))
      #expect(!set.hasChange(in: "others"))
      #expect(!set.hasObjectChange(in: "others"))
      #expect(!set.hasMetadataChange(in: "others"))
      #expect(!set.hasChange(in: "none"))
    }
  }

  @Test func `a change of the object is not one of the metadata, and vice versa`() async throws {
    try fill()
    let object = try await changes { try $0.replaceObject(ChangedNote("1"), key: "x", in: "others") }
    let metadata = try await changes { try $0.replaceMetadata(2, key: "x", in: "others") }
    for (sets, isObject) in [(object, true), (metadata, false)] {
      for set in sets {
        #expect(set.hasObjectChange(in: "others") == isObject)
        #expect(set.hasMetadataChange(in: "others") == !isObject)
        #expect(try set.hasObjectChange(key: "x", in: "others") == isObject)
        #expect(try set.hasMetadataChange(key: "x", in: "others") == !isObject)
        #expect(try set.hasObjectChange(anyOf: ["y", "x"], in: "others") == isObject)
        #expect(try set.hasMetadataChange(anyOf: ["y", "x"], in: "others") == !isObject)
        #expect(try set.hasChange(key: "x", in: "others"))
        #expect(try set.hasChange(key: "y", in: "others") == false)
        #expect(set.text == "~x")
      }
    }
  }

  @Test func `touches are changes of what they name`() async throws {
    try fill()
    let sets = try await changes { tx throws in
      try tx.touchObject(key: "a", in: "notes")
      try tx.touchMetadata(key: "b", in: "notes")
      try tx.touchRow(key: "c", in: "notes")
    }
    for set in sets {
      let keys = ["a", "b", "c"]
      #expect(try keys.map { key throws in try set.hasObjectChange(key: key, in: "notes") } == [true, false, true])
      #expect(try keys.map { key throws in try set.hasMetadataChange(key: key, in: "notes") } == [false, true, true])
      #expect(set.text == "~a ~b ~c")
    }
  }

  @Test func `a removed row has changed in every way`() async throws {
    try fill()
    for set in try await changes({ try $0.remove(key: "a", in: "notes") }) {
      #expect(try set.hasObjectChange(key: "a", in: "notes"))
      #expect(try set.hasMetadataChange(key: "a", in: "notes"))
      #expect(set.hasObjectChange(in: "notes"))
      #expect(set.hasMetadataChange(in: "notes"))
      #expect(set.text == "-a")
      #expect(set.keys(in: "notes").map(\.string) == ["a"])
      #expect(set.hasChange(try RowKey("a", in: "notes")))
      #expect(!set.hasChange(try RowKey("b", in: "notes")))
    }
  }

  @Test func `a query for any of no keys is false`() async throws {
    try fill()
    for set in try await changes({ try $0.remove(key: "a", in: "notes") }) {
      #expect(try set.hasChange(anyOf: [String](), in: "notes") == false)
      #expect(try set.hasChange(anyOf: ["b", "c"], in: "notes") == false)
      #expect(try set.hasChange(anyOf: ["b", "a"], in: "notes"))
    }
  }

  @Test func `all changed keys are listed by collection and key`() async throws {
    try fill()
    let sets = try await changes { tx throws in
      try tx.set(ChangedNote(""), key: "z", in: "others")
      try tx.set(ChangedNote(""), key: "d", in: "notes")
      try tx.remove(key: "b", in: "notes")
      try tx.touchRow(key: "a", in: "notes")
    }
    for set in sets {
      #expect(set.allKeys.map(\.description) == [#"notes/"a""#, #"notes/"b""#, #"notes/"d""#, #"others/"z""#])
      #expect(set.text == "~a +d -b +z")
    }
  }

  // MARK: - Several changes of one row

  @Test func `a row that was set and removed in one transaction is among the removed`() async throws {
    let sets = try await changes { tx throws in
      try tx.set(ChangedNote(""), key: "a", in: "notes")
      try tx.remove(key: "a", in: "notes")
      try tx.set(ChangedNote(""), key: "b", in: "notes")
    }
    for set in sets { #expect(set.text == "+b -a") }
  }

  @Test func `a row that was removed and set again is among the changed, with object and metadata`() async throws {
    try fill()
    let sets = try await changes { tx throws in
      try tx.touchMetadata(key: "a", in: "notes")
      try tx.remove(key: "a", in: "notes")
      try tx.set(ChangedNote("again"), key: "a", in: "notes")
    }
    for set in sets {
      #expect(set.text == "~a")
      #expect(try set.hasObjectChange(key: "a", in: "notes"))
      #expect(try set.hasMetadataChange(key: "a", in: "notes"))
    }
  }

  @Test func `a new row that was changed, removed and set again is among the inserted`() async throws {
    let sets = try await changes { tx throws in
      try tx.set(ChangedNote(""), key: "a", in: "notes")
      try tx.replaceObject(ChangedNote("1"), key: "a", in: "notes")
      try tx.remove(key: "a", in: "notes")
      try tx.set(ChangedNote("2"), key: "a", in: "notes")
    }
    for set in sets { #expect(set.text == "+a") }
  }

  // MARK: - Clearing

  @Test func `every key of a cleared collection has changed, and rows set after that are inserted`()
    async throws
  {
    try fill()
    let sets = try await changes { tx throws in
      try tx.touchRow(key: "c", in: "notes")
      try tx.removeAll(in: "notes")
      try tx.set(ChangedNote(""), key: "b", in: "notes")
    }
    for set in sets {
      #expect(set.text == "!notes +b")
      #expect(set.isCleared("notes") && !set.isCleared("others") && !set.isEverythingCleared)
      #expect(try set.hasChange(key: "never there", in: "notes"))
      #expect(try set.hasObjectChange(key: "never there", in: "notes"))
      #expect(try set.hasMetadataChange(anyOf: ["never there"], in: "notes"))
      #expect(set.hasChange(try RowKey("never there", in: "notes")))
      #expect(try set.hasChange(key: "x", in: "others") == false)
    }
  }

  @Test func `every query returns true after all collections were cleared`() async throws {
    try fill()
    try database.change { try $0.set(ChangedNote(""), key: "gone", in: "empty") }
    try database.change { try $0.remove(key: "gone", in: "empty") }
    let sets = try await changes { tx throws in
      #expect(try tx.removeAll() == 4)
      try tx.set(ChangedNote(""), key: "new", in: "notes")
    }
    for set in sets {
      #expect(set.isEverythingCleared)
      #expect(set.clearedCollections == ["notes", "others"])
      #expect(set.text == "!notes !others +new")
      #expect(set.hasChange(in: "empty") && set.isCleared("empty"))
      #expect(try set.hasObjectChange(key: "any", in: "empty"))
    }
  }

  @Test func `clearing an empty collection changes nothing`() async throws {
    try fill()
    try database.change { tx in try tx.removeAll() }
    var announced = database.changes().makeAsyncIterator()
    try database.change { tx throws in
      #expect(try tx.removeAll(in: "notes") == 0)
      #expect(try tx.removeAll() == 0)
    }
    try database.put("a")
    #expect(try await announced.next(1) == ["+a"])
  }

  @Test func `a row that a hook changes while its collection is cleared is removed like the others`() async throws {
    try database.change { tx in for number in 0..<1_500 { try tx.set("note", key: number, in: "many") } }
    var hooks = Hooks()
    // The hook is called for one of the first thousand rows, and changes one of the others.
    hooks.didRemove = { tx, change in
      if try change.key.key(as: Int.self) == 0 { try tx.replaceObject("late", key: 1_400, in: "many") }
    }
    let registered: ExtensionHandle<Hooks> = try register(hooks)
    #expect(registered.name == "hooks")
    let sets = try await changes { try $0.removeAll(in: "many") }
    for set in sets {
      #expect(set.isCleared("many"))
      #expect(try set.removedKeys(in: "many").map { try $0.key(as: Int.self) } == [1_400])
      #expect(set.changedKeys(in: "many").isEmpty)
    }
    #expect(try database.core.read { tx in try tx.count(in: "many") } == 0)
  }

  private func register(_ hooks: Hooks) throws -> ExtensionHandle<Hooks> {
    try database.registerReady(hooks, as: "hooks")
  }

  @Test func `clearing that a hook refuses changes nothing`() async throws {
    try fill()
    var hooks = Hooks()
    hooks.willRemove = { _, change in
      if change.key.string == "b" { throw Stop() }
    }
    _ = try register(hooks)
    let sets = try await changes { tx throws in
      try tx.set(ChangedNote(""), key: "d", in: "notes")
      #expect(throws: Stop.self) { try tx.removeAll(in: "notes") }
      #expect(try tx.count(in: "notes") == 4)
    }
    for set in sets { #expect(set.text == "+d") }
  }

  // MARK: - Work that was undone

  @Test func `work that was rolled back or has thrown is not reported`() async throws {
    var announced = database.changes().makeAsyncIterator()
    #expect(throws: DatabaseError.self) {
      try database.change { tx throws in
        try tx.set(ChangedNote(""), key: "a", in: "notes")
        try tx.rollBack()
      }
    }
    #expect(throws: Stop.self) {
      try database.change { tx throws in
        try tx.set(ChangedNote(""), key: "b", in: "notes")
        throw Stop()
      }
    }
    try database.put("c")
    #expect(try await announced.next(1) == ["+c"])
    #expect(try database.feedEvents().map(\.text) == ["+c"])
  }

  @Test func `nested work that was undone is not reported, nor is its object`() async throws {
    try fill()
    let sets = try await changes { tx throws in
      try tx.set(ChangedNote(""), key: "d", in: "notes")
      try tx.setCustomObject("outer")
      try? database.change { inner throws in
        try inner.remove(key: "d", in: "notes")
        try inner.set(ChangedNote(""), key: "e", in: "notes")
        try inner.removeAll(in: "others")
        try? database.change { innermost throws in
          try innermost.removeAll()
          throw Stop()
        }
        #expect(try inner.count(in: "notes") == 4)
        try inner.setCustomObject("inner")
        throw Stop()
      }
      try database.change { try $0.touchRow(key: "a", in: "notes") }
    }
    for set in sets {
      #expect(set.text == "~a +d")
      #expect(!set.isEverythingCleared)
      #expect(try set.customObject(as: String.self) == "outer")
    }
  }

  @Test func `a commit without changes is not reported`() async throws {
    try fill()
    var announced = database.changes().makeAsyncIterator()
    try database.change { tx throws in
      #expect(try tx.remove(key: "none", in: "notes") == false)
      #expect(try tx.replaceObject(ChangedNote(""), key: "none", in: "notes") == false)
      #expect(try tx.touchRow(key: "none", in: "notes") == false)
    }
    try database.put("z")
    #expect(try await announced.next(1) == ["+z"])
  }

  // MARK: - Labels, objects and extensions

  @Test func `the label, object and time are delivered`() async throws {
    time.advance(60)
    let sets = try await changes(label: "import") { tx throws in
      try tx.setCustomObject(["a": 1])
      try tx.set(ChangedNote(""), key: "ä", in: "notes")
    }
    for set in sets {
      #expect(set.label == "import")
      #expect(try set.customObject(as: [String: Int].self) == ["a": 1])
      #expect(throws: DatabaseError.self) { try set.customObject(as: [Int].self) }
      #expect(set.date == Date(timeIntervalSince1970: 1_700_000_060))
    }
    #expect(sets.map(\.isFromFeed) == [false, true])
    #expect(sets[0].version == sets[1].version)
    #expect(try database.lastVersion() == sets[0].version)
    for set in try await changes({ try $0.set(ChangedNote(""), key: "b", in: "notes") }) {
      #expect(set.label == nil)
      #expect(try set.customObject(as: Int.self) == nil)
    }
  }

  @Test func `the changes of extensions are delivered to subscribers, and not stored in the feed`() async throws {
    let counting: ExtensionHandle<Counting> = try register(Counting())
    let sets = try await changes { tx throws in
      try tx.set(ChangedNote(""), key: "a", in: "notes")
      try tx.set(ChangedNote(""), key: "b", in: "notes")
    }
    #expect(sets.map(\.changedExtensions) == [["counting"], []])
    #expect(sets.map { "\($0.changes(of: counting))" } == ["exact(2)", "reload"])
    #expect("\(sets[0].changes(of: Counting().named("none")))" == "none")
    #expect("\(sets[0].changes(of: ChangingProbe().named("counting")))" == "reload", "of another type")
  }

  @Test func `an extension is asked for its changes only while there are observers`() throws {
    let asked = Lines()
    var scripted = Scripted(events: .inserts)
    scripted.takeChanges = { tx in
      asked.add("observed \(tx.context.isObserved)")
      return "changes"
    }
    let handle = try database.registerReady(scripted, as: "scripted")
    try database.put("a")
    #expect(asked.take() == [])
    let connection = database.connection()
    try connection.beginLongLivedRead()
    try database.put("b")
    #expect(asked.take() == ["observed true"])
    #expect(try connection.advance().map { $0.changes.map { "\($0.changes(of: handle))" } } == ["exact(\"changes\")"])
    withExtendedLifetime(connection) {}
  }

  private func register(_ counting: Counting) throws -> ExtensionHandle<Counting> {
    try database.registerReady(counting, as: "counting")
  }

  @Test func `registering an extension is not reported`() async throws {
    try fill()
    var announced = database.changes().makeAsyncIterator()
    let before = try database.lastVersion()
    let _: ExtensionHandle<WordTotal> = try register(WordTotal())
    #expect(try database.lastVersion() > before)
    #expect(try database.feedEvents(after: before).isEmpty)
    try database.put("z")
    #expect(try await announced.next(1) == ["+z"])
  }

  private func register(_ total: WordTotal) throws -> ExtensionHandle<WordTotal> {
    try database.registerReady(total, as: "total")
  }
}

/// An extension that reports how many rows a commit inserted.
struct Counting: DatabaseExtension {
  static let kind = "test.counting"
  typealias Changes = Int
  final class Transaction: ExtensionTransaction {
    typealias Definition = Counting
    private var count = 0
    func didChange(_ change: borrowing RowChange) { count += 1 }
    func mark() -> Int { count }
    func rollBack(to mark: Int) { count = mark }
    func takeChanges() -> Int? { count == 0 ? nil : count }
  }

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.events = .inserts
    configuration.keepsState = true
    configuration.build = .none
    return configuration
  }
  func makeTransaction(_ context: ExtensionContext<Self>) -> Transaction { Transaction() }
}

/// An extension that stores a value for each row, so that its build commits.
struct WordTotal: DatabaseExtension {
  static let kind = "test.wordTotal"
  final class Transaction: ExtensionTransaction {
    typealias Definition = WordTotal
    private let total: Part
    init(_ context: ExtensionContext<WordTotal>) throws { total = try context.part("total") }
    func didChange(_ change: borrowing RowChange) throws { try total.add(1, to: [0]) }
  }

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.events = .inserts
    configuration.parts = [PartDefinition("total", .counters(.sum))]
    return configuration
  }
  func makeTransaction(_ context: ExtensionContext<Self>) throws -> Transaction { try Transaction(context) }
}
