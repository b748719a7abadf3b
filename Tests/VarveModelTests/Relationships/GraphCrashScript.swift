import EngineTestSupport
import Synchronization
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures
@testable import RelationshipFixtures
@testable import Varve
@_spi(Extensions) @testable import VarveRelationships

/// A script of transactions over rows with edges, drawn from a seed. Each adds its number to the collection `log`.
///
/// Not thread-safe: one thread uses it, and observers of the disk read `progress`.
final class GraphCrashScript {
  /// The complete state of the database after a number of transactions.
  struct State: Sendable {
    let number: Int
    let lines: Set<String>

    func compare(_ expected: State) throws {
      if number == expected.number, lines == expected.lines { return }
      throw ContractBroken(
        "after \(number) transactions: besides \(lines.subtracting(expected.lines).sorted()), "
          + "without \(expected.lines.subtracting(lines).sorted()), expected after \(expected.number)")
    }
  }

  private static let graph = Relationships(version: "1").named("graph")
  private static let late = LinkCount(delivery: .afterCurrent).named("late")
  private static let keys = GraphCase.collections.flatMap { collection in (1...6).map { "\(collection)\($0)" } }

  let progress = CrashedProgress()
  private(set) var states: [State]
  private(set) var ruleRemovals = 0
  private let database: Database
  private var random: SeededRandom

  init(_ database: Database, seed: UInt64) {
    self.database = database
    random = SeededRandom(seed: seed)
    states = [State(number: 0, lines: [])]
  }

  // MARK: - Opening

  /// Opens the database on a disk, with relationships, an index and another extension.
  static func open(_ disk: any FileSystem, seed: UInt64) throws -> Database {
    let executor = SteppedExecutor(seed: seed)
    let numbers = Mutex(SeededRandom(seed: seed))
    let environment = EngineEnvironment(
      fileSystem: disk, clock: executor.clock, random: { numbers.withLock { $0.next() } },
      makeExecutor: { _ in executor })
    let engine = try Engine.open(at: "/db", options: StorageSite.options, environment: environment)
    let database = try Database.open(
      try EngineBackend(engine), path: "/db",
      definition: try DatabaseDefinition {
        for name in GraphCase.collections.dropFirst() { CollectionDefinition(name, Thing.self, key: String.self) }
        try CollectionDefinition("a", Thing.self, key: String.self).indexed(by: linkIndex)
        CollectionDefinition("log", Thing.self, key: String.self)
        graph
        late
      })
    try database.waitReady(graph)
    return database
  }

  // MARK: - Transactions

  /// Commits one more transaction, and records the state after it.
  func commit() throws {
    let durability: StorageDurability = random.oneIn(4) ? .power : .process
    let number = try Self.number(database) + 1
    progress.update { $0.begun = number }
    var removed = 0
    let before = try Self.rowCount(database)
    try database.write(label: "\(number)", durability: durability) { tx in
      try tx.set(Thing(), key: "\(number)", in: "log")
      for _ in 0...random.below(5) { removed += try change(tx) }
      if random.oneIn(4) {
        struct Undo: Error {}
        try? tx.savepoint {
          for _ in 0..<3 { _ = try change(tx) }
          throw Undo()
        }
      }
      if random.oneIn(4) { try tx[Self.graph].flush() }
    }
    progress.update { guarantee in
      guarantee.process = number
      if durability == .power { guarantee.power = number }
    }
    states.append(try Self.state(database))
    ruleRemovals += max(0, before - removed - (try Self.rowCount(database)))
  }

  /// Makes a change, and returns how many rows it removed, minus those that it created.
  private func change(_ tx: WriteTransaction) throws -> Int {
    let key = Self.keys[random.below(Self.keys.count)]
    let row = try Thing.row(key)
    switch random.below(20) {
    case 0..<12:
      let isNew = try !tx.contains(row)
      try tx.set(Thing(links: (0..<random.below(4)).map { _ in link() }), key: key, in: String(key.prefix(1)))
      return isNew ? -1 : 0
    case 12..<15: return try tx.remove(row) ? 1 : 0
    case 15..<18:
      let link = link()
      guard try tx.contains(row), try tx.contains(try Thing.row(link.destination)) else { return 0 }
      try tx[Self.graph].add(try link.edge, from: row)
      return 0
    case 18:
      let collection = String(key.prefix(1))
      return try tx.remove(in: collection, (collection + "2")...(collection + "4"))
    default:
      try tx[Self.graph].remove(EdgeQuery(from: row), as: .asIfSourceDeleted)
      return 0
    }
  }

  private func link() -> Thing.Link {
    var link = Thing.Link("\(["x", "y"][random.below(2)])>\(Self.keys[random.below(Self.keys.count)])"[...])
    repeat {
      link.rules = [1, 2, 4, 8, 16, 32].filter { _ in random.oneIn(3) }.reduce(0, |)
    } while DeleteRules(rawValue: link.rules).refusal(toFile: false) != nil
    return link
  }

  // MARK: - Reading

  private static func number(_ database: Database) throws -> Int { try database.core.read { try $0.count(in: "log") } }

  private static func rowCount(_ database: Database) throws -> Int {
    try database.core.read { tx in try GraphCase.collections.reduce(0) { $0 + (try tx.count(in: $1)) } }
  }

  /// Reads the complete state. Throws if two ways to read the same content differ.
  static func state(_ database: Database) throws -> State {
    try database.core.read { tx in
      let numbers = try tx.keys(String.self, in: "log")
      guard Set(numbers) == Set((0..<numbers.count).map { "\($0 + 1)" }) else {
        throw ContractBroken("transactions \(numbers) are there")
      }
      var lines: Set<String> = []
      for key in keys {
        if let thing = try tx.object(Thing.self, key: key, in: String(key.prefix(1))) {
          lines.insert("\(key) \(thing)")
        }
      }
      let graph = try tx[graph]
      let edges = try graph.edges().map { "edge \($0)" }
      guard Set(edges).count == edges.count, try graph.count() == edges.count else {
        throw ContractBroken("\(try graph.count()) edges are counted, and \(edges.count) are listed: \(edges)")
      }
      let outgoing = try keys.flatMap { try graph.edges(EdgeQuery(from: Thing.row($0))).map { "edge \($0)" } }
      let incoming = try keys.flatMap { try graph.edges(EdgeQuery(to: Thing.row($0))).map { "edge \($0)" } }
      guard outgoing.sorted() == edges.sorted(), incoming.sorted() == edges.sorted() else {
        throw ContractBroken("edges \(edges), by source \(outgoing), by destination \(incoming)")
      }
      lines.formUnion(edges)
      lines.formUnion(try graph.danglingEdges().map { "dangling \($0)" })
      lines.formUnion(try tx[late].lines().map { "late \($0)" })
      return State(number: numbers.count, lines: lines)
    }
  }
}
