import EngineTestSupport
import Foundation
import Synchronization
import VarveEngine
import VarveTestSupport

@testable import Varve

/// A script of concurrent commits of both lanes, with both durabilities, while definitions are replaced, and of what
/// a crash may leave of them.
///
/// One thread writes transactions and another independent commits. Each commit has a number in its lane, from 1, and
/// stores it in an independent part with the stamp of its commit: so the entries show which commits are there, and in
/// which order they were made. A transaction also changes a row; five extensions depend on the rows.
final class LaneScript: Sendable {
  enum Lane: UInt8, CaseIterable, Sendable { case writer, independent }

  /// A commit.
  struct Entry: Hashable, Sendable {
    let lane: Lane
    let number: Int
  }

  /// The progress of each lane at a moment, by the numbers of its commits.
  struct Guarantee: Sendable {
    var begun: [Int] = [0, 0]
    /// The last commits that were acknowledged such that they survive the death of the process.
    var process: [Int] = [0, 0]
    /// The last commits that were acknowledged such that they survive a loss of power.
    var power: [Int] = [0, 0]
    /// The version of the derivation in force, as far as the program knows, and `pending` for one that may be being
    /// built.
    var version = 1
    var pending: Int?
  }

  static let rowCount = 30
  static let deriving = ModelDeriving(version: 0).named("deriving")

  let seed: UInt64
  let commitCount: Int
  private let state = Mutex(Guarantee())
  /// The numbers that were acknowledged before each commit began: if the commit is found, they must be too.
  private let before = Mutex<[Entry: [Int]]>([:])

  init(seed: UInt64, commitCount: Int) {
    self.seed = seed
    self.commitCount = commitCount
  }

  var guarantee: Guarantee { state.withLock { $0 } }
  var acknowledgedBefore: [Entry: [Int]] { before.withLock { $0 } }

  // MARK: - Opening

  static func open(_ fileSystem: any FileSystem, seed: UInt64) throws -> Database {
    let database = try ObjectCrashScript.open(fileSystem, SteppedExecutor(seed: seed), seed: seed).0
    database.core.extensions.rowsInTransaction.store(0, ordering: .relaxed)
    return database
  }

  static func open(_ backend: any StorageBackend) throws -> Database {
    let database = try Database.open(backend, path: "lanes")
    database.core.extensions.rowsInTransaction.store(0, ordering: .relaxed)
    return database
  }

  /// Registers all extensions, the derivation with the given version, and waits until they are built.
  static func register(_ database: Database, version: Int, replacing old: Int? = nil) throws {
    try database.waitUntilReady(try database.core.register(ModelParts(), ModelParts.name, nil))
    try database.waitUntilReady(try database.core.register(ModelChain(), "chain", nil))
    if let old {
      _ = try database.core.register(
        ModelDeriving(version: version), "deriving", replacing: ModelDeriving(version: old), nil)
    } else {
      _ = try database.core.register(ModelDeriving(version: version), "deriving", nil)
    }
    let dependent = try database.core.register(ModelDependent(keepsUp: true), "dependent", nil)
    try database.waitUntilReady(Self.deriving)
    try database.waitUntilReady(dependent)
    try database.waitUntilReady(try database.core.register(ModelMirror(version: "1"), "mirror", nil))
    try database.waitUntilReady(try database.core.register(ModelTally(takesAllAtOnce: false), "tally", nil))
  }

  /// Initializes a new database, with a row from before the first commit.
  static func begin(_ database: Database) throws {
    try database.core.write(WriteTerms(durability: .power)) { tx in try tx.set(0, key: 0, in: "rows") }
    try register(database, version: 1)
  }

  // MARK: - Commits

  /// The change that a transaction makes to the rows: the key, and the number that it sets, or nil to remove the row.
  static func change(_ number: Int) -> (key: Int, value: Int?) {
    ((number * 7) % rowCount, number % 5 == 4 ? nil : number)
  }

  /// The rows after `count` transactions.
  static func rows(after count: Int) -> [Int: Int] {
    var rows = [0: 0]
    for number in stride(from: 1, through: count, by: 1) {
      let (key, value) = change(number)
      rows[key] = value
    }
    return rows
  }

  private static func sign(_ values: Part, _ sums: Part, _ entry: Entry) throws {
    try values.putStamped(
      [entry.lane.rawValue] + BigEndian.bytes(UInt32(entry.number)), [UInt8](repeating: 0, count: 8), at: .value(0))
    try sums.add(1, to: [entry.lane.rawValue])
  }

  /// Makes one commit; `body` is called in a transaction before its entry is stored.
  func commit(
    _ entry: Entry, _ durability: StorageDurability, _ database: Database,
    _ body: (WriteTransaction) throws -> Void = { _ in }
  ) throws {
    let lane = Int(entry.lane.rawValue)
    let acknowledged = state.withLock { guarantee in
      guarantee.begun[lane] = max(guarantee.begun[lane], entry.number)
      return guarantee.process
    }
    before.withLock { $0[entry] = acknowledged }
    let terms = WriteTerms(label: "\(entry.lane) \(entry.number)", durability: durability)
    let core = database.core
    switch entry.lane {
    case .writer:
      try core.write(terms) { tx in
        let (key, value) = Self.change(entry.number)
        if let value { try tx.set(value, key: key, in: "rows") } else { try tx.remove(key: key, in: "rows") }
        try body(tx)
        let parts = try tx[ModelParts().named(ModelParts.name)]
        try Self.sign(parts[.asideValues], parts[.asideSums], entry)
      }
    case .independent:
      try ExtensionRun.waiting(core) {
        try await core.commitIndependently(terms) { parts in
          try Self.sign(
            parts.part("asideValues", of: ExtensionRun.parts), parts.part("asideSums", of: ExtensionRun.parts), entry)
        }
      }
    }
    state.withLock { guarantee in
      guarantee.process[lane] = max(guarantee.process[lane], entry.number)
      if durability == .power { guarantee.power[lane] = max(guarantee.power[lane], entry.number) }
    }
  }

  // MARK: - The run

  /// Runs both lanes, each to its end or until a commit fails. Returns the errors thrown.
  func run(_ database: Database) -> [String] {
    let isDone = Atomic<Bool>(false)
    let reader = Threads.start { [self] _ in
      try watch(database) { isDone.load(ordering: .sequentiallyConsistent) }
    }
    let lanes = Threads.start(Lane.allCases.count) { [self] index in
      var random = SeededRandom(seed: seed &+ UInt64(index))
      for number in 1...commitCount {
        let durability: StorageDurability = random.oneIn(4) ? .power : .process
        let replaces = index == 0 && number % (commitCount / 3) == 0
        if replaces { try settle(database) }
        try commit(Entry(lane: Lane.allCases[index], number: number), durability, database) { [self] tx in
          if replaces { try replace(tx) }
        }
      }
    }
    let errors = lanes.errorsAtEnd()
    isDone.store(true, ordering: .sequentiallyConsistent)
    return errors + reader.errorsAtEnd()
  }

  /// Checks that readers never go back, and see everything acknowledged before they began.
  private func watch(_ database: Database, _ isDone: () -> Bool) throws {
    var last = CommitVersion.zero
    var counts: [Int64] = [0, 0]
    repeat {
      let promised = guarantee.process
      let (version, found) = try database.core.read { tx in
        let sums = try tx[ExtensionRun.parts][.asideSums]
        return (tx.version, try Lane.allCases.map { try sums.counter([$0.rawValue]) })
      }
      guard version >= last, zip(found, counts).allSatisfy(>=) else {
        throw ContractBroken("a reader saw \(version), \(found) after \(last), \(counts)")
      }
      guard zip(found, promised).allSatisfy({ $0 >= $1 }) else {
        throw ContractBroken("a reader saw \(found), and \(promised) had been acknowledged")
      }
      (last, counts) = (version, found)
      // The lanes need the processor.
      sched_yield()
    } while !isDone()
  }

  private func replace(_ tx: WriteTransaction) throws {
    let next = guarantee.version + 1
    try tx.replaceDefinition(of: Self.deriving, by: ModelDeriving(version: next))
    state.withLock { $0.pending = next }
  }

  /// Waits until the definition being built is in force.
  func settle(_ database: Database) throws {
    guard let pending = guarantee.pending else { return }
    try database.waitUntilReady(Self.deriving)
    state.withLock { guarantee in
      guarantee.version = pending
      guarantee.pending = nil
    }
  }
}
