import EngineTestSupport
import Synchronization
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of the calls that extensions receive, and of their order.
struct HookOrderTests {
  /// The calls that all extensions of a test received.
  final class Record: Sendable {
    private let heard = Mutex<[String]>([])
    func add(_ line: String) { heard.withLock { $0.append(line) } }
    func take() -> [String] {
      heard.withLock { heard in
        defer { heard = [] }
        return heard
      }
    }
  }

  /// An extension that records every hook, with the state of the row in it.
  struct Recorder: DatabaseExtension {
    static let kind = "test.recorder"
    let name: String
    let record: Record
    var dependencies: [String] = []
    var parts: [PartDefinition] = []
    var configuration: ExtensionConfiguration {
      var configuration = ExtensionConfiguration(version: "1")
      configuration.events = .all
      configuration.needs = [.before, .oldRows]
      configuration.parts = parts
      configuration.dependencies = dependencies
      configuration.build = .none
      return configuration
    }
    func makeTransaction(_ context: ExtensionContext<Self>) -> RecorderTransaction {
      RecorderTransaction(self, context)
    }
  }

  final class RecorderTransaction: ExtensionTransaction {
    typealias Definition = Recorder
    private let recorder: Recorder
    private let context: ExtensionContext<Recorder>

    init(_ recorder: Recorder, _ context: ExtensionContext<Recorder>) {
      self.recorder = recorder
      self.context = context
    }

    private func note(_ hook: String, _ row: Row?) throws {
      guard let row else { return recorder.record.add("\(recorder.name) \(hook): no row") }
      let inside: String? = try context.transaction.object(key: try row.key(as: Int.self), in: row.key.collection)
      let metadata: Int? = try row.metadata()
      recorder.record.add(
        "\(recorder.name) \(hook) \(row.key): \(try row.object(as: String.self)) "
          + "\(metadata.map(String.init) ?? "-"), there is \(inside ?? "nothing")")
    }

    func willChange(_ change: borrowing RowChange) throws {
      try note("will \(change.event)", change.event == .removed ? change.old : change.row)
    }
    func didChange(_ change: borrowing RowChange) throws {
      if change.event == .removed {
        recorder.record.add("\(recorder.name) did removed \(change.key)")
      } else {
        try note("did \(change.event)", change.row)
      }
    }
    func removesAll(in collection: String?) throws -> Bool {
      recorder.record.add("\(recorder.name) removesAll \(collection ?? "everywhere")")
      return collection == nil
    }
    func didRemoveAll(in collection: String?) throws {
      recorder.record.add("\(recorder.name) didRemoveAll \(collection ?? "everywhere")")
    }
  }

  private let database: Database
  private let record = Record()
  init() throws { database = try Database.inMemory() }

  @Test func `each operation on a row calls its hooks before and after, with the row's new state`()
    throws
  {
    try database.registerReady(Recorder(name: "r", record: record), as: "r")
    try database.write { tx in try tx.set("a", key: 1, in: "c") }
    #expect(record.take() == ["r will inserted c/1: a -, there is nothing", "r did inserted c/1: a -, there is a"])
    try database.write { tx in try tx.set("b", key: 1, in: "c", metadata: 5) }
    #expect(record.take() == ["r will updated c/1: b 5, there is a", "r did updated c/1: b 5, there is b"])
    try database.write { tx in try tx.replaceObject("d", key: 1, in: "c") }
    #expect(
      record.take() == ["r will objectReplaced c/1: d 5, there is b", "r did objectReplaced c/1: d 5, there is d"])
    try database.write { tx in try tx.replaceMetadata(6, key: 1, in: "c") }
    #expect(
      record.take() == ["r will metadataReplaced c/1: d 6, there is d", "r did metadataReplaced c/1: d 6, there is d"])
    try database.write { tx in
      try tx.touchObject(key: 1, in: "c")
      try tx.touchMetadata(key: 1, in: "c")
      try tx.touchRow(key: 1, in: "c")
    }
    let touched = ["objectTouched", "metadataTouched", "rowTouched"].map { "r did \($0) c/1: d 6, there is d" }
    #expect(record.take() == touched)
    try database.write { tx in try tx.remove(key: 1, in: "c") }
    #expect(record.take() == ["r will removed c/1: d 6, there is d", "r did removed c/1"])
  }

  @Test func `an operation without effect calls no hook`() throws {
    try database.registerReady(Recorder(name: "r", record: record), as: "r")
    try database.write { tx in
      try tx.replaceObject("a", key: 1, in: "c")
      try tx.set("b", key: 2, in: "c")
    }
    _ = record.take()
    try database.write { tx in
      try tx.replaceObject("a", key: 1, in: "c")
      try tx.replaceMetadata(1, key: 1, in: "c")
      try tx.touchRow(key: 1, in: "c")
      try tx.remove(key: 1, in: "c")
      try tx.remove(keys: [1, 3], in: "c")
      try tx.removeAll(in: "empty")
    }
    #expect(record.take() == [])
  }

  @Test func `many rows are delivered one by one, all rows of all collections at once`() throws {
    try database.registerReady(Recorder(name: "r", record: record), as: "r")
    try database.write { tx in
      for key in 1...4 { try tx.set("x", key: key, in: "c") }
      try tx.set("y", key: 9, in: "d")
    }
    _ = record.take()
    try database.write { tx in #expect(throws: Never.self) { try tx.remove(keys: [2, 3, 2, 7], in: "c") } }
    #expect(record.take().filter { $0.contains("did") } == ["r did removed c/2", "r did removed c/3"])
    try database.write { tx in _ = try tx.removeAll(in: "c") }
    #expect(record.take().filter { $0.contains("did") } == ["r did removed c/1", "r did removed c/4"])
    try database.write { tx in _ = try tx.removeAll() }
    #expect(record.take() == ["r removesAll everywhere", "r didRemoveAll everywhere"])
  }

  @Test func `dependencies are called first, then by registration, even after reopening`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    func register(_ database: Database, _ name: String, _ dependencies: [String] = []) throws {
      // An extension with a part has a record on disk, which keeps its position.
      let recorder = Recorder(
        name: name, record: record, dependencies: dependencies, parts: [PartDefinition("unused")])
      try database.registerReady(recorder, as: name)
    }
    func heard(_ database: Database, _ key: Int) throws -> [String] {
      try database.write { tx in try tx.set("x", key: key, in: "c") }
      return record.take().filter { $0.contains("did inserted") }.map { String($0.prefix(1)) }
    }
    var database = try Database.open(at: path)
    try register(database, "b")
    try register(database, "a")
    try register(database, "z", ["a"])
    #expect(try heard(database, 1) == ["b", "a", "z"])
    try database.close()
    database = try Database.open(at: path)
    try register(database, "a")
    try register(database, "z", ["a"])
    try register(database, "b")
    #expect(try heard(database, 2) == ["b", "a", "z"])
    let error = #expect(throws: DatabaseError.self) { try register(database, "q", ["nowhere"]) }
    #expect(error?.code == .unknownExtension)
    #expect(try database.unregister("a") == ["a", "z"])
    #expect(try heard(database, 3) == ["b"])
    try database.close()
  }

  @Test func `a row that a hook writes is there at once, and delivered after the change that caused it`() throws {
    var first = Hooks(scope: .only(["c"]))
    first.didModify = { tx, change in
      try tx.set("echo", key: try change.key.key(as: Int.self) + 100, in: "echoes")
    }
    try database.registerReady(first, as: "first")
    try database.registerReady(Recorder(name: "r", record: record), as: "r")
    try database.write { tx in try tx.set("a", key: 1, in: "c") }
    #expect(
      record.take() == [
        "r will inserted c/1: a -, there is nothing", "r will inserted echoes/101: echo -, there is nothing",
        "r did inserted c/1: a -, there is a", "r did inserted echoes/101: echo -, there is echo",
      ])
  }

  @Test func `a will hook that throws refuses the operation, and nothing else`() throws {
    struct Refused: Error {}
    var hooks = Hooks()
    hooks.willModify = { _, change in if try change.row?.object(as: String.self) == "bad" { throw Refused() } }
    hooks.willRemove = { _, change in if try change.old?.key(as: Int.self) == 1 { throw Refused() } }
    try database.registerReady(hooks, as: "hooks")
    var refusals = 0
    try database.write { tx in
      try tx.set("good", key: 1, in: "c")
      do { try tx.set("bad", key: 2, in: "c") } catch is Refused { refusals += 1 }
      do { try tx.set("bad", key: 1, in: "c") } catch is Refused { refusals += 1 }
      do { try tx.remove(key: 1, in: "c") } catch is Refused { refusals += 1 }
      try tx.set("good", key: 3, in: "c")
    }
    #expect(refusals == 3)
    let (keys, object) = try database.read { tx in
      (try tx.keys(Int.self, in: "c"), try tx.object(String.self, key: 1, in: "c"))
    }
    #expect(keys == [1, 3])
    #expect(object == "good")
  }

  @Test func `rows that a hook removes during the removal of a collection are counted once`() throws {
    var hooks = Hooks()
    // After the first chunk of the removal, the hook removes rows of a later one.
    hooks.didRemove = { tx, change in
      guard try change.key.key(as: Int.self) == 0 else { return }
      for key in 1_990..<2_000 { try tx.remove(key: key, in: "c") }
    }
    try database.write { tx in for key in 0..<2_000 { try tx.set("x", key: key, in: "c") } }
    try database.registerReady(hooks, as: "hooks")
    let removed = try database.write { tx in
      let removed = try tx.removeAll(in: "c")
      try tx.set("left", key: 5_000, in: "c")
      return removed
    }
    #expect(removed == 1_990)
    #expect(try database.read { tx throws in try tx.count(in: "c") } == 1)
    #expect(try database.read { tx throws in try tx.keys(Int.self, in: "c") } == [5_000])
  }

  @Test func `extensions that never settle are stopped, and named`() throws {
    struct Restless: DatabaseExtension {
      static let kind = "test.restless"
      var configuration: ExtensionConfiguration {
        var configuration = ExtensionConfiguration(version: "1")
        configuration.events = .inserts
        return configuration
      }
      func makeTransaction(_ context: ExtensionContext<Self>) -> RestlessTransaction { RestlessTransaction(context) }
    }
    final class RestlessTransaction: ExtensionTransaction {
      typealias Definition = Restless
      private let context: ExtensionContext<Restless>
      private var rounds = 0
      private var needsFlush = false
      init(_ context: ExtensionContext<Restless>) { self.context = context }
      func didChange(_ change: borrowing RowChange) throws { needsFlush = true }
      func flush() throws {
        guard needsFlush else { return }
        rounds += 1
        try context.writeTransaction?.set(rounds, key: rounds, in: "made")
      }
    }
    try database.registerReady(Restless(), as: "restless")
    let error = #expect(throws: DatabaseError.self) { try database.write { tx in try tx.set("a", key: 1, in: "c") } }
    #expect(error?.code == .doesNotSettle)
    #expect(error?.message.contains("restless") == true)
    #expect(try database.read { tx throws in try tx.count() } == 0)
  }

  @Test func `settings are stored by their kind, on disk or in memory`() throws {
    struct Keeper: DatabaseExtension {
      static let kind = "test.keeper"
      let configuration = ExtensionConfiguration(version: "1")
      func makeTransaction(_ context: ExtensionContext<Self>) -> KeeperTransaction { KeeperTransaction(context) }
    }
    final class KeeperTransaction: ExtensionTransaction {
      typealias Definition = Keeper
      let context: ExtensionContext<Keeper>
      init(_ context: ExtensionContext<Keeper>) { self.context = context }
      func didChange(_ change: borrowing RowChange) {}
    }
    let values: [ExtensionSetting] = [
      .bool(true), .integer(-5), .double(0.1), .string("déjà vu"), .data([0, 255]), .string(""), .bool(false),
    ]
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    var database = try Database.open(at: path)
    var keeper = try database.registerReady(Keeper(), as: "keeper")
    try database.write { [keeper] tx in
      for (index, value) in values.enumerated() {
        try tx[keeper].context.set(value, for: "\(index)")
        try tx[keeper].context.set(value, for: "\(index)", isPersistent: false)
      }
    }
    func read(_ isPersistent: Bool) throws -> [ExtensionSetting?] {
      try database.read { [keeper] tx in
        try values.indices.map { try tx[keeper].context.setting("\($0)", isPersistent: isPersistent) }
      }
    }
    #expect(try read(true) == values)
    #expect(try read(false) == values)
    try database.close()
    database = try Database.open(at: path)
    keeper = try database.registerReady(Keeper(), as: "keeper")
    #expect(try read(true) == values)
    #expect(try read(false) == values.map { _ in nil })
    try database.write { [keeper] tx in try tx[keeper].context.set(.integer(7), for: "1", isPersistent: false) }
    #expect(try read(false)[1] == .integer(7), "where they were the last time")
    try database.write { [keeper] tx in try tx[keeper].context.set(nil, for: "0") }
    #expect(try read(true)[0] == nil)
    try database.close()
  }
}
