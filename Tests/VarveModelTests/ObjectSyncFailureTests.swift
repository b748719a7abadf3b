import EngineTestSupport
import Testing
import VarveEngine
import VarveTestSupport

@testable import Varve

/// Tests of a commit that cannot be made durable: its call throws, readers never see it, no writer builds on it, and
/// after reopening the database has complete transactions, the first ones.
struct ObjectSyncFailureTests {
  private static let transactionCount = 12

  private static func open(_ fileSystem: any FileSystem, seed: UInt64 = 1) throws -> (Database, EngineBackend) {
    try ObjectCrashScript.open(fileSystem, SteppedExecutor(seed: seed), seed: seed)
  }

  /// Commits transaction `number`: a row with metadata in each of two collections.
  private static func commit(_ number: Int, _ database: Database, _ durability: StorageDurability = .power) throws {
    try database.write(label: "\(number)", durability: durability) { tx in try fill(tx, number) }
  }

  private static func fill(_ tx: WriteTransaction, _ number: Int) throws {
    let object = CrashedObject(number: number, text: String(repeating: "x", count: 40))
    for collection in ["own", "shared"] {
      try tx.set(object, key: number, in: collection, metadata: CrashedNote(tag: "\(number)"))
      _ = try tx.remove(key: number - 4, in: collection)
    }
  }

  /// Returns the number of transactions. Throws if they are not the first ones, or if one is incomplete.
  private static func count(_ database: Database) throws -> Int {
    try database.core.read { tx in
      let last = try tx.keys(Int.self, in: "own").last ?? 0
      let expected = Array(max(1, last - 3)..<(last + 1))
      for collection in ["own", "shared"] {
        guard try tx.keys(Int.self, in: collection) == expected, try tx.count(in: collection) == expected.count else {
          throw ContractBroken("\(collection) has \(try tx.keys(Int.self, in: collection)), not \(expected)")
        }
        for number in expected {
          let row = try tx.row(key: number, in: collection)
          guard try row?.object(as: CrashedObject.self).number == number,
            try row?.metadata(as: CrashedNote.self) == CrashedNote(tag: "\(number)")
          else { throw ContractBroken("row \(number) of \(collection) is torn") }
        }
      }
      return last
    }
  }

  private static func labels(_ database: Database) throws -> [String?] {
    try database.core.readFeed(after: .zero, commitLimit: 100, rowLimit: .max).events.map { event in
      if case .changes(let changes) = event { changes.label } else { "gap" }
    }
  }

  /// Returns the number of log syncs that the transactions cause.
  private static func syncCount() throws -> Int {
    let disk = CrashFileSystem(seed: 3)
    let fileSystem = FaultInjectingFileSystem(disk)
    let (database, _) = try open(fileSystem)
    let far = 1_000_000
    fileSystem.inject(Fault([.sync], pathSuffix: ".log", skip: far, count: 1))
    for number in 1...transactionCount { try commit(number, database) }
    let left = fileSystem.skipsLeft
    try database.close()
    return far - left
  }

  @Test(arguments: [false, true])
  func `whichever log sync fails, unacknowledged commits are not visible and not built on`(
    failsForEver: Bool
  ) throws {
    let syncCount = try Self.syncCount()
    #expect(syncCount >= Self.transactionCount)
    var reached: Set<Int> = []
    for skip in 0..<syncCount {
      let disk = CrashFileSystem(seed: UInt64(skip))
      let fileSystem = FaultInjectingFileSystem(disk)
      let (database, _) = try Self.open(fileSystem)
      fileSystem.inject(
        Fault([.sync], pathSuffix: ".log", skip: skip, count: failsForEver ? Fault.always : 1))
      var acknowledged = 0
      var code: DatabaseError.Code?
      while code == nil, acknowledged < Self.transactionCount {
        code = Contract.code { try Self.commit(acknowledged + 1, database) }
        if code == nil { acknowledged += 1 }
      }
      let what: Comment = "sync \(skip) of \(syncCount) fails\(failsForEver ? " for ever" : "")"
      // The sync that fails may be one that no commit waits for; then all commits succeed.
      if let code {
        reached.insert(acknowledged)
        #expect(code == .outcomeUnknown, what)
        try Self.checkStopped(database, acknowledged, what)
      }
      try Self.checkReopened(disk, fileSystem, database, acknowledged, hasFailed: code != nil, what)
    }
    #expect(reached.count > Self.transactionCount / 2)
    print(
      "failed syncs\(failsForEver ? " for ever" : ""): \(syncCount) runs, failures after \(reached.sorted()) commits")
  }

  /// Checks that readers stay at their snapshot, and that writers get the error.
  private static func checkStopped(_ database: Database, _ acknowledged: Int, _ what: Comment) throws {
    for _ in 0..<2 {
      #expect(try count(database) == acknowledged, what)
      #expect(try labels(database) == (0..<acknowledged).map { "\($0 + 1)" }, what)
      for durability in [StorageDurability.power, .process] {
        let next = acknowledged + 2
        #expect(Contract.code { try commit(next, database, durability) } != nil, what)
      }
      let beside = Contract.code { try database.writeConcurrently { try fill($0, acknowledged + 2) } }
      #expect(beside != nil, what)
    }
  }

  /// Checks the content after the next opening, and after a power loss instead of a close.
  private static func checkReopened(
    _ disk: CrashFileSystem, _ fileSystem: FaultInjectingFileSystem, _ database: Database, _ acknowledged: Int,
    hasFailed: Bool, _ what: Comment
  ) throws {
    let possible = acknowledged...(acknowledged + (hasFailed ? 1 : 0))
    let image = disk.crashImage(seed: 9, policy: .loseAllUnsynced)
    let (crashed, _) = try open(image, seed: 2)
    #expect(possible.contains(try count(crashed)), "\(what), and the power went")
    #expect(try labels(crashed).count == (try count(crashed)), "\(what), and the power went")
    try crashed.close()

    fileSystem.clear()
    // The engine's log is broken, so that the engine may throw again.
    _ = Contract.code { try database.close() }
    let (again, _) = try open(disk, seed: 4)
    let found = try count(again)
    #expect(possible.contains(found), "\(what), and it was opened again")
    #expect(try labels(again) == (0..<found).map { "\($0 + 1)" }, what)
    try commit(found + 1, again)
    #expect(try count(again) == found + 1, what)
    try again.close()
  }

  /// The failed commit was not written: this outcome is known, and does not stop other writers.
  @Test func `a commit that fails for lack of disk space has not happened, and the next one may succeed`() throws {
    let fileSystem = FaultInjectingFileSystem(MemoryFileSystem(), mapsFiles: false)
    let (database, _) = try Self.open(fileSystem)
    try Self.commit(1, database)
    fileSystem.inject(Fault([.write, .createFile], pathSuffix: ".log", count: Fault.always, code: .noSpace))
    for _ in 0..<3 {
      let code = Contract.code { try Self.commit(2, database) }
      #expect(code == .storage)
      #expect(try Self.count(database) == 1)
    }
    fileSystem.clear()
    var code: DatabaseError.Code? = .storage
    // The engine itself detects that there is space again; each refused commit makes it check.
    for _ in 0..<100 where code != nil { code = Contract.code { try Self.commit(2, database) } }
    #expect(code == nil)
    #expect(try Self.count(database) == 2)
    try database.close()
    let (again, _) = try Self.open(fileSystem, seed: 2)
    #expect(try Self.count(again) == 2)
    #expect(try Self.labels(again) == ["1", "2"])
    try again.close()
  }
}
