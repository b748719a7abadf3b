import EngineTestSupport
import Synchronization

@testable import VarveEngine

/// A fixed script on a disk that fails at a chosen call, and the model of what the database must hold.
///
/// The script runs on one thread: it steps the background jobs and advances the clock itself.
final class FaultScript {
  typealias Change = ModelDatabase.Change

  let fileSystem: FaultInjectingFileSystem
  private let executors = Mutex<[SteppedExecutor]>([])
  let clock = ManualClock(1_000_000_000)
  private(set) var engine: Engine
  private(set) var model = ModelDatabase()
  /// The errors that were thrown, in order.
  var errors: [EngineError] = []
  private var random: SeededRandom
  private var number = 0

  init(_ base: any FileSystem, mapsFiles: Bool, seed: UInt64 = 1) throws {
    random = SeededRandom(seed: seed)
    fileSystem = FaultInjectingFileSystem(base, mapsFiles: mapsFiles)
    engine = try Engine.open(
      at: "/db", options: Self.options, environment: Self.environment(fileSystem, executors, clock))
    _ = try engine.createFamily("other")
    model.createFamily("other")
    for _ in 0..<10 { write(.power) }
    errors = []
  }

  static let options: EngineOptions = {
    var options = DamageFixture.options()
    options.cacheSize = 64 << 10
    return options
  }()

  private static let noise: [UInt8] = {
    var random = SeededRandom(seed: 9)
    return (0..<64 << 10).map { _ in UInt8(truncatingIfNeeded: random.next()) }
  }()

  private static func environment(
    _ fileSystem: any FileSystem, _ executors: borrowing Mutex<[SteppedExecutor]>, _ clock: ManualClock
  ) -> EngineEnvironment {
    let numbers = Mutex(SeededRandom(seed: 5))
    let executor = SteppedExecutor(seed: 5, clock: clock)
    executors.withLock { $0.append(executor) }
    return EngineEnvironment(
      fileSystem: fileSystem, clock: clock, random: { numbers.withLock { $0.next() } }, makeExecutor: { _ in executor })
  }

  private var executor: SteppedExecutor {
    guard let last = executors.withLock({ $0.last }) else { fatalError("the script has opened no engine") }
    return last
  }

  // MARK: - Steps

  /// Runs the script: writes, flushes, a compaction, families that are created and dropped, batches of all
  /// durabilities, and a reopening if no call failed before it.
  func run(reopens: Bool = false) {
    for step in 0..<36 {
      write([.process, .process, .power, .powerEvery(nanoseconds: 1_000_000), .process, .none][step % 6])
      if step % 9 == 4 { runBackground() }
      switch step {
      case 7, 27: attempt { () throws(EngineError) in try engine.flush() }
      case 10, 25: createFamily()
      case 15: attempt { () throws(EngineError) in try engine.compact() }
      case 18: if reopens { reopenInScript() }
      case 20, 32: dropFamily()
      case 29: attempt { () throws(EngineError) in try engine.sync() }
      default: break
      }
    }
  }

  /// Writes one batch, to two families at least.
  private func write(_ durability: Durability) {
    number += 1
    var batch = WriteBatch()
    var changes: [Change] = []
    for family in engine.families where family.name != "extra" || number % 2 == 0 {
      for _ in 0..<2 {
        let key = DamageFixture.key(random.below(40))
        // Incompressible values, so that memtables and segments fill up.
        let start = random.below(Self.noise.count - 4_000)
        let value = Array(Self.noise[start..<start + 1_000 + random.below(3_000)])
        do throws(EngineError) { try batch.put(key, value, in: family) } catch { errors.append(error) }
        changes.append(.put(family.name, key, value))
      }
    }
    do throws(EngineError) {
      try engine.write(batch, durability: durability)
      model.write(changes)
    } catch {
      errors.append(error)
      // The batch is visible. Another test covers its possible loss with the power.
      if error.code == .outcomeUnknown { model.write(changes) }
    }
  }

  private func createFamily() {
    if engine.families.contains(where: { $0.name == "extra" }) { return }
    attempt { () throws(EngineError) in
      _ = try engine.createFamily("extra")
      model.createFamily("extra")
    }
  }

  private func dropFamily() {
    guard let family = try? engine.family(named: "extra") else { return }
    attempt { () throws(EngineError) in
      try engine.dropFamily(family)
      model.dropFamily("extra")
    }
  }

  private func reopenInScript() {
    // Commits that were not logged would be lost if the close could not flush them.
    attempt { () throws(EngineError) in try engine.flush() }
    guard errors.isEmpty else { return }
    attempt { () throws(EngineError) in try engine.close() }
    // The opening fails where the fault is; after the faults are cleared, an engine must open.
    while true {
      do throws(EngineError) {
        return try openAgain()
      } catch {
        errors.append(error)
        fileSystem.clear()
      }
    }
  }

  func attempt(_ body: () throws(EngineError) -> Void) {
    do throws(EngineError) { try body() } catch { errors.append(error) }
  }

  func runBackground() {
    clock.advance(20_000_000)
    executor.runAll()
  }

  /// Advances the clock so far that every delayed retry has run.
  func waitForRetries() {
    for _ in 0..<4 {
      clock.advance(6_000_000_000)
      executor.runAll()
    }
  }

  /// Returns the indexes of the calls, of `count`, that a suite makes fail one after another. From scale 8 on, it is
  /// every call.
  static func sample(_ count: Int) -> [Int] {
    let stride = TestScale.value >= 8 ? 1 : max(1, count / (80 * TestScale.value))
    return Array(Swift.stride(from: 0, to: count, by: stride))
  }

  /// Returns how many calls of these kinds the script makes.
  static func callCount(_ kinds: Set<Fault.Kind>, mapsFiles: Bool, reopens: Bool = false, suffix: String = "") throws
    -> Int
  {
    let script = try FaultScript(MemoryFileSystem(), mapsFiles: mapsFiles)
    // A fault that is never reached, and whose `skip` counts the calls.
    script.fileSystem.inject(Fault(kinds, pathSuffix: suffix, skip: 1_000_000))
    script.run(reopens: reopens)
    guard script.errors.isEmpty else { throw script.errors[0] }
    let count = 1_000_000 - script.fileSystem.skipsLeft
    try script.engine.close()
    return count
  }

  /// Opens the closed database again.
  func openAgain() throws(EngineError) {
    engine = try Engine.open(
      at: "/db", options: Self.options, environment: Self.environment(fileSystem, executors, clock))
  }

  /// Closes the engine, ignores an error, and opens it on a disk without faults.
  func reopen() throws {
    try? engine.close()
    fileSystem.clear()
    try openAgain()
  }

  // MARK: - Checks

  /// Returns a description of every row that differs from the model, found by gets and by a scan.
  func mismatches() throws -> [String] {
    var found: [String] = []
    let names = engine.families.map(\.name).sorted()
    if names != model.state.families.keys.sorted() { found.append("the families are \(names)") }
    for family in engine.families {
      guard let rows = model.state.families[family.name] else { continue }
      var cursor = try engine.cursor(in: family)
      try cursor.seekToFirst()
      var scanned: [ModelDatabase.Row] = []
      while cursor.isValid {
        scanned.append(.init(cursor.keyBytes, cursor.valueBytes))
        try cursor.next()
      }
      if scanned != rows { found.append("\(family.name): \(scanned.count) rows scanned, \(rows.count) expected") }
      for row in rows where try engine.get(row.key, in: family) != row.value {
        found.append("\(family.name): \(String(decoding: row.key, as: UTF8.self))")
      }
    }
    return found
  }
}
