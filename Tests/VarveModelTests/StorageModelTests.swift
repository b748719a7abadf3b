import EngineTestSupport
import Testing
import VarveTestSupport

@testable import Varve

/// Tests that compare the storages, with random batches: every result must be the same.
///
///     VARVE_TEST_SCALE=50 ./tools/test --filter StorageModelTests
struct StorageModelTests {
  private static let seeds = 1...UInt64(TestScale.count(6))
  private static let stepCount = TestScale.atMost(250)

  /// One of the three storages, with snapshots that were taken at the same steps as those of the others.
  private struct Subject {
    let site: StorageSite
    var backend: any StorageBackend
    var snapshots: [any StorageSnapshot] = []
  }

  @Test func `all storages give the same answers`() throws {
    var steps = 0
    var conflicts = 0
    for seed in Self.seeds {
      do {
        conflicts += try Self.run(seed)
      } catch {
        Issue.record(error, "seed \(seed)")
        return
      }
      steps += Self.stepCount
    }
    print("storages side by side: seeds \(Self.seeds), \(steps) steps, \(conflicts) conflicts")
    #expect(!TestScale.isWhole || conflicts > steps / 100)
  }

  private static func run(_ seed: UInt64) throws -> Int {
    var random = SeededRandom(seed: seed)
    var conflicts = 0
    var subjects = try StorageKind.allCases.map { kind in
      let site = try StorageSite(kind)
      return Subject(site: site, backend: try site.open())
    }
    var families: [StorageFamily] = []
    for name in ["f", "g", "counters"] {
      let options = StorageFamilyOptions(counter: name == "counters" ? .sum : nil)
      let made = try subjects.map { try $0.backend.createFamily(name, options: options) }
      guard Set(made).count == 1 else { throw ContractBroken("family \(name) is \(made)") }
      families += made.prefix(1)
    }
    // Snapshots before this index are not used for checks: whether an unbounded range changes keys past the last one
    // depends on the storage.
    var checkedFrom = 0
    for step in 0..<stepCount {
      switch random.below(20) {
      case 0..<12:
        let batch = drawBatch(families, &random)
        if batch.hasRangeWithoutEnd { checkedFrom = subjects[0].snapshots.count }
        let check = drawCheck(checkedFrom..<subjects[0].snapshots.count, families, &random)
        let outcomes = try subjects.map { try commit(batch, check, $0) }
        guard Set(outcomes).count == 1 else { throw ContractBroken("step \(step): \(outcomes)") }
        conflicts += outcomes[0] == "conflict" ? 1 : 0
      case 12..<15:
        for index in subjects.indices { subjects[index].snapshots.append(try subjects[index].backend.snapshot()) }
      case 15:
        if subjects[0].snapshots.isEmpty { break }
        let location = random.below(subjects[0].snapshots.count)
        if location < checkedFrom { checkedFrom -= 1 }
        for index in subjects.indices { subjects[index].snapshots.remove(at: location) }
      case 16 where random.oneIn(4):
        for index in subjects.indices {
          subjects[index].snapshots = []
          checkedFrom = 0
          try subjects[index].backend.close()
          subjects[index].backend = try subjects[index].site.open()
        }
      default: try compare(subjects, families, step, &random)
      }
    }
    try compare(subjects, families, stepCount, &random)
    for subject in subjects { try subject.site.close(subject.backend) }
    return conflicts
  }

  // MARK: - Drawing

  private static func drawKey(_ random: inout SeededRandom) -> [UInt8] {
    (0..<(1 + random.below(3))).map { _ in [0, 1, 2, 0x7F, 0x80, 0xFF][random.below(6)] }
  }

  private static func drawRange(_ random: inout SeededRandom) -> StorageRange {
    StorageRange(
      lower: random.oneIn(5) ? [] : drawKey(&random), upper: random.oneIn(5) ? nil : drawKey(&random))
  }

  private static func drawBatch(_ families: [StorageFamily], _ random: inout SeededRandom) -> StorageBatch {
    var batch = StorageBatch()
    for _ in 0..<random.below(12) {
      let family = families[random.below(2)]
      switch random.below(12) {
      case 0..<6:
        let value = [UInt8](repeating: UInt8(random.below(256)), count: random.below(random.oneIn(10) ? 2_000 : 40))
        batch.put(drawKey(&random), value, in: family)
      case 6, 7: batch.delete(drawKey(&random), in: family)
      case 8: batch.deleteRange(drawRange(&random), in: family)
      case 9: batch.add(Int64(random.below(100)) - 50, to: drawKey(&random), in: families[2])
      case 10: batch.delete(drawKey(&random), in: families[2])
      default: batch.deleteRange(drawRange(&random), in: families[2])
      }
    }
    return batch
  }

  private struct Check {
    let snapshot: Int
    let keys: [(family: StorageFamily, key: [UInt8])]
    let ranges: [(family: StorageFamily, range: StorageRange)]
  }

  private static func drawCheck(
    _ snapshots: Range<Int>, _ families: [StorageFamily], _ random: inout SeededRandom
  ) -> Check? {
    guard !snapshots.isEmpty, random.oneIn(2) else { return nil }
    return Check(
      snapshot: snapshots.upperBound - 1 - random.below(min(2, snapshots.count)),
      keys: (0..<random.below(4)).map { _ in (families[random.below(3)], drawKey(&random)) },
      ranges: (0..<random.below(2)).map { _ in (families[random.below(3)], drawRange(&random)) })
  }

  // MARK: - Comparison

  /// Returns the outcome of a commit, without its version: the engine assigns one to each change of a batch.
  private static func commit(_ batch: StorageBatch, _ check: Check?, _ subject: Subject) throws -> String {
    do {
      let storageCheck = check.map { check in
        var made = StorageCheck(subject.snapshots[check.snapshot])
        made.keys = check.keys
        made.ranges = check.ranges
        return made
      }
      try subject.backend.commit(batch, check: storageCheck, durability: .process).wait()
      return "done"
    } catch let error as DatabaseError where error.code == .conflict {
      return "conflict"
    }
  }

  private static func compare(
    _ subjects: [Subject], _ families: [StorageFamily], _ step: Int, _ random: inout SeededRandom
  ) throws {
    let range = drawRange(&random)
    let isReverse = random.oneIn(2)
    let (bytes, rows) = (1 + random.below(300), 1 + random.below(12))
    let keys = (0..<8).map { _ in drawKey(&random) }
    let held = subjects[0].snapshots.isEmpty || random.oneIn(2) ? nil : random.below(subjects[0].snapshots.count)
    for family in families {
      let answers = try subjects.map { subject in
        let snapshot = try held.map { subject.snapshots[$0] } ?? subject.backend.snapshot()
        return Answer(
          rows: try Contract.rows(
            snapshot, family, range, isReverse: isReverse, byteLimit: bytes, rowLimit: rows),
          values: try snapshot.values(of: keys, in: family),
          single: try keys.map { try snapshot.value(of: $0, in: family) })
      }
      for (subject, answer) in zip(subjects, answers) where answer != answers[2] || answer.values != answer.single {
        throw ContractBroken("step \(step), \(subject.site.kind), \(family.name): \(answer) is not \(answers[2])")
      }
    }
  }

  private struct Answer: Equatable {
    let rows: [Pair]
    let values: [[UInt8]?]
    let single: [[UInt8]?]
  }
}

extension StorageBatch {
  fileprivate var hasRangeWithoutEnd: Bool {
    var hasOne = false
    forEach { operation, _, _, _ in hasOne = hasOne || operation == .deleteToEnd }
    return hasOne
  }
}
