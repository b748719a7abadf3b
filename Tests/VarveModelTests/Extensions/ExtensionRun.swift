import Dispatch
import EngineTestSupport
import Synchronization
import VarveEngine
import VarveTestSupport

@testable import Varve

/// A run of the extension model suite: a database over a storage, its model, and steps drawn from a seed.
///
/// Five extensions depend on the rows: one that writes rows, one that receives those and writes rows itself, one that
/// depends on the first, one with shared state, and one that depends on that. A sixth has parts of every form, which
/// transactions and independent commits write directly. Transactions and savepoints end in every way, definitions are
/// replaced in a transaction and next to the one in force, extensions are registered and unregistered, processes die,
/// and followers and pinned readers compare what they see with the model at their version.
///
/// The seed reproduces a run except for the work of other threads: the builds of definitions that are replaced next
/// to the one in force, and the steps `sideBySide`.
final class ExtensionRun {
  /// An error that a closure throws in order to be undone.
  struct Stop: Error {}

  /// The extensions that are registered.
  struct Registered: OptionSet {
    let rawValue: Int
    static let mirror = Registered(rawValue: 1)
    static let collections = ["chained", "derived", "others", "rows"]
    static let definition = DatabaseDefinition {
      for name in collections { CollectionDefinition(name, Int.self, key: Int.self) }
    }
    static let deriving = Registered(rawValue: 2)
    static let chain = Registered(rawValue: 4)
    static let all: Registered = [.mirror, .deriving, .chain]
  }

  let kind: StorageKind
  var random: SeededRandom
  var site: StorageSite
  private var opened: Database?
  private(set) var backend: (any StorageBackend)?
  /// The committed state.
  var committed = ExtensionState()
  /// The state that the current transaction sees.
  var state = ExtensionState()
  var use = IndependentUse()
  /// Whether the current transaction has made a write that will certainly be committed.
  var hasWritten = false
  /// Whether the current transaction has appended to the append-only part, which it then can't read.
  var hasAppended = false
  var registered = Registered.all
  /// The version of a definition that is being built next to the one in force.
  var pendingVersion: Int?
  var lastVersion = 1
  /// Whether the current transaction has replaced the definition.
  var hasReplaced = false
  let keepsUp: Bool
  var counts = StepCounts<ExtensionStep>()
  private var steps: [(step: ExtensionStep, first: Int, second: Int)] = []
  /// The newest version that a reader has seen.
  var lastRead = CommitVersion.zero

  // MARK: Other readers

  var follower: Database?
  var followerRead = CommitVersion.zero
  /// The committed states by version, for the follower.
  var history: [(version: CommitVersion, state: ExtensionState)] = []
  var pins: [(connection: Connection, state: ExtensionState)] = []

  static let collections = ["chained", "derived", "others", "rows"]
  static let definition = DatabaseDefinition {
    for name in collections { CollectionDefinition(name, Int.self, key: Int.self) }
  }
  static let deriving = ModelDeriving(version: 0).named("deriving")
  static let dependent = ModelDependent(keepsUp: false).named("dependent")
  static let mirror = ModelMirror(version: "1").named("mirror")
  static let tally = ModelTally().named("tally")
  static let parts = ModelParts().named(ModelParts.name)

  init(_ kind: StorageKind, seed: UInt64, faults: ToyFaults? = nil) throws {
    self.kind = kind
    random = SeededRandom(seed: seed)
    keepsUp = seed % 2 == 0
    site = try StorageSite(kind)
    if let faults { site.faults = faults }
  }

  var database: Database {
    get throws {
      guard let opened else { throw ContractBroken("the run has no database") }
      return opened
    }
  }

  /// The last steps, for messages of failures.
  var trace: String { steps.suffix(30).map { "\($0.step) \($0.first) \($0.second)" }.joined(separator: ", ") }

  func note(_ step: ExtensionStep, _ first: Int = 0, _ second: Int = 0) {
    counts[step] += 1
    steps.append((step, first, second))
    if steps.count > 128 { steps.removeFirst(64) }
  }

  func expect<Value: Equatable>(_ found: Value, _ expected: Value, _ what: @autoclosure () -> String) throws {
    guard found == expected else { throw ContractBroken("\(what()): \(found), not \(expected)") }
  }

  // MARK: - The run

  func run(stepCount: Int) throws {
    try open()
    while counts.total < stepCount { try step(ExtensionStep.around(&random)) }
    try reopen()
    try checkOutside()
    try close()
  }

  private func step(_ step: ExtensionStep) throws {
    switch step {
    case .commit, .throwOut, .rollBack: try transaction(step)
    case .independent, .independentUndone: try independent(step)
    case .replaceBeside: try replaceBeside()
    case .sideBySide: try writeSideBySide()
    case .registerAgain: try registerAgain()
    case .leaveOut: try leaveOut()
    case .reopen: try reopen()
    case .abandon: try abandon()
    case .follow: try follow()
    case .readFollower: try readFollower()
    case .pin: try pin()
    case .readPinned: try readPinned()
    default: try checkOutside()
    }
  }

  // MARK: - Opening and closing

  /// Opens the database, and registers the extensions. `version` is the version of the derivation; `old` is the one
  /// that it replaces.
  func open(version: Int? = nil, replacing old: Int? = nil) throws {
    let backend = try site.open()
    self.backend = backend
    let database = try Database.open(backend, path: "extensions", definition: Self.definition)
    opened = database
    // The version read in a process that died may be ahead of what it had acknowledged.
    lastRead = .zero
    try database.waitUntilReady(try database.core.register(ModelParts(), ModelParts.name, nil))
    try register(registered, version: version ?? committed.version, replacing: old)
  }

  /// Registers some extensions, and waits until they are built.
  func register(_ extensions: Registered, version: Int, replacing old: Int? = nil) throws {
    let database = try database
    if extensions.contains(.chain) {
      try database.waitUntilReady(try database.core.register(ModelChain(), "chain", nil))
    }
    if extensions.contains(.deriving) {
      let definition = ModelDeriving(version: version)
      let handle =
        if let old {
          try database.core.register(definition, "deriving", replacing: ModelDeriving(version: old), nil)
        } else {
          try database.core.register(definition, "deriving", nil)
        }
      let dependent = try database.core.register(ModelDependent(keepsUp: keepsUp), "dependent", nil)
      try database.waitUntilReady(handle)
      try database.waitUntilReady(dependent)
      committed.version = version
      pendingVersion = nil
    }
    if extensions.contains(.mirror) {
      try database.waitUntilReady(try database.core.register(ModelMirror(version: "1"), "mirror", nil))
      try database.waitUntilReady(try database.core.register(ModelTally(takesAllAtOnce: false), "tally", nil))
    }
  }

  func endReaders() throws {
    pins = []
    try follower?.close()
    follower = nil
    history = []
  }

  func close() throws {
    try endReaders()
    let database = try database
    opened = nil
    backend = nil
    try database.close()
  }

  /// Returns the database, which the caller closes.
  func leave() throws -> Database {
    try endReaders()
    let database = try database
    opened = nil
    backend = nil
    return database
  }

  // MARK: - The other lane

  /// Runs `body` as an asynchronous call does, and waits for it on this thread.
  static func waiting<Result: Sendable>(
    _ core: DatabaseCore, _ body: @escaping @Sendable () async throws -> Result
  ) throws -> Result {
    let outcome = Mutex<Swift.Result<Result, any Error>?>(nil)
    let isDone = DispatchSemaphore(value: 0)
    Task.detached(executorPreference: core.writerExecutor) {
      let result: Swift.Result<Result, any Error>
      do { result = .success(try await body()) } catch { result = .failure(error) }
      outcome.withLock { $0 = result }
      isDone.signal()
    }
    isDone.wait()
    guard let result = outcome.withLock({ $0 }) else { throw ContractBroken("no outcome") }
    return try result.get()
  }
}
