import EngineTestSupport
import Synchronization
import Testing
import VarveEngine
import VarveTestSupport

@testable import Varve

/// Tests of a power loss at any disk operation while transactions over several families are committed.
///
/// The script runs once; at its operations (in CI at a sample of them) images of the disk are taken. On each image,
/// the database opens and contains only complete transactions, the first ones, including all that must be durable; it
/// continues with another transaction, and opens again.
///
///     VARVE_TEST_SCALE=5 ./tools/test --filter ObjectCrashTests   # every operation
///
/// The order of a batch's entries comes from dictionaries: `SWIFT_DETERMINISTIC_HASHING=1` makes runs byte-identical.
struct ObjectCrashTests {
  private static let seed: UInt64 = 20_251_122
  private static let transactionCount = 90
  /// From scale 5 on, every operation is tested; below that, a sample.
  private static let pointLimit = TestScale.value >= 5 ? Int.max : TestScale.count(90)

  private struct Point: Sendable {
    let crash: CrashPoint
    let guarantee: CrashedGuarantee
  }

  private struct Recording: Sendable {
    let points: [Point]
    let states: CrashedStates
    let operationCount: Int
    let kinds: [String: Int]
  }

  private static func record(everyNth stride: Int) throws -> Recording {
    let disk = CrashFileSystem(seed: seed)
    let script = ObjectCrashScript(disk, seed: seed)
    let progress = script.progress
    let found = Mutex<(points: [Point], kinds: [String: Int])>(([], [:]))
    disk.observe { operation, capture in
      found.withLock { found in
        found.kinds[operation.kind.rawValue, default: 0] += 1
        guard operation.number % stride == 0 else { return }
        found.points.append(Point(crash: capture(), guarantee: progress.guarantee))
      }
    }
    try script.run(transactionCount: transactionCount)
    disk.observe(nil)
    let (points, kinds) = found.withLock { $0 }
    return Recording(
      points: points, states: script.states, operationCount: disk.operationCount, kinds: kinds)
  }

  private static let recording: Result<Recording, any Error> = Result {
    let plain = try record(everyNth: Int.max)
    let recorded = try record(everyNth: max(1, plain.operationCount / pointLimit))
    guard recorded.operationCount == plain.operationCount else { throw ContractBroken("seed \(seed) gave two runs") }
    return recorded
  }

  @Test func `the crash script uses every kind of disk operation`() throws {
    let recording = try Self.recording.get()
    for kind in ["createFile", "rename", "remove", "syncDirectory", "write", "store", "sync"] {
      #expect(recording.kinds[kind] ?? 0 > 0, "no \(kind)")
    }
    for name in ObjectCrashScript.collections {
      let rows = recording.states.contents.map { $0[name] ?? [:] }
      #expect(rows.count { $0.count > 5 } > Self.transactionCount / 2, "rows of \(name)")
      #expect(rows.count { $0.values.contains { $0.note != nil } } > Self.transactionCount / 2, "metadata of \(name)")
    }
    print(
      "object crash script: \(Self.transactionCount) transactions, \(recording.operationCount) operations of the disk",
      "\(recording.kinds.sorted { $0.key < $1.key }), \(recording.points.count) points")
  }

  @Test(arguments: CrashPolicy.allCases)
  func `a crash leaves a prefix of the transactions, each complete, including all that must be durable`(
    policy: CrashPolicy
  ) throws {
    let recording = try Self.recording.get()
    var counts: [Int] = []
    var lostCount = 0
    var failures = 0
    for (index, point) in recording.points.enumerated() where failures < 3 {
      let seed = Self.seed &* 31 &+ UInt64(index)
      do {
        let count = try Self.trial(point, recording.states, policy, seed)
        counts.append(count)
        lostCount += count < point.guarantee.begun ? 1 : 0
      } catch {
        failures += 1
        Issue.record(error, "point \(index), \(point.crash.operation.map { "\($0)" } ?? ""), \(policy), seed \(seed)")
      }
    }
    print(
      "object crashes, \(policy.rawValue): \(recording.points.count) images, with \(counts.min() ?? 0) to",
      "\(counts.max() ?? 0) transactions, \(lostCount) without the last ones")
    #expect(Set(counts).count > 20 || !TestScale.isWhole)
    #expect(lostCount > 0 || !TestScale.isWhole)
  }

  /// Opens an image, checks it, writes more, and opens it again. Returns how many transactions the crash left.
  private static func trial(
    _ point: Point, _ states: CrashedStates, _ policy: CrashPolicy, _ seed: UInt64
  ) throws -> Int {
    let disk = point.crash.image(seed: seed, policy: policy)
    let (database, backend) = try ObjectCrashScript.open(disk, SteppedExecutor(seed: seed), seed: seed)
    let check = ObjectCrashCheck(states: states, guarantee: point.guarantee, policy: policy)
    let count = try check.run(database, backend)
    let object = CrashedObject(number: -1, text: "after the crash")
    let number = count + 1
    let id = try database.write(label: "\(number)", durability: .power) { tx in
      try tx.set(object, key: number, in: "log", metadata: CrashedNote(tag: "new"))
      return try tx.row(key: number, in: "log")?.id.number
    }
    guard let id, !states.ids[count].contains(id) else {
      throw ContractBroken("row id \(id as Any) was given before the crash")
    }
    guard try backend.engine.verify().faults.isEmpty else { throw ContractBroken("verify finds faults") }
    try database.close()

    let (again, reopened) = try ObjectCrashScript.open(disk, SteppedExecutor(seed: seed), seed: seed &+ 1)
    var content = states.contents[count]
    content["log", default: [:]][number] = CrashedRow(object: object, note: CrashedNote(tag: "new"), id: id)
    var after = CrashedStates()
    for present in states.contents[1..<(count + 1)] { after.add(present, []) }
    after.add(content, [])
    let guarantee = CrashedGuarantee(begun: number, process: number, power: number)
    let found = try ObjectCrashCheck(states: after, guarantee: guarantee, policy: policy).run(again, reopened)
    guard found == number else { throw ContractBroken("\(found) transactions, not \(number)") }
    try again.close()
    return count
  }
}
