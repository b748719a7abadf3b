import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of random work of a writer, whose background jobs are stepped in an order drawn from the seed, and of
/// followers that catch up at random times.
///
/// Each state that they see is the writer's at that moment, and snapshots keep theirs.
struct FollowModelTests {
  private struct Held {
    let snapshot: EngineSnapshot
    let content: [String: [[UInt8]: [UInt8]]]
  }

  private final class Run {
    let seed: UInt64
    var random: SeededRandom
    var fixture: FollowFixture
    let path: String
    var followers: [Follower] = []
    var held: [Held] = []
    var serial: UInt64 = 0

    init(seed: UInt64, _ fileSystem: any FileSystem, at path: String) throws {
      self.seed = seed
      self.path = path
      random = SeededRandom(seed: seed)
      fixture = try FollowFixture(fileSystem, at: path, seed: seed)
    }

    func step() throws {
      switch random.below(100) {
      case 0..<55: try write()
      case 55..<70: for _ in 0..<random.below(20) { fixture.executor.step() }
      case 70..<82: try look()
      case 82..<85: try fixture.writer.flush()
      case 85: try fixture.writer.compact()
      case 86..<89: try turnFamilies()
      case 89..<91: try reopen()
      case 91..<94: if followers.count < 3 { followers.append(try fixture.follow()) }
      case 94: if !followers.isEmpty { try leave() }
      case 95..<98: try fixture.writer.sync()
      default: try checkHeld()
      }
    }

    private func write() throws {
      for _ in 0..<1 + random.below(30) {
        serial += 1
        var batch = WriteBatch()
        for family in fixture.writer.families where random.below(2) == 0 {
          try change(family, &batch)
        }
        try fixture.writer.write(batch, durability: random.below(10) == 0 ? .power : .process)
      }
    }

    private func change(_ family: ColumnFamily, _ batch: inout WriteBatch) throws {
      let key = Array("key\(10 + random.below(40))".utf8)
      switch random.below(20) {
      case 0..<3: try batch.delete(key, in: family)
      case 3:
        let end = Array("key\(10 + random.below(40))".utf8)
        let isUp = key.lexicographicallyPrecedes(end)
        try batch.deleteRange(from: isUp ? key : end, to: isUp ? end : key, in: family)
      // An operand that a reader applied twice would be detected.
      case 4..<9 where family.id != 0: try batch.merge(key, [UInt8(truncatingIfNeeded: serial)], in: family)
      default:
        let size = random.below(50) == 0 ? 9_000 : 8 + random.below(300)
        try batch.put(key, [UInt8](repeating: UInt8(truncatingIfNeeded: serial), count: size), in: family)
      }
    }

    private func look() throws {
      guard !followers.isEmpty else { return }
      let follower = followers[random.below(followers.count)]
      #expect(try fixture.isSame(follower), "seed \(seed), after \(serial) batches")
      guard held.count < 4, random.below(3) == 0 else { return }
      let snapshot = follower.engine.snapshot()
      held.append(Held(snapshot: snapshot, content: try FollowFixture.content(follower.engine, snapshot)))
      heldOf.append(follower)
    }

    private var heldOf: [Follower] = []

    func checkHeld() throws {
      for (held, follower) in zip(held, heldOf) {
        var content = try FollowFixture.content(follower.engine, held.snapshot)
        // Families that were created later are empty at that time; those that were dropped cannot be read.
        content = content.filter { held.content[$0.key] != nil }
        let expected = held.content.filter { content[$0.key] != nil }
        // A family that was created again under the name of a dropped one is another family.
        let same = follower.engine.families.filter { $0.name == "default" }.map(\.name)
        for name in same { #expect(content[name] == expected[name], "seed \(seed), after \(serial) batches") }
      }
      if random.below(3) == 0 {
        held = []
        heldOf = []
      }
    }

    private func turnFamilies() throws {
      let families = fixture.writer.families.filter { $0.id != 0 }
      if let family = families.first, random.below(2) == 0 {
        try fixture.writer.dropFamily(family)
      } else if families.count < 4 {
        let name = "f\(random.below(4))"
        if !families.contains(where: { $0.name == name }) {
          _ = try fixture.writer.createFamily(name, options: FamilyOptions(mergeOperator: "varve.append"))
        }
      }
    }

    private func reopen() throws {
      try fixture.writer.close()
      serial += 1
      fixture = try FollowFixture(fixture.fileSystem, at: path, seed: seed &+ serial)
    }

    private func leave() throws {
      let index = random.below(followers.count)
      guard !heldOf.contains(where: { $0 === followers[index] }) else { return }
      try followers.remove(at: index).close()
    }

    func end() throws {
      for follower in followers { #expect(try fixture.isSame(follower), "seed \(seed), at the end") }
      held = []
      heldOf = []
      for follower in followers { try follower.close() }
      #expect(try fixture.writer.verify().faults.isEmpty)
      try fixture.writer.close()
    }
  }

  private static var seeds: ClosedRange<UInt64> { 1...UInt64(8 * TestScale.value) }

  @Test func `followers of files in memory see what the writer wrote`() throws {
    for seed in Self.seeds {
      let run = try Run(seed: seed, MemoryFileSystem(), at: "/db")
      for _ in 0..<250 { try run.step() }
      try run.end()
    }
  }

  @Test func `followers that are notified see what the writer wrote`() throws {
    for seed in Self.seeds {
      let directory = try TemporaryDirectory()
      let run = try Run(seed: seed + 1_000, PosixFileSystem(), at: directory.path + "/db")
      for _ in 0..<250 { try run.step() }
      try run.end()
    }
  }
}
