import EngineTestSupport
import VarveEngine

/// An error that describes a difference between the engine and the model.
struct ModelMismatch: Error, CustomStringConvertible {
  let description: String
}

/// A run of the model suite: the operations of a seed on an engine and on the model, with every result compared.
///
/// The model's families have the engine's identifiers in their names: a family that is created again under the same
/// name is another family. The program is single-threaded; the engine's work on other threads does not affect any
/// result.
final class ModelRun {
  /// A family of the engine and its name in the model.
  struct Family {
    let engine: ColumnFamily
    let model: String
    /// The rule of the family's merge operands, or `nil` if it accepts none.
    let rule: MergeRule?
    /// Whether the family is emptied when the database is opened.
    var isVolatile = false
  }

  struct HeldSnapshot {
    let engine: EngineSnapshot
    let model: ModelDatabase.State
  }

  /// One of the last operations, which is printed when a check fails.
  struct TraceEntry {
    let step: Int
    let kind: OperationKind
    var family = ""
    var key: [UInt8]?
    var note = 0
  }

  /// The content is compared before and after one background job in so many; a check of each would make runs several
  /// times as long.
  static let watchOneIn = 8

  let seed: UInt64
  let stepCount: Int
  let world: ModelEnvironment
  /// Whether some commits are not written to the log.
  let hasUnlogged: Bool
  var random: SeededRandom
  var model = ModelDatabase()
  var counts = OperationCounts()
  let source: KeySource
  var engine: Engine {
    didSet { world.watch.attach(engine) }
  }
  /// A reader as in another process, which continues over reopenings of the engine.
  var follower: Follower?
  var families: [Family] = []
  var dropped: [ColumnFamily] = []
  var snapshots: [HeldSnapshot] = [] {
    didSet { world.watch.setSnapshots(snapshots.map(\.engine)) }
  }
  var cursors: [HeldCursor] = []
  /// For each family, how often each key was put since it was last removed. Single deletes are only for keys that
  /// were put once.
  var putCounts: [String: [[UInt8]: Int]] = [:]
  var lastSequence = SequenceNumber(0)
  var familyIDMaximum: FamilyID = 0
  let oversized = OversizedBytes()
  private var trace: [TraceEntry] = []
  private var step = 0

  init(_ execution: ModelEnvironment.Execution, seed: UInt64, stepCount: Int) throws {
    self.seed = seed
    self.stepCount = stepCount
    random = SeededRandom(seed: seed)
    world = ModelEnvironment(execution, seed: random.next(), watchOneIn: Self.watchOneIn)
    hasUnlogged = random.oneIn(3)
    source = KeySource(&random)
    var options = Self.drawOptions(&random)
    let rule = random.oneIn(4) ? nil : MergeRule.allCases[random.below(MergeRule.allCases.count)]
    options.defaultFamilyOptions.mergeOperator = rule?.rawValue
    engine = try Engine.open(at: "/db", options: options, environment: world.environment)
    families = [Family(engine: engine.defaultFamily, model: "default", rule: rule)]
    world.watch.attach(engine)
  }

  /// Draws options with small limits, so that flushes and compactions are frequent.
  static func drawOptions(_ random: inout SeededRandom) -> EngineOptions {
    var options = EngineOptions()
    options.memtableSize = [64 << 10, 64 << 10, 100_000][random.below(3)]
    options.cacheSize = [0, 64 << 10, 4 << 20][random.below(3)]
    options.compression = CompressionKind.allCases[random.below(3)]
    options.blockSize = [1 << 10, 2_000, 4 << 10, 16 << 10][random.below(4)]
    options.bloomBitsPerKey = [0, 4, 10][random.below(3)]
    options.logSegmentSize = [64 << 10, 128 << 10, 1 << 20][random.below(3)]
    options.backgroundThreads = 1 + random.below(3)
    options.mergeOperators = [ChainOperator()]
    // A range tombstone that a cursor lets the engine write takes a sequence number: `DeadRunModelTests` covers it.
    options.deadRunMinimum = 0
    return options
  }

  /// Runs all steps. An error that is thrown contains the seed, the step and the last operations.
  func run() throws {
    do {
      var mix = OperationMix(&random)
      var mixEnd = mix.length
      for index in 0..<stepCount {
        step = index
        if index == mixEnd {
          mix = OperationMix(&random)
          mixEnd = index + mix.length
        }
        world.tick(step: mix.stepInterval > 0 && random.oneIn(mix.stepInterval))
        try perform(mix.draw(&random))
        if let problem = world.watch.problem { throw ModelMismatch(description: problem) }
      }
      try compareAll()
      let faults = try engine.verify().faults
      try require(faults.isEmpty, "verify found \(faults)")
      releaseAll()
      try follower?.close()
      world.watch.detach()
      try engine.close()
    } catch {
      throw ModelMismatch(description: "seed \(seed), step \(step): \(error)\n" + lastOperations)
    }
  }

  private func perform(_ kind: OperationKind) throws {
    switch kind {
    case .put: try put()
    case .delete: try delete()
    case .singleDelete: try singleDelete()
    case .deleteRange: try deleteRange()
    case .merge: try merge()
    case .putStamped: try putStamped()
    case .batch: try writeBatch()
    case .get, .multiGet, .contains, .withValue: try read(kind, families[random.below(families.count)], nil)
    case .cursor: try scan()
    case .holdCursor: try holdCursor()
    case .moveHeldCursor: try moveHeldCursor()
    case .takeSnapshot: takeSnapshot()
    case .readSnapshot: try readSnapshot()
    case .releaseSnapshot: releaseSnapshot()
    case .sync: try sync()
    case .flush: try flush()
    case .compact: try compact()
    case .createFamily: try createFamily()
    case .dropFamily: try dropFamily()
    case .reopen: try reopen()
    case .refusal: try refusal()
    case .follow: try follow()
    }
  }

  // MARK: - Noting and checking

  /// Counts an operation, and keeps it for the message of a failure.
  func note(_ kind: OperationKind, _ family: Family? = nil, _ key: [UInt8]? = nil, _ note: Int = 0) {
    counts[kind] += 1
    if trace.count == 40 { trace.removeFirst(20) }
    trace.append(TraceEntry(step: step, kind: kind, family: family?.model ?? "", key: key, note: note))
  }

  func require(_ condition: @autoclosure () throws -> Bool, _ message: @autoclosure () -> String) throws {
    if try !condition() { throw ModelMismatch(description: message()) }
  }

  private var lastOperations: String {
    let lines = trace.suffix(20).map { entry in
      "  \(entry.step) \(entry.kind) \(entry.family) \(entry.key.map(brief) ?? "") \(entry.note)"
    }
    return (["the last operations:"] + lines).joined(separator: "\n")
  }

  /// Returns the rows of a family in a state of the model; none if the family was created later.
  func rows(
    _ state: ModelDatabase.State, _ family: Family, _ bounds: CursorBounds = .all
  ) -> ArraySlice<ModelDatabase.Row> {
    state.families[family.model] == nil ? [] : state.slice(family.model, bounds)
  }

  func drawFamily() -> Family { families[random.below(families.count)] }
  func drawKey() -> [UInt8] { source.key(&random) }
}
