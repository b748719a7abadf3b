import EngineTestSupport
import Synchronization

@testable import VarveEngine

/// A deterministic run from which crash points are taken.
struct CrashScript {
  let seed: UInt64
  let operationCount: Int
  var mix = Mix.everything

  /// The frequencies with which the kinds are drawn.
  enum Mix {
    case everything
    /// Almost only the engine itself flushes, and everything is logged, so that segments of the log are recycled.
    case turns
  }

  /// The kinds of operations, with their frequencies in one thousand.
  enum Kind: String, CaseIterable {
    case process, power, powerEvery, unlogged, large, sync, step, run, time, flush, compact, family, snapshot, reopen
    case check, rangeDelete, merge, singleDelete, transaction, conflict

    func weight(in mix: Mix) -> Int {
      switch (mix, self) {
      case (.turns, .large): 60
      case (.turns, .unlogged), (.turns, .flush), (.turns, .compact), (.turns, .family), (.turns, .reopen): 1
      default: weight
      }
    }

    private var weight: Int {
      switch self {
      case .process: 228
      case .power: 110
      case .powerEvery: 70
      case .unlogged: 80
      case .large: 16
      case .sync: 24
      case .step: 130
      case .run, .time, .snapshot: 40
      case .flush, .check: 22
      case .compact: 20
      case .family: 28
      case .reopen: 18
      case .rangeDelete, .merge, .singleDelete, .transaction: 23
      case .conflict: 20
      }
    }
  }

  /// The summary of a run.
  struct Summary: Equatable {
    var counts: [String: Int] = [:]
    var traceHash: UInt64 = 0
    var diskOperations = 0
    var batchCount = 0
    /// The number of changes of tables before and after which the content was compared.
    var installCount = 0
  }

  /// Runs the script. Throws if there is an error even without a crash.
  func run(
    on disk: CrashFileSystem, _ driver: CrashDriver, afterEach: (CrashDriver) -> Void = { _ in }
  ) throws -> Summary {
    var summary = Summary()
    var random = SeededRandom(seed: seed ^ 0x5eed)
    let kinds = Kind.allCases.flatMap { Array(repeating: $0, count: $0.weight(in: mix)) }
    try driver.open()
    try driver.makePair()
    for operation in 0..<operationCount {
      let kind = kinds[random.below(kinds.count)]
      summary.counts[kind.rawValue, default: 0] += 1
      do { try Self.perform(kind, driver) } catch {
        throw CrashFailure("operation \(operation) (\(kind.rawValue)) of the script of seed \(seed): \(error)")
      }
      afterEach(driver)
    }
    try driver.close()
    summary.traceHash = disk.traceHash
    summary.diskOperations = disk.operationCount
    summary.batchCount = driver.model.batches.count
    summary.installCount = driver.installCount
    return summary
  }

  private static func perform(_ kind: Kind, _ driver: CrashDriver) throws {
    switch kind {
    case .process: try driver.write(.process)
    case .power: try driver.write(.power)
    case .powerEvery: try driver.write(driver.drawPowerEvery())
    case .unlogged: try driver.write(.none)
    case .large: try driver.write(.process, .large)
    case .sync: try driver.sync()
    case .step: driver.stepBackground()
    case .run: driver.runBackground()
    case .time: driver.passTime()
    case .flush: try driver.flush()
    case .compact: try driver.compact()
    case .family: try driver.changeFamily()
    case .snapshot: try driver.useSnapshot()
    case .reopen: try driver.reopen()
    case .check: try driver.check()
    case .rangeDelete: try driver.write(.process, .rangeDelete)
    case .merge: try driver.write(driver.drawDurability(), .merge)
    case .singleDelete: try driver.write(.process, .singleDelete)
    case .transaction: try driver.write(driver.drawDurability(), .transaction)
    case .conflict: try driver.write(.process, .conflict)
    }
  }
}

/// A run of the script, with crash points of some of its operations.
struct CrashRecording: Sendable {
  /// The disk with an operation in progress, and the guarantees at that moment.
  struct Point: Sendable {
    let crash: CrashPoint
    let guarantee: CrashGuarantee
  }

  let seed: UInt64
  let points: [Point]
  let model: CrashModel
  let summary: CrashScript.Summary
  /// The result of the same script on a disk without an observer.
  let plainSummary: CrashScript.Summary
  /// The number of disk operations of each kind.
  let operationKinds: [String: Int]
  /// The number of bytes of cold families that were logged again to keep the log within its bound.
  var bytesLoggedAgain: UInt64 = 0

  /// Runs the script twice: once to count its operations, and once to take a crash point in each range of `stride`
  /// operations, at a random position.
  static func make(
    seed: UInt64, operationCount: Int, pointLimit: Int, mix: CrashScript.Mix = .everything, mapsFiles: Bool = true
  ) throws -> CrashRecording {
    let script = CrashScript(seed: seed, operationCount: operationCount, mix: mix)
    let first = CrashFileSystem(seed: seed, mapsFiles: mapsFiles)
    let counted = CrashDriver(first, seed: seed)
    if mix == .turns { counted.extraOneIn = 40 }
    let plain = try script.run(on: first, counted)
    let stride = max(1, (plain.diskOperations + pointLimit - 1) / pointLimit)
    var random = SeededRandom(seed: seed &+ 1)
    let chosen = Set(
      Swift.stride(from: 1, through: plain.diskOperations, by: stride).map { $0 + random.below(stride) })
    let disk = CrashFileSystem(seed: seed, mapsFiles: mapsFiles)
    let driver = CrashDriver(disk, seed: seed)
    driver.extraOneIn = counted.extraOneIn
    let found = Mutex(Collected())
    let progress = driver.shared
    disk.observe { operation, capture in
      let point = chosen.contains(operation.number) ? Point(crash: capture(), guarantee: progress.guarantee) : nil
      found.withLock { found in
        found.kinds[operation.kind.rawValue, default: 0] += 1
        if let point { found.points.append(point) }
      }
    }
    let summary = try script.run(on: disk, driver)
    disk.observe(nil)
    let collected = found.withLock { $0 }
    return CrashRecording(
      seed: seed, points: collected.points, model: driver.model, summary: summary, plainSummary: plain,
      operationKinds: collected.kinds, bytesLoggedAgain: driver.bytesLoggedAgain)
  }

  private struct Collected: Sendable {
    var points: [Point] = []
    var kinds: [String: Int] = [:]
  }
}
