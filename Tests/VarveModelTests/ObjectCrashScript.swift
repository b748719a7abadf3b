import EngineTestSupport
import Synchronization
import VarveEngine
import VarveTestSupport

@testable import Varve

/// The object of a row in the crash suite.
struct CrashedObject: Codable, Hashable, Sendable {
  var number: Int
  var text: String
}

/// The metadata of some rows.
struct CrashedNote: Codable, Hashable, Sendable { var tag: String }

/// A row in its expected state.
struct CrashedRow: Hashable, Sendable {
  var object: CrashedObject
  var note: CrashedNote?
  var id: UInt64
}

/// The expected content of the database after each transaction, beginning with the empty one.
struct CrashedStates: Sendable {
  typealias Content = [String: [Int: CrashedRow]]

  private(set) var contents: [Content] = [[:]]
  /// The identifiers that were assigned so far, including those of undone work.
  private(set) var ids: [Set<UInt64>] = [[]]

  var last: Content { contents[contents.count - 1] }

  mutating func add(_ content: Content, _ given: Set<UInt64>) {
    contents.append(content)
    ids.append(given.union(ids[ids.count - 1]))
  }
}

/// The progress of the run at a moment: transactions by number, from 1.
struct CrashedGuarantee: Sendable {
  var begun = 0
  /// The last transaction that was acknowledged such that it survives the death of the process.
  var process = 0
  /// The last transaction that was acknowledged such that it survives a loss of power.
  var power = 0
}

/// The current progress, for observers of the disk, which can't access the script.
final class CrashedProgress: Sendable {
  private let state = Mutex(CrashedGuarantee())
  var guarantee: CrashedGuarantee { state.withLock { $0 } }
  func update(_ body: (inout CrashedGuarantee) -> Void) { state.withLock { body(&$0) } }
}

/// A script of transactions over several families, drawn from a seed, on a disk that loses power.
///
/// Each transaction adds its number to the collection `log`, which shows the transactions that are there. The other
/// collections are shared ones and one with its own families; nearly every transaction touches objects, metadata,
/// counts and the feed of changes. The script runs on one thread, and steps the background jobs itself.
final class ObjectCrashScript {
  static let path = "/db"
  static let collections = ["own", "shared"]

  let disk: CrashFileSystem
  private(set) var states = CrashedStates()
  let progress = CrashedProgress()
  private var random: SeededRandom
  private let executor: SteppedExecutor
  /// The state that the current transaction sees.
  private var content: CrashedStates.Content = [:]
  private var given: Set<UInt64> = []

  init(_ disk: CrashFileSystem, seed: UInt64) {
    self.disk = disk
    random = SeededRandom(seed: seed)
    executor = SteppedExecutor(seed: seed)
  }

  // MARK: - Opening

  static func definition() throws -> DatabaseDefinition {
    let definition = DatabaseDefinition {
      CollectionDefinition("own", CrashedObject.self, key: Int.self, storage: .own(compression: CompressionKind.none))
    }
    return definition
  }

  static func open(
    _ fileSystem: any FileSystem, _ executor: SteppedExecutor, seed: UInt64
  ) throws -> (Database, EngineBackend) {
    let numbers = Mutex(SeededRandom(seed: seed))
    let environment = EngineEnvironment(
      fileSystem: fileSystem, clock: executor.clock, random: { numbers.withLock { $0.next() } },
      makeExecutor: { _ in executor })
    let backend = try EngineBackend(
      try Engine.open(at: path, options: StorageSite.options, environment: environment))
    var options = DatabaseOptions()
    // The feed contains the wall-clock time: with a fixed clock, two runs have the same bytes.
    options.clock = WallClock { 1_700_000_000 }
    return (try Database.open(backend, path: path, definition: try definition(), options: options), backend)
  }

  // MARK: - The run

  /// Runs to the end, or until the power is lost.
  func run(transactionCount: Int) throws {
    let (database, backend) = try Self.open(disk, executor, seed: random.next())
    for number in 1...transactionCount {
      let durability: StorageDurability = random.oneIn(4) ? .power : .process
      progress.update { $0.begun = number }
      content = states.last
      given = []
      try database.write(label: "\(number)", durability: durability) { tx in try fill(tx, number) }
      states.add(content, given)
      progress.update { guarantee in
        guarantee.process = number
        if durability == .power { guarantee.power = number }
      }
      if random.oneIn(3) { executor.step() }
      if random.oneIn(12) {
        try backend.engine.flush()
        progress.update { $0.power = $0.process }
      }
      if random.oneIn(30) { try backend.engine.compact() }
    }
    try database.close()
  }

  private func fill(_ tx: WriteTransaction, _ number: Int) throws {
    try set(tx, "log", number, CrashedObject(number: number, text: ""), nil)
    for _ in 0..<(1 + random.below(5)) { try change(tx) }
    if random.oneIn(5) {
      struct Stop: Error {}
      let before = content
      try? tx.savepoint {
        for _ in 0..<2 { try change(tx) }
        throw Stop()
      }
      content = before
    }
  }

  private func change(_ tx: WriteTransaction) throws {
    let name = Self.collections[random.below(2)]
    let key = random.below(24)
    let object = CrashedObject(
      number: random.below(1_000), text: String(repeating: "x", count: random.below(random.oneIn(10) ? 3_000 : 60)))
    let note = random.oneIn(2) ? CrashedNote(tag: "note \(random.below(100))") : nil
    switch random.below(16) {
    case 0..<8: try set(tx, name, key, object, note)
    case 8: if try tx.replaceObject(object, key: key, in: name) { content[name]?[key]?.object = object }
    case 9, 10: if try tx.replaceMetadata(note, key: key, in: name) { content[name]?[key]?.note = note }
    case 11, 12: if try tx.remove(key: key, in: name) { content[name]?[key] = nil }
    case 13:
      _ = try tx.remove(in: name, key..<(key + 6))
      for gone in key..<(key + 6) { content[name]?[gone] = nil }
    case 14: _ = try tx.touchRow(key: key, in: name)
    default:
      guard random.oneIn(3) else { return }
      _ = try tx.removeAll(in: name)
      content[name] = [:]
    }
  }

  private func set(
    _ tx: WriteTransaction, _ name: String, _ key: Int, _ object: CrashedObject, _ note: CrashedNote?
  ) throws {
    try tx.set(object, key: key, in: name, metadata: note)
    guard let id = try tx.row(key: key, in: name)?.id.number else {
      throw ContractBroken("a row that was set is not there")
    }
    given.insert(id)
    content[name, default: [:]][key] = CrashedRow(object: object, note: note, id: id)
  }
}
