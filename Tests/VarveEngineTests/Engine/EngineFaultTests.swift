import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of a whole engine on a file system whose calls fail, each in turn: no acknowledged write is lost, no refused
/// write is there, and no read returns a wrong result.
struct EngineFaultTests {
  /// The calls that fail when a disk is full.
  private static let allocating: Set<Fault.Kind> = [.createFile, .write, .truncate, .createDirectory]

  /// An engine on a disk that fails, and the content that it must have.
  private final class Trial {
    let fileSystem = FaultInjectingFileSystem(MemoryFileSystem())
    var engine: Engine
    /// The acknowledged values, by a key that the families share.
    var content: [[UInt8]: [UInt8]] = [:]
    /// The values of commits whose sync failed: they may or may not be there.
    var unknown: [[UInt8]: [UInt8]] = [:]
    var errors: [EngineError] = []
    private var random: SeededRandom

    init(seed: UInt64) throws {
      random = SeededRandom(seed: seed)
      engine = try Self.open(fileSystem)
      _ = try engine.createFamily("other")
    }

    static func open(_ fileSystem: any FileSystem) throws -> Engine {
      try Engine.open(
        at: DirectoryImage.directory, options: DamageFixture.options(),
        environment: DirectoryImage.environment(fileSystem, seed: 3))
    }

    /// Runs commits, flushes and a compaction, and records the errors.
    func run() throws {
      for step in 0..<60 {
        try write(step % 40, durability: step % 7 == 3 ? .power : .process)
        if step % 12 == 11 { note { () throws(EngineError) in try engine.flush() } }
        if step == 30 { note { () throws(EngineError) in try engine.compact() } }
      }
    }

    /// Writes the same value to two families.
    func write(_ number: Int, durability: Durability) throws {
      let key = DamageFixture.key(number)
      // Incompressible values, so that memtables and segments fill up.
      let value = random.bytes(2_000 + random.below(2_000))
      do throws(EngineError) {
        var batch = WriteBatch()
        try batch.put(key, value)
        try batch.put(key, value, in: engine.family(named: "other"))
        try engine.write(batch, durability: durability)
        content[key] = value
        unknown[key] = nil
      } catch {
        errors.append(error)
        if error.code == .outcomeUnknown { unknown[key] = value }
      }
    }

    private func note(_ body: () throws(EngineError) -> Void) {
      do throws(EngineError) { try body() } catch { errors.append(error) }
    }

    /// Returns a description of every wrong read. An error of a read counts only if reads cannot fail.
    func mismatches() throws -> [String] {
      var found: [String] = []
      for family in [engine.defaultFamily, try engine.family(named: "other")] {
        for number in 0..<40 {
          let key = DamageFixture.key(number)
          let value = try engine.get(key, in: family)
          if value != content[key] && (unknown[key] == nil || value != unknown[key]) {
            found.append("\(family.name) \(number): \(value?.count ?? -1) bytes")
          }
        }
      }
      return found
    }

    func reopen() throws {
      // An error of the close does not matter, but acknowledged writes do.
      try? engine.close()
      engine = try Self.open(fileSystem)
    }
  }

  /// Returns how many calls of these kinds the script makes.
  private static func callCount(_ kinds: Set<Fault.Kind>) throws -> Int {
    let trial = try Trial(seed: 1)
    trial.fileSystem.inject(Fault(kinds, skip: 100_000))
    let before = trial.fileSystem.callCount
    try trial.run()
    #expect(trial.errors.isEmpty)
    #expect(try trial.mismatches() == [])
    try trial.engine.close()
    return trial.fileSystem.callCount - before
  }

  @Test func `on a full disk reads continue, writes fail as a whole, and work continues once there is space`() throws {
    var failed = 0
    for skip in 0..<(try Self.callCount(Self.allocating)) {
      let trial = try Trial(seed: 1)
      trial.fileSystem.inject(Fault(Self.allocating, skip: skip, count: Fault.always, code: .noSpace))
      try trial.run()
      if trial.fileSystem.failureCount == 0 {
        trial.fileSystem.clear()
        try trial.engine.close()
        break
      }
      failed += 1
      #expect(try trial.mismatches() == [], "call \(skip), while the disk is full")
      #expect(trial.errors.allSatisfy { $0.code == .noSpace }, "call \(skip): \(trial.errors.map(\.code))")
      trial.fileSystem.clear()
      trial.errors = []
      // The flush waits for the next attempt, and no longer.
      try trial.engine.flush()
      try trial.run()
      #expect(trial.errors.isEmpty, "call \(skip), when there is space again: \(trial.errors.prefix(2))")
      #expect(try trial.mismatches() == [], "call \(skip), when there is space again")
      try trial.reopen()
      #expect(try trial.mismatches() == [], "call \(skip), after reopening")
      #expect(try trial.engine.verify().faults.isEmpty, "call \(skip)")
      try trial.engine.close()
    }
    print("full disk: \(failed) calls failed in turn")
    #expect(failed > 20)
  }

  @Test(arguments: [1, Fault.always])
  func `whichever call fails, no acknowledged write is lost and no refused write appears`(count: Int) throws {
    var failed = 0
    for skip in 0..<(try Self.callCount(Set(Fault.Kind.allCases))) {
      let trial = try Trial(seed: 1)
      trial.fileSystem.inject(Fault(skip: skip, count: count, writesHalf: skip % 2 == 0))
      try trial.run()
      if trial.fileSystem.failureCount == 0 {
        trial.fileSystem.clear()
        try trial.engine.close()
        break
      }
      failed += 1
      trial.fileSystem.clear()
      #expect(try trial.mismatches() == [], "call \(skip)")
      try trial.reopen()
      #expect(try trial.mismatches() == [], "call \(skip), after reopening")
      #expect(try trial.engine.verify().faults.isEmpty, "call \(skip)")
      trial.errors = []
      try trial.run()
      #expect(trial.errors.isEmpty, "call \(skip), after reopening: \(trial.errors.prefix(2))")
      try trial.engine.close()
    }
    print("failing calls, \(count == 1 ? "once" : "for ever"): \(failed) in turn")
    #expect(failed > 100)
  }

  @Test func `a failed read is an error of its caller, and the next read is right`() throws {
    let trial = try Trial(seed: 1)
    try trial.run()
    try trial.engine.flush()
    try trial.reopen()
    var failed = 0
    for skip in 0..<1_000 {
      let before = trial.fileSystem.failureCount
      trial.fileSystem.inject(Fault([.read, .openFile, .size], skip: skip))
      do {
        #expect(try trial.mismatches() == [], "call \(skip)")
      } catch let error as EngineError {
        #expect(error.code == .inputOutput, "call \(skip): \(error)")
        failed += 1
      }
      let hasFailed = trial.fileSystem.failureCount > before
      trial.fileSystem.clear()
      #expect(try trial.mismatches() == [], "call \(skip), afterwards")
      // Tables are opened and blocks are read once; after that, reads are served by the cache.
      if !hasFailed { break }
      try trial.reopen()
    }
    print("failing reads: \(failed) in turn")
    #expect(failed > 10)
    try trial.engine.close()
  }

  @Test func `files of one size that were swapped are found, and never give a wrong answer`() throws {
    // A closed database has only one log segment.
    for (ending, suffix) in [(DamageFixture.Ending.closed, ".sst"), (.killed, ".log")] {
      let fixture = try DamageFixture(ending)
      let names = fixture.image.names(suffix: suffix)
      var pairs = 0
      for (index, first) in names.enumerated() {
        for second in names[(index + 1)...] {
          var image = fixture.image
          image.files[first] = fixture.image.files[second]
          image.files[second] = fixture.image.files[first]
          let outcome = try DamageOutcome(reading: image.makeFileSystem(), expecting: fixture.state)
          #expect(!outcome.isSound, "\(first) and \(second)")
          #expect(outcome.wrongAnswer == nil, "\(first) and \(second)")
          pairs += 1
        }
      }
      #expect(pairs > 0, "the fixture has only \(names)")
    }
  }
}
