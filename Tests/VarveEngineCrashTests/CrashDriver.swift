import EngineTestSupport
import Synchronization

@testable import VarveEngine

/// An engine on a simulated disk that is driven by a seed, and its model.
///
/// Everything runs on one thread: background jobs run only when the driver steps them.
final class CrashDriver {
  static let path = "/db"
  /// The values that `.powerEvery` is drawn from: shorter and longer than the time that passes in one step, and one
  /// that is never reached.
  private static let powerEvery: [UInt64] = [1_000_000, 3_000_000, 30_000_000, 60_000_000_000]

  let disk: CrashFileSystem
  let clock: ManualClock
  /// The present guarantee, which observers of the disk read while a call is in progress.
  let shared: CrashProgress
  var model: CrashModel
  private(set) var executor: SteppedExecutor
  var random: SeededRandom
  /// The check of the content before and after background jobs.
  private let watch: ContentWatch
  private var opened: Engine? {
    didSet { if let opened { watch.attach(opened) } }
  }
  private var snapshots: [(snapshot: EngineSnapshot, present: Set<Int>)] = [] {
    didSet { watch.setSnapshots(snapshots.map(\.snapshot)) }
  }
  /// The batches that are in the database, as far as the driver knows.
  var present: Set<Int> = []
  /// The `.powerEvery` batches that no sync is known to have covered, and when a timer must have synced each.
  var timed: [(number: Int, due: UInt64)] = []
  /// One batch in so many also writes to the third family.
  var extraOneIn = 3
  /// The number of commits that reported a failed sync.
  private(set) var unknownOutcomes = 0
  private var loggedAgainBefore: UInt64 = 0

  init(
    _ disk: CrashFileSystem, model: CrashModel = CrashModel(), guarantee: CrashGuarantee = CrashGuarantee(),
    seed: UInt64
  ) {
    self.disk = disk
    self.model = model
    random = SeededRandom(seed: seed)
    watch = ContentWatch(seed: seed, oneIn: 4)
    clock = ManualClock(1_000_000)
    executor = SteppedExecutor(seed: 0, clock: clock)
    shared = CrashProgress(guarantee)
  }

  static let options: EngineOptions = {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.cacheSize = 1 << 20
    options.logSegmentSize = 64 << 10
    options.blockSize = 4 << 10
    options.mergeOperators = [ChainOperator()]
    options.defaultFamilyOptions = CrashBatch.Role.main.options
    return options
  }()

  var engine: Engine {
    guard let opened else { fatalError("the driver has no engine: call open first") }
    return opened
  }

  func family(_ role: CrashBatch.Role) throws -> ColumnFamily { try engine.family(named: role.name) }

  // MARK: Opening and closing

  func open() throws {
    executor = SteppedExecutor(seed: random.next(), clock: clock, watch: watch)
    let numbers = Mutex(SeededRandom(seed: random.next()))
    let environment = EngineEnvironment(
      fileSystem: disk, clock: clock, random: { numbers.withLock { $0.next() } },
      makeExecutor: { [executor] _ in executor })
    let failures = disk.failedSyncCount
    let result = Result { try Engine.open(at: Self.path, options: Self.options, environment: environment) }
    // If a sync failed that opening needs, the engine did not open and guarantees nothing.
    if case .failure = result, disk.failedSyncCount > failures, !disk.hasCrashed { return try open() }
    opened = try result.get()
  }

  /// The number of bytes that all engines so far have logged again to keep the log within its bound.
  var bytesLoggedAgain: UInt64 { loggedAgainBefore + (opened?.core.pipeline.bytesLoggedAgain ?? 0) }

  /// The oldest segment of the log that is kept.
  var oldestSegment: FileNumber { engine.core.pipeline.log.oldestNumber }

  /// Handles the error of a call that met a failed sync.
  ///
  /// Returns true if the call changed nothing, because the next segment could not be created. Otherwise everything is
  /// durable nevertheless: the log continued in a new segment.
  func isUndone(_ error: any Error, after failures: Int) throws -> Bool {
    guard !disk.hasCrashed, disk.failedSyncCount > failures, engine.core.pipeline.poisonError == nil,
      let error = error as? EngineError
    else { throw error }
    if error.code == .inputOutput { return true }
    guard error.code == .outcomeUnknown else { throw error }
    guard engine.durableSequence == engine.visibleSequence else {
      throw CrashFailure("durable up to \(engine.durableSequence) of \(engine.visibleSequence) after a restart")
    }
    unknownOutcomes += 1
    return false
  }

  /// Creates the family that every batch writes to, unless an earlier run created it.
  func makePair() throws {
    if engine.families.contains(where: { $0.name == CrashBatch.Role.pair.name }) { return }
    _ = try engine.createFamily(CrashBatch.Role.pair.name, options: CrashBatch.Role.pair.options)
  }

  /// Closes the engine, which makes batches that were not logged durable, too.
  func close() throws {
    snapshots = []
    loggedAgainBefore = bytesLoggedAgain
    try checkWatch()
    watch.detach()
    try engine.close()
    opened = nil
    shared.update { guarantee in
      guarantee.process = guarantee.submitted
      guarantee.power = guarantee.submitted
      guarantee.unlogged = guarantee.submitted
    }
  }

  /// Abandons the engine after a crash; every call on the disk fails from now on.
  func abandon() {
    snapshots = []
    watch.detach()
    try? opened?.close()
    opened = nil
  }

  // MARK: Checks

  /// The number of changes of tables whose content was compared.
  var installCount: Int { watch.installCount }

  /// Checks that no background work changed what readers see. After a power loss, this cannot be checked.
  func checkWatch() throws {
    if let problem = watch.problem, !disk.hasCrashed { throw CrashFailure(problem) }
  }

  /// Compares the content with the model after a crash. What is there now must stay.
  func checkRecovered(after policy: CrashPolicy) throws -> CrashModel.Found {
    try checkWatch()
    let guarantee = shared.guarantee
    let found = try model.check(engine, guarantee, logged: guarantee.logged(after: policy))
    present = found.present
    shared.update { guarantee in
      guarantee.gone.formUnion((1..<(guarantee.submitted + 1)).filter { !found.present.contains($0) })
      guarantee.process = guarantee.submitted
      guarantee.power = guarantee.submitted
      guarantee.unlogged = guarantee.submitted
      if found.generation != CrashGuarantee.generation(after: guarantee.familyChanges) { guarantee.familyChanges += 1 }
      guarantee.familyChangesBegun = guarantee.familyChanges
    }
    return found
  }

  /// Compares the content with the model when there was no crash: every batch must be there.
  func check() throws {
    try checkWatch()
    let guarantee = shared.guarantee
    let found = try model.check(engine, guarantee, logged: guarantee.submitted)
    guard found.present == present else {
      let missing = present.subtracting(found.present).sorted()
      throw CrashFailure("without a crash batches \(missing) are gone, \(found.present.count) are there")
    }
  }

  // MARK: Steps

  func sync() throws {
    let failures = disk.failedSyncCount
    do { try engine.sync() } catch { _ = try isUndone(error, after: failures) }
    shared.update { $0.power = $0.submitted }
  }

  func flush() throws {
    try engine.flush()
    didFlush()
  }

  func compact() throws {
    try engine.compact()
    didFlush()
  }

  private func didFlush() {
    shared.update { guarantee in
      guarantee.power = guarantee.submitted
      guarantee.unlogged = guarantee.submitted
    }
  }

  /// Creates the third family, or drops it.
  func changeFamily() throws {
    shared.update { $0.familyChangesBegun += 1 }
    let changes = shared.guarantee.familyChangesBegun
    if let generation = CrashGuarantee.generation(after: changes) {
      let made = try engine.createFamily(CrashBatch.Role.extra.name, options: CrashBatch.Role.extra.options)
      shared.update { $0.familyIDs[generation] = made.id }
    } else {
      try engine.dropFamily(try family(.extra))
    }
    shared.update { $0.familyChanges = changes }
  }

  /// Takes a snapshot, or checks an old one and releases it.
  func useSnapshot() throws {
    if snapshots.count < 3 {
      snapshots.append((engine.snapshot(), present))
    } else {
      let old = snapshots.remove(at: random.below(snapshots.count))
      try model.check(engine, old.snapshot, present: old.present)
    }
  }

  func stepBackground() { for _ in 0..<(1 + random.below(3)) { executor.step() } }

  func runBackground() {
    executor.runAll()
    // Every timer that was due has run.
    let now = clock.now()
    guard let last = timed.filter({ $0.due <= now }).map(\.number).max() else { return }
    timed.removeAll { $0.number <= last }
    shared.update { $0.power = max($0.power, last) }
  }

  func passTime() { clock.advance(UInt64(1 + random.below(12)) * 1_000_000) }

  func reopen() throws {
    try close()
    timed = []
    try open()
    try check()
  }

  func drawDurability() -> Durability {
    switch random.below(5) {
    case 0, 1: .process
    case 2: .power
    case 3: drawPowerEvery()
    default: .none
    }
  }

  /// Returns a durability with a time in which a loss of power may lose the batch.
  func drawPowerEvery() -> Durability {
    .powerEvery(nanoseconds: Self.powerEvery[random.below(Self.powerEvery.count)])
  }

  /// Returns the shape of a batch, which is usually `.drawn`.
  func drawShape() -> Shape {
    let shapes: [Shape] = [.rangeDelete, .merge, .singleDelete, .transaction, .conflict]
    return random.oneIn(2) ? .drawn : shapes[random.below(shapes.count)]
  }

  func draw(_ bound: Int) -> Int { random.below(bound) }
}

/// The guarantees of a run so far, for observers that have no access to the driver.
final class CrashProgress: Sendable {
  private let state: Mutex<CrashGuarantee>
  init(_ guarantee: CrashGuarantee) { state = Mutex(guarantee) }
  var guarantee: CrashGuarantee { state.withLock { $0 } }
  func update(_ body: (inout CrashGuarantee) -> Void) { state.withLock { body(&$0) } }
}
