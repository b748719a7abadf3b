import EngineTestSupport
import VarveEngine

@testable import EngineModel

/// Runs a sequence on an engine with one setting, and records its answers.
///
/// The run depends on the sequence and the setting only: files are in memory, the clock is stepped, and background
/// work runs in the order of the setting's seed.
final class SequenceRun {
  /// A function that changes the recorded answers, with which a test plants a difference. It receives the operation
  /// and the number of flushes so far, and returns whether the answer is discarded.
  typealias Lie = @Sendable (_ operation: SequenceOperation, _ flushCount: Int) -> Bool

  /// The content is compared before and after one background job in so many.
  private static let watchOneIn = 2

  let setting: EngineSetting
  private let isVerbose: Bool
  private let lie: Lie?
  private let world: ModelEnvironment
  var engine: Engine {
    didSet { world.watch.attach(engine) }
  }
  var families: [ColumnFamily?]
  var snapshots: [EngineSnapshot?] = Array(repeating: nil, count: SequenceSource.snapshotSlots) {
    didSet { world.watch.setSnapshots(snapshots.compactMap(\.self)) }
  }
  var cursors: [HeldSequenceCursor?] = Array(repeating: nil, count: SequenceSource.cursorSlots)
  /// The keys of `putOnce` that exist, by the family's identifier.
  var once: [FamilyID: Set<[UInt8]>] = [:]
  var transactions: [HeldTransaction?] = Array(repeating: nil, count: SequenceSource.transactionSlots)
  private var history = SequenceHistory()
  private var flushCount = 0
  private var reopenCount = 0

  private init(_ setting: EngineSetting, isVerbose: Bool, lie: Lie?) throws(EngineError) {
    self.setting = setting
    self.isVerbose = isVerbose
    self.lie = lie
    world = ModelEnvironment(
      .stepped, seed: setting.seed, usesMapping: setting.usesMapping, watchOneIn: Self.watchOneIn)
    engine = try Engine.open(at: "/db", options: setting.options(reopened: 0), environment: world.environment)
    families = Array(repeating: nil, count: SequenceSource.familySlots)
    families[0] = engine.defaultFamily
    world.watch.attach(engine)
  }

  /// Returns the history of a sequence; if `isVerbose`, with the answers as text.
  static func history(
    of operations: [SequenceOperation], _ setting: EngineSetting, isVerbose: Bool = false, lie: Lie? = nil
  ) -> SequenceHistory {
    do throws(EngineError) {
      return try SequenceRun(setting, isVerbose: isVerbose, lie: lie).run(operations)
    } catch {
      var history = SequenceHistory()
      history.fault = "the engine did not open: \(error)"
      return history
    }
  }

  private func run(_ operations: [SequenceOperation]) -> SequenceHistory {
    for (index, operation) in operations.enumerated() {
      world.tick(step: setting.stepInterval > 0 && index % setting.stepInterval == 0)
      answer(operation) { (answer) throws(EngineError) in try perform(operation, &answer) }
      if let problem = world.watch.problem { history.fault = history.fault ?? problem }
      if history.fault != nil { break }
    }
    answer(nil) { (answer) throws(EngineError) in try finish(&answer) }
    if let problem = world.watch.problem { history.fault = history.fault ?? problem }
    history.installCount = world.watch.installCount
    return history
  }

  /// Records an answer. An error is an answer by its code, if it is one of those that a sequence may cause.
  private func answer(
    _ operation: SequenceOperation?, _ body: (inout SequenceAnswer) throws(EngineError) -> Void
  ) {
    var answer = SequenceAnswer(isVerbose: isVerbose)
    do throws(EngineError) {
      try body(&answer)
    } catch {
      answer.add(name: error.code.description)
      switch error.code {
      case .limitExceeded, .familyDropped, .alreadyExists, .invalidArgument: break
      default: history.fault = history.fault ?? "\(operation.map { "\($0.kind)" } ?? "the end") threw \(error)"
      }
    }
    if let operation, lie?(operation, flushCount) == true {
      answer = SequenceAnswer(isVerbose: isVerbose)
      answer.add(nil)
    }
    history.answers.append(answer.hash)
    if isVerbose { history.texts.append(answer.text) }
  }

  private func perform(_ operation: SequenceOperation, _ answer: inout SequenceAnswer) throws(EngineError) {
    switch operation {
    case .put, .delete, .deleteRange, .merge, .putStamped, .putOnce, .removeOnce, .batch, .fill, .refusal:
      try write(operation, &answer)
    case .get, .contains, .multiGet, .scan: try read(operation, &answer)
    case .openCursor, .moveCursor, .closeCursor: try useCursor(operation, &answer)
    case .takeSnapshot(let slot):
      snapshots[slot] = engine.snapshot()
      answer.add(snapshots[slot]?.sequence.value ?? 0)
    case .releaseSnapshot(let slot): snapshots[slot] = nil
    case .sync: try engine.sync()
    case .flush:
      flushCount += 1
      try engine.flush()
    case .compact(let slot, let from, let to):
      guard let family = family(slot, &answer) else { return }
      // A range that ends before it begins is refused.
      if let from, let to, to.bytes.lexicographicallyPrecedes(from.bytes) {
        try engine.compact(family: family, from: to.bytes, to: from.bytes)
      } else {
        try engine.compact(family: family, from: from?.bytes, to: to?.bytes)
      }
    case .createFamily(let slot):
      let family = try engine.createFamily(
        "family \(slot)", options: FamilyOptions(mergeOperator: EngineSetting.mergeOperator(familySlot: slot)))
      families[slot] = family
      answer.add(UInt64(family.id.value))
    case .dropFamily(let slot):
      guard let family = family(slot, &answer) else { return }
      try engine.dropFamily(family)
    case .reopen: try reopen(&answer)
    default: try useTransaction(operation, &answer)
    }
  }

  /// Something that must not be, whatever the settings are.
  func note(fault: String) { history.fault = history.fault ?? fault }

  /// Counts the outcome of a transaction.
  func note(_ outcome: HeldTransaction.Outcome) { history.outcomes[outcome, default: 0] += 1 }

  /// Returns the family of a slot, which may be dropped. If there never was one, returns `nil` and adds that to the
  /// answer.
  func family(_ slot: Int, _ answer: inout SequenceAnswer) -> ColumnFamily? {
    if families[slot] == nil { answer.add(word: "no-family") }
    return families[slot]
  }

  private func releaseAll() {
    for slot in cursors.indices { cursors[slot] = nil }
    for slot in snapshots.indices { snapshots[slot] = nil }
    for slot in transactions.indices { transactions[slot] = nil }
  }

  private func reopen(_ answer: inout SequenceAnswer) throws(EngineError) {
    releaseAll()
    for slot in families.indices { families[slot] = nil }
    world.watch.detach()
    try engine.close()
    reopenCount += 1
    engine = try Engine.open(
      at: "/db", options: setting.options(reopened: reopenCount), environment: world.environment)
    for family in engine.families.sorted(by: { $0.id < $1.id }) {
      answer.add(name: family.name)
      answer.add(UInt64(family.id.value))
      let slot = family.id == 0 ? 0 : family.name.utf8.last.map { Int($0) - 0x30 } ?? 0
      families[slot] = family
    }
    answer.add(engine.visibleSequence.value)
  }

  /// Adds the final content, read in both directions, to the answer; verifies the database, and closes it.
  private func finish(_ answer: inout SequenceAnswer) throws(EngineError) {
    for family in engine.families.sorted(by: { $0.id < $1.id }) {
      answer.add(name: family.name)
      for isForward in [true, false] {
        var cursor = try engine.cursor(in: family)
        if isForward { try cursor.seekToFirst() } else { try cursor.seekToLast() }
        while cursor.isValid {
          answer.add(cursor.keyBytes)
          answer.add(cursor.valueBytes)
          if isForward { try cursor.next() } else { try cursor.previous() }
        }
      }
    }
    answer.add(engine.visibleSequence.value)
    let faults = try engine.verify().faults
    if !faults.isEmpty { history.fault = history.fault ?? "verify found \(faults)" }
    releaseAll()
    world.watch.detach()
    try engine.close()
  }
}
