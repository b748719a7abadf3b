import EngineTestSupport

@testable import VarveEngine

/// One crash of a recorded run, the recovery of the engine, and the crashes after that.
struct CrashTrial {
  let recording: CrashRecording
  let point: CrashRecording.Point
  let policy: CrashPolicy
  let seed: UInt64
  /// Whether the recovery is crashed at each of its operations, instead of three.
  let isExhaustive: Bool

  /// The counts of a trial.
  struct Count {
    var recoveries = 0
    var recoveryCrashes = 0
  }

  /// Runs the trial. Throws `CrashFailure` with everything that is needed to reproduce it.
  func run() throws -> Count {
    var random = SeededRandom(seed: seed)
    let imageSeed = random.next()
    var count = Count()
    var stage = "the image"
    do {
      let disk = point.crash.image(seed: imageSeed, policy: policy)
      let driver = makeDriver(disk, seed: random.next())
      try driver.open()
      count.recoveries += 1
      let recoveryOperations = disk.operationCount
      let found = try driver.checkRecovered(after: policy)
      stage = "the second crash"
      try crashAgain(driver, recoveryOperations, &random)
      count.recoveries += 1
      let operations =
        isExhaustive
        ? Array(1...recoveryOperations) : (0..<3).map { _ in 1 + random.below(recoveryOperations) }
      for operation in operations {
        stage = "the crash of the recovery at its operation \(operation) of \(recoveryOperations)"
        try crashRecovery(at: operation, imageSeed, found, &random)
        count.recoveryCrashes += 1
        count.recoveries += 1
      }
      return count
    } catch {
      throw CrashFailure(describe(error, stage: stage, imageSeed: imageSeed))
    }
  }

  private func makeDriver(_ disk: CrashFileSystem, seed: UInt64) -> CrashDriver {
    let model = CrashModel(batches: Array(recording.model.batches.prefix(point.guarantee.submitted)))
    return CrashDriver(disk, model: model, guarantee: point.guarantee, seed: seed)
  }

  private static func drawPolicy(_ random: inout SeededRandom) -> CrashPolicy {
    CrashPolicy.allCases[random.below(CrashPolicy.allCases.count)]
  }

  /// Makes ten more writes, crashes at one of their operations, and checks everything again.
  private func crashAgain(_ driver: CrashDriver, _ done: Int, _ random: inout SeededRandom) throws {
    let disk = driver.disk
    disk.crashAfter(operation: done + 1 + random.below(30))
    do {
      try driver.makePair()
      for _ in 0..<10 {
        try driver.write(driver.drawDurability(), driver.drawShape())
        if random.oneIn(3) { driver.stepBackground() }
        if random.oneIn(30) { try driver.flush() }
      }
    } catch {
      guard disk.hasCrashed else { throw error }
    }
    disk.crash()
    let guarantee = driver.shared.guarantee
    let model = driver.model
    driver.abandon()
    let secondPolicy = Self.drawPolicy(&random)
    let image = disk.crashImage(seed: random.next(), policy: secondPolicy)
    let second = CrashDriver(image, model: model, guarantee: guarantee, seed: random.next())
    do {
      try second.open()
      _ = try second.checkRecovered(after: secondPolicy)
      try second.makePair()
      try second.write(.process)
      try second.reopen()
      second.abandon()
    } catch {
      throw CrashFailure("\(error) (second policy \(secondPolicy))\n\(Self.list(image))")
    }
  }

  /// Opens the same image and cuts the recovery short; the next recovery must find what the first one would have
  /// found.
  private func crashRecovery(
    at operation: Int, _ imageSeed: UInt64, _ found: CrashModel.Found, _ random: inout SeededRandom
  ) throws {
    let disk = point.crash.image(seed: imageSeed, policy: policy)
    disk.crashAfter(operation: operation)
    let cut = makeDriver(disk, seed: random.next())
    do { try cut.open() } catch {
      guard disk.hasCrashed else { throw error }
    }
    disk.crash()
    cut.abandon()
    let secondPolicy = Self.drawPolicy(&random)
    let image = disk.crashImage(seed: random.next(), policy: secondPolicy)
    let driver = makeDriver(image, seed: random.next())
    do {
      try driver.open()
      let again = try driver.checkRecovered(after: policy)
      driver.abandon()
      guard again == found else {
        let lost = found.present.subtracting(again.present).sorted()
        let gained = again.present.subtracting(found.present).sorted()
        throw CrashFailure("recovered again: batches \(lost) are gone, \(gained) came back")
      }
    } catch {
      throw CrashFailure("\(error) (second policy \(secondPolicy))\n\(Self.list(image))")
    }
  }

  private func describe(_ error: any Error, stage: String, imageSeed: UInt64) -> String {
    let operation = point.crash.operation.map { "\($0)" } ?? "none"
    return """
      \(error)
      at \(stage); script seed \(recording.seed), operation \(operation), policy \(policy), trial seed \(seed)
      promised: \(point.guarantee.submitted) begun, \(point.guarantee.process) process, \(point.guarantee.power) power, \
      \(point.guarantee.unlogged) flushed
      files of the image:
      \(Self.list(point.crash.image(seed: imageSeed, policy: policy)))
      """
  }

  static func list(_ disk: CrashFileSystem) -> String {
    guard let names = try? disk.list(CrashDriver.path) else { return "no directory" }
    return names.map { name in
      let size = (try? disk.attributes("\(CrashDriver.path)/\(name)"))?.size ?? 0
      return "  \(name) \(size)"
    }.joined(separator: "\n")
  }
}
