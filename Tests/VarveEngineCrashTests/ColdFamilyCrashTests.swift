import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// Tests of a power loss between the copy of a cold family's records and the recycling of the segment that they were
/// copied from: at every operation of the disk, and every store to the log.
struct ColdFamilyCrashTests {
  private static let firstSeed: UInt64 = 20_240_805
  private static let operationCount = 1_500
  /// The number of crash points that are tried for each policy. Windows are tried completely.
  private static let pointLimit = 120 * min(TestScale.value, 50)

  /// The operations of the disk from the beginning of a copy until the segment is gone.
  private struct Window: Sendable {
    var operations: ClosedRange<Int>
    var segment: FileNumber
  }

  private struct Recorded: Sendable {
    let seed: UInt64
    var recording: CrashRecording
    var windows: [Window]
  }

  /// Returns where the script copies, found by a separate run: the same seed makes the same operations.
  private static func findWindows(_ seed: UInt64) throws -> [Window] {
    let disk = CrashFileSystem(seed: seed)
    let driver = makeDriver(disk, seed)
    var windows: [Window] = []
    var open: (start: Int, segment: FileNumber)?
    var before = (operations: 0, copied: UInt64(0), oldest: FileNumber(0))
    _ = try CrashScript(seed: seed, operationCount: operationCount, mix: .turns).run(on: disk, driver) { driver in
      if open == nil, driver.bytesLoggedAgain > before.copied { open = (before.operations + 1, before.oldest) }
      if let window = open, driver.oldestSegment > window.segment {
        windows.append(Window(operations: window.start...disk.operationCount, segment: window.segment))
        open = nil
      }
      before = (disk.operationCount, driver.bytesLoggedAgain, driver.oldestSegment)
    }
    return windows
  }

  private static func makeDriver(_ disk: CrashFileSystem, _ seed: UInt64) -> CrashDriver {
    let driver = CrashDriver(disk, seed: seed)
    driver.extraOneIn = 40
    return driver
  }

  private static let recorded: Result<Recorded, any Error> = Result {
    // Not every script copies records before its end, so seeds are tried in turn.
    var seed = firstSeed
    var found = try findWindows(seed)
    while found.isEmpty, seed < firstSeed + 20 {
      seed += 1
      found = try findWindows(seed)
    }
    var windows: [Window] = []
    var count = 0
    for window in found where windows.isEmpty || count + window.operations.count <= pointLimit {
      windows.append(window)
      count += window.operations.count
    }
    let disk = CrashFileSystem(seed: seed)
    let driver = makeDriver(disk, seed)
    let progress = driver.shared
    let points = Mutex<[CrashRecording.Point]>([])
    let chosen = windows.map(\.operations)
    disk.observe { operation, capture in
      guard chosen.contains(where: { $0.contains(operation.number) }) else { return }
      let point = CrashRecording.Point(crash: capture(), guarantee: progress.guarantee)
      points.withLock { $0.append(point) }
    }
    let summary = try CrashScript(seed: seed, operationCount: operationCount, mix: .turns).run(on: disk, driver)
    disk.observe(nil)
    return Recorded(
      seed: seed,
      recording: CrashRecording(
        seed: seed, points: points.withLock { $0 }, model: driver.model, summary: summary, plainSummary: summary,
        operationKinds: [:], bytesLoggedAgain: driver.bytesLoggedAgain),
      windows: windows)
  }

  @Test(arguments: CrashPolicy.allCases)
  func `a crash between copying cold records and reusing their segment loses no durable commit`(policy: CrashPolicy)
    throws
  {
    let recorded = try Self.recorded.get()
    let operations = recorded.windows.reduce(0) { $0 + $1.operations.count }
    #expect(recorded.windows.count >= 1 && operations >= 10)
    #expect(recorded.recording.points.count == operations, "every operation of the windows is a crash point")
    #expect(recorded.recording.bytesLoggedAgain > 0)
    var random = SeededRandom(seed: recorded.seed)
    var failures = 0
    for point in recorded.recording.points where failures < 3 {
      do {
        _ = try CrashTrial(
          recording: recorded.recording, point: point, policy: policy, seed: random.next(), isExhaustive: false
        ).run()
      } catch {
        failures += 1
        Issue.record("\(error)")
      }
    }
    print("cold copies, \(policy.rawValue): \(recorded.windows.count) windows, \(operations) crash points")
  }
}
