import EngineTestSupport
import Synchronization
import Testing
import VarveEngine
import VarveTestSupport

@testable import Varve

/// Tests of a sync that fails with commits of both lanes in flight: none of them is acknowledged or visible, and the
/// next opening finds a prefix of them, including everything that was acknowledged before.
struct LaneSyncFailureTests {
  private typealias Entry = LaneScript.Entry

  /// A disk whose syncs wait at a gate, and may fail after it.
  private struct Site {
    let disk: CrashFileSystem
    let faults: FaultInjectingFileSystem
    let gated: GatedFileSystem

    init(seed: UInt64) {
      disk = CrashFileSystem(seed: seed)
      faults = FaultInjectingFileSystem(disk)
      gated = GatedFileSystem(faults)
    }

    func open(seed: UInt64) throws -> Database {
      let database = try LaneScript.open(gated, seed: seed)
      try LaneScript.begin(database)
      return database
    }
  }

  /// Checks the contents after a loss of power, and after closing and reopening. Both lanes continue.
  private static func checkReopened(
    _ site: Site, _ database: Database, _ script: LaneScript, _ seed: UInt64
  ) throws -> [[Int]] {
    let guarantee = script.guarantee
    let image = site.disk.crashImage(seed: seed, policy: CrashPolicy.allCases[Int(seed % 3)])
    site.faults.clear()
    // The engine's log is broken, so that the engine may throw again.
    _ = Contract.code { try database.close() }
    return try [image, site.disk].map { disk in
      let again = try LaneScript.open(disk, seed: seed &+ 1)
      defer { try? again.close() }
      let version = guarantee.pending ?? guarantee.version
      try LaneScript.register(again, version: version, replacing: guarantee.pending == nil ? nil : guarantee.version)
      let check = LaneCheck(
        guarantee: guarantee, acknowledgedBefore: script.acknowledgedBefore, losesPower: disk !== site.disk)
      let counts = try check.count(again)
      try LaneCheck.checkContent(again, rows: LaneScript.rows(after: counts[0]), versions: [version])
      let next = LaneScript(seed: seed, commitCount: 1)
      for lane in LaneScript.Lane.allCases {
        try next.commit(LaneScript.Entry(lane: lane, number: counts[Int(lane.rawValue)] + 1), .power, again)
      }
      try LaneCheck.checkContent(again, rows: LaneScript.rows(after: counts[0] + 1), versions: [version])
      return counts
    }
  }

  /// The first commit waits at the gate with its sync, so that the others are in flight after it.
  @Test(arguments: LaneScript.Lane.allCases, [true, false])
  func `commits in flight after a sync that fails are not acknowledged, on either lane`(
    first: LaneScript.Lane, fails: Bool
  ) async throws {
    try await Threads.alone {
      for seed in 1...UInt64(TestScale.count(6)) {
        let site = Site(seed: seed)
        let script = LaneScript(seed: seed, commitCount: 100)
        let database = try site.open(seed: seed)
        var random = SeededRandom(seed: seed)
        var last = [0, 0]
        for lane in LaneScript.Lane.allCases {
          for _ in 0..<random.below(4) {
            last[Int(lane.rawValue)] += 1
            let durability: StorageDurability = random.oneIn(2) ? .power : .process
            try script.commit(Entry(lane: lane, number: last[Int(lane.rawValue)]), durability, database)
          }
        }
        let acknowledged = script.guarantee.process
        let seen = try database.core.read { $0.version }
        site.gated.syncs.shut()
        let outcomes = Mutex<[DatabaseError.Code?]>([])
        let start = { (entry: Entry, durability: StorageDurability) in
          Threads.start { _ in
            let code = Contract.code { try script.commit(entry, durability, database) }
            outcomes.withLock { $0.append(code) }
          }
        }
        var started = [start(Entry(lane: first, number: last[Int(first.rawValue)] + 1), .power)]
        site.gated.syncs.waitUntilHeld()
        let other: LaneScript.Lane = first == .independent ? .writer : .independent
        started.append(
          start(Entry(lane: other, number: last[Int(other.rawValue)] + 1), random.oneIn(2) ? .power : .process))
        // Whether or not the storage has accepted the commit by now, it must not be acknowledged.
        for _ in 0..<200 {
          let now = try database.core.read { $0.version }
          guard now == seen, outcomes.withLock({ $0.isEmpty }) else {
            throw ContractBroken("a reader saw \(now), which is not acknowledged")
          }
        }
        if fails { site.faults.inject(Fault([.sync], pathSuffix: ".log", count: Fault.always)) }
        site.gated.syncs.open()
        for threads in started { try Self.require(threads.errorsAtEnd() == [], "a thread threw") }
        // A commit that the engine had not accepted by then is refused.
        let codes = outcomes.withLock { $0 }
        let isRight = fails ? codes.allSatisfy { $0 == .outcomeUnknown || $0 == .readOnly } : codes == [nil, nil]
        try Self.require(isRight && (!fails || codes.contains(.outcomeUnknown)), "\(codes), seed \(seed)")
        if fails {
          try Self.require(try database.core.read { $0.version } == seen, "a reader sees what was not acknowledged")
          try Self.require(script.guarantee.process == acknowledged, "something was acknowledged")
          for lane in LaneScript.Lane.allCases {
            let next = Entry(lane: lane, number: last[Int(lane.rawValue)] + 2)
            try Self.require(
              Contract.code { try script.commit(next, .process, database) } == .outcomeUnknown, "\(next)")
          }
        }
        let counts = try Self.checkReopened(site, database, script, seed)
        for found in counts where found[Int(other.rawValue)] > last[Int(other.rawValue)] {
          try Self.require(
            found[Int(first.rawValue)] > last[Int(first.rawValue)], "\(found): the second is there without the first")
        }
      }
    }
  }

  /// Returns whether a lane has ended because of the storage: its commit may have happened, or was no longer
  /// accepted.
  private static func isOfFailure(_ error: String) -> Bool {
    error.contains("outcomeUnknown") || error.contains("readOnly: the engine takes no more writes")
      || error.contains("storage: a commit could not be made durable; open it again")
  }

  private static func require(_ condition: Bool, _ what: @autoclosure () -> String) throws {
    if !condition { throw ContractBroken(what()) }
  }

  /// Both lanes run while a sync fails at some point.
  @Test
  func
    `whichever sync fails while both lanes commit, acknowledged commits are there, and none without those before it`()
    async throws
  {
    try await Threads.alone {
      var stopped = 0
      var found: Set<[Int]> = []
      for skip in 0..<TestScale.count(24) {
        let seed = UInt64(skip + 1)
        let site = Site(seed: seed)
        let script = LaneScript(seed: seed, commitCount: 60)
        let database = try site.open(seed: seed)
        site.faults.inject(Fault([.sync], pathSuffix: ".log", skip: skip, count: skip % 2 == 0 ? 1 : Fault.always))
        let errors = script.run(database)
        try Self.require(errors.allSatisfy(Self.isOfFailure), "\(errors), seed \(seed)")
        stopped += errors.isEmpty ? 0 : 1
        let promised = script.guarantee
        let seen = try database.core.read { tx in
          let sums = try tx[ExtensionRun.parts][.asideSums]
          return try LaneScript.Lane.allCases.map { Int(try sums.counter([$0.rawValue])) }
        }
        guard zip(seen, promised.process).allSatisfy({ $0 >= $1 }) else {
          throw ContractBroken("readers see \(seen), and \(promised.process) were acknowledged, seed \(seed)")
        }
        for counts in try Self.checkReopened(site, database, script, seed) { found.insert(counts) }
      }
      print(
        "lanes with a failing sync: \(stopped) of \(TestScale.count(24)) runs stopped, \(found.count) numbers of commits"
      )
      #expect(stopped > TestScale.count(24) / 2)
      #expect(!TestScale.isWhole || found.count > 8)
    }
  }

  /// Tests the second storage of the tests: a commit is applied and cannot be made durable, or its outcome is
  /// unknown.
  @Test func `a failure of another storage leaves all acknowledged commits, and none without those before it`()
    async throws
  {
    try await Threads.alone {
      var stopped = 0
      let runs = TestScale.count(24)
      for seed in 1...UInt64(runs) {
        let storage = ToyStorage()
        let backend = ToyBackend(storage)
        let script = LaneScript(seed: seed, commitCount: 60)
        let database = try LaneScript.open(backend)
        try LaneScript.begin(database)
        var faults = ToyFaults(seed: seed)
        faults.lateOneIn = 3
        faults.failingOneIn = seed % 2 == 0 ? 60 : 0
        faults.unknownOneIn = seed % 2 == 0 ? 0 : 60
        faults.yieldMaximum = 1
        backend.faults = faults
        let errors = script.run(database)
        try Self.require(errors.allSatisfy(Self.isOfFailure), "\(errors), seed \(seed)")
        stopped += errors.isEmpty ? 0 : 1
        let guarantee = script.guarantee
        storage.restart()
        _ = Contract.code { try database.close() }
        let again = try LaneScript.open(ToyBackend(storage))
        let version = guarantee.pending ?? guarantee.version
        try LaneScript.register(again, version: version, replacing: guarantee.pending == nil ? nil : guarantee.version)
        let check = LaneCheck(guarantee: guarantee, acknowledgedBefore: script.acknowledgedBefore, losesPower: false)
        let counts = try check.count(again)
        try LaneCheck.checkContent(again, rows: LaneScript.rows(after: counts[0]), versions: [version])
        try again.close()
      }
      print("lanes over another storage that fails: \(stopped) of \(runs) runs stopped")
      #expect(!TestScale.isWhole || stopped > runs / 2)
    }
  }
}
