import EngineTestSupport
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of definitions that are replaced at run time when there are many rows: the new one is built next to the one
/// in force, which stays readable.
struct ShadowTests {
  private struct Undone: Error {}
  /// A flag that can be taken once.
  private final class Removed: Sendable {
    private let isTaken = Atomic<Bool>(false)
    func take() -> Bool { !isTaken.exchange(true, ordering: .sequentiallyConsistent) }
  }
  private let mirrored = Mirrored()
  private let rows = 1_200

  private func open(_ backend: any StorageBackend) throws -> Database {
    let database = try Database.open(backend, path: "shadow")
    database.core.extensions.rowsInTransaction.store(10, ordering: .relaxed)
    return database
  }

  /// Returns a database whose extension is in force with version "1".
  private func filled(_ site: StorageSite) throws -> (Database, ExtensionHandle<Scripted>) {
    let database = try open(try site.open())
    try mirrored.fill(database, 0..<rows)
    let handle = try database.registerReady(mirrored.definition("1"), as: "mirror")
    return (database, handle)
  }

  private func replace(
    _ database: Database, _ handle: ExtensionHandle<Scripted>, by version: String,
    _ progress: (@Sendable (BuildProgress) -> Void)? = nil
  ) throws {
    try database.change { tx in
      try tx.replaceDefinition(of: handle, by: mirrored.definition(version), progress: progress)
    }
  }

  private func shadow(_ database: Database) -> ExtensionRecord? {
    database.core.extensionCatalog.record("mirror")?.shadow
  }

  // MARK: - While it is built

  @Test(arguments: StorageKind.allCases)
  func `while the new definition is built both receive each change, and the old one is read`(
    kind: StorageKind
  ) throws {
    let site = try StorageSite(kind)
    let (database, handle) = try filled(site)
    let checks = Mutex(0)
    try replace(database, handle, by: "2") { [mirrored] progress in
      let done = progress.rowsDone
      guard done > 10, done < 1_100,
        checks.withLock({
          $0 += 1; return $0 < 5
        })
      else { return }
      // The changes are on both sides of the watermark, in a savepoint that is kept and in one that is undone.
      try? database.change { tx in
        for key in [done - 1, 1_199 - done, done + 10, 5_000 + done] { try tx.set(-done, key: key, in: "c") }
        try tx.remove(key: done - 3, in: "c")
        try tx.savepoint { try tx.remove(key: done + 11, in: "c") }
        try? tx.savepoint {
          try tx.set(0, key: done - 5, in: "c")
          throw Undone()
        }
        #expect(try mirrored.isRight(tx, handle, "1"))
      }
    }
    try database.waitReady(handle)
    // A fast build has few chunks.
    #expect(checks.withLock { $0 } >= 1)
    #expect(try mirrored.isRight(database, handle, "2"))
    #expect(shadow(database) == nil)
    try database.core.sweepExtensions()
    #expect(try mirrored.families(database) == ["x.1~1.rows"])
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `all rows can be removed while the new definition is built`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    let (database, handle) = try filled(site)
    let wasRemoved = Removed()
    try replace(database, handle, by: "2") { [mirrored] progress in
      guard progress.rowsDone > 100, wasRemoved.take() else {
        return
      }
      try? database.change { tx in
        try tx.removeAll(in: "c")
        for key in 0..<20 { try tx.set(key, key: key, in: "c") }
        #expect(try mirrored.isRight(tx, handle, "1"))
      }
    }
    try database.waitReady(handle)
    #expect(try mirrored.isRight(database, handle, "2"))
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test func `a reader that spans the switch keeps its contents`() throws {
    let site = try StorageSite(.disk)
    let (database, handle) = try filled(site)
    let held = HeldBuild(after: 600)
    try replace(database, handle, by: "2", held.progressed)
    held.waitUntilHeld()
    let connection = database.connection()
    try connection.beginLongLivedRead()
    try database.change { tx in try tx.set(-1, key: 1, in: "c") }
    held.release()
    try database.waitReady(handle)
    try database.core.sweepExtensions()
    #expect(try connection.read { tx in try mirrored.isRight(tx, handle, "1") })
    #expect(try mirrored.isRight(database, handle, "2"))
    connection.endLongLivedRead()
    try database.core.sweepExtensions()
    #expect(try mirrored.families(database) == ["x.1~1.rows"])
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `a build ends when another definition, or the one in force, replaces the new one`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    let (database, handle) = try filled(site)
    for next in ["3", "1"] {
      let held = HeldBuild(after: 600)
      try replace(database, handle, by: "2", held.progressed)
      held.waitUntilHeld()
      #expect(try mirrored.families(database).count == 2)
      try replace(database, handle, by: next)
      held.release()
      try database.waitReady(handle)
      #expect(try mirrored.isRight(database, handle, next))
      try database.core.sweepExtensions()
      #expect(try mirrored.families(database).count == 1)
      try replace(database, handle, by: "1")
      try database.waitReady(handle)
      try database.core.sweepExtensions()
    }
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test func `an undone savepoint starts no build, and a failed build leaves the old definition in force`() throws {
    let site = try StorageSite(.memory)
    let (database, handle) = try filled(site)
    try database.change { tx in
      try? tx.savepoint {
        try tx.replaceDefinition(of: handle, by: mirrored.definition("2"))
        throw Undone()
      }
      try tx.set(-1, key: 1, in: "c")
    }
    #expect(shadow(database) == nil && database.core.extensions.list.shadow("mirror") == nil)
    var failing = mirrored.definition("2")
    let did = failing.did
    failing.did = { tx, change in
      if change.key.text == "900" { throw Undone() }
      try did(tx, change)
    }
    try database.change { [failing] tx in try tx.replaceDefinition(of: handle, by: failing) }
    #expect(throws: Undone.self) { try database.waitReady(handle) }
    try database.change { tx in try tx.set(-1, key: 900, in: "c") }
    #expect(try mirrored.isRight(database, handle, "1"))
    try replace(database, handle, by: "3")
    try database.waitReady(handle)
    #expect(try mirrored.isRight(database, handle, "3"))
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test func `while the old definition is being built the new one is built instead`() throws {
    let site = try StorageSite(.memory)
    let database = try open(try site.open())
    try mirrored.fill(database, 0..<rows)
    let held = HeldBuild(after: 600)
    let handle = try database.core.register(mirrored.definition("1"), "mirror", held.progressed)
    held.waitUntilHeld()
    try replace(database, handle, by: "2")
    #expect(errorCode { try database.look { tx in _ = try tx[handle] } } == .notReady)
    held.release()
    try database.waitReady(handle)
    #expect(try mirrored.isRight(database, handle, "2"))
    try database.close()
    withExtendedLifetime(site) {}
  }

  // MARK: - After a restart

  /// The definitions that a program registers when it is started again.
  enum Restart: String, CaseIterable, Sendable {
    case inForce, shadow, both
  }

  /// Opens the database again, registers the extension, and compares its content at once and at the end.
  private func checkAfter(_ restart: Restart, _ backend: any StorageBackend, wasSwitched: Bool) throws {
    let database = try open(backend)
    #expect(try mirrored.families(database).count == (wasSwitched ? 1 : 2), "an open drops what is left over")
    let definition = mirrored.definition(restart == .inForce ? "1" : "2")
    let handle: ExtensionHandle<Scripted>
    if restart == .both {
      handle = try database.core.register(definition, "mirror", replacing: mirrored.definition("1"), nil)
      try database.change { tx in
        try tx.set(-7, key: 7, in: "c")
        let isNew = try mirrored.isRight(tx, handle, "2")
        #expect(try isNew || mirrored.isRight(tx, handle, "1"), "one of the two answers")
        #expect(!wasSwitched || isNew)
      }
    } else {
      handle = try database.core.register(definition, "mirror", nil)
      if restart == .inForce && !wasSwitched { #expect(try mirrored.isRight(database, handle, "1")) }
    }
    try database.change { tx in
      try tx.set(-8, key: 8, in: "c")
      try tx.remove(key: 9, in: "c")
    }
    try database.waitReady(handle)
    #expect(try mirrored.isRight(database, handle, restart == .inForce ? "1" : "2"))
    #expect(shadow(database) == nil)
    try database.core.sweepExtensions()
    #expect(try mirrored.families(database).count == 1)
    try database.close()
  }

  @Test(arguments: StorageKind.allCases, Restart.allCases)
  func `after a crash at any step of the build each registration succeeds`(
    kind: StorageKind, restart: Restart
  ) throws {
    // The steps: after the first chunk, further on, after the last row, and after the switch.
    for step in 1...4 {
      let site = try StorageSite(kind)
      let (database, handle) = try filled(site)
      let held = HeldBuild { progress in
        switch step {
        case 1: progress.rowsDone > 0
        case 2: progress.rowsDone > 500
        case 3: progress.rowsDone == 1_200
        default: progress.rowsDone == 1_200 && database.core.extensionCatalog.record("mirror")?.shadow == nil
        }
      }
      try replace(database, handle, by: "2", held.progressed)
      held.waitUntilHeld()
      let isSwitched = shadow(database) == nil
      #expect(isSwitched == (step == 4))
      try database.change { tx in try tx.set(-1, key: 1, in: "c") }
      try site.abandon()
      held.release()
      try? database.waitReady(handle)
      try? database.close()
      try checkAfter(restart, try site.open(), wasSwitched: isSwitched)
    }
  }

  @Test(arguments: StorageKind.allCases)
  func `a build that a close has interrupted continues at its watermark`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    var (database, handle) = try filled(site)
    let held = HeldBuild(after: 600)
    try replace(database, handle, by: "2", held.progressed)
    held.waitUntilHeld()
    try otherThread { [database] in
      held.release()
      try database.close()
    }
    _ = mirrored.lines.take()
    database = try open(try site.open())
    // The build may have finished before the close.
    let record = try #require(database.core.extensionCatalog.record("mirror"))
    let isSwitched = record.shadow == nil
    handle = try database.core.register(
      mirrored.definition("2"), "mirror", replacing: mirrored.definition("1"), nil)
    try database.waitReady(handle)
    #expect(isSwitched || mirrored.lines.take().count <= rows - 600)
    #expect(try mirrored.isRight(database, handle, "2"))
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test func `both definitions are rebuilt if a program changes rows without registering either`() throws {
    let site = try StorageSite(.disk)
    var (database, handle) = try filled(site)
    let held = HeldBuild(after: 600)
    try replace(database, handle, by: "2", held.progressed)
    held.waitUntilHeld()
    try site.abandon()
    held.release()
    try database.close()
    database = try open(try site.open())
    try database.change { tx in try tx.set(-1, key: 1, in: "c") }
    #expect(shadow(database) == nil)
    handle = try database.core.register(
      mirrored.definition("2"), "mirror", replacing: mirrored.definition("1"), nil)
    try database.waitReady(handle)
    #expect(try mirrored.isRight(database, handle, "2"))
    try database.close()
    withExtendedLifetime(site) {}
  }

  // MARK: - Followers and records

  @Test(arguments: StorageKind.allCases)
  func `a follower reads the definition in force; a snapshot whose families are gone throws`(
    kind: StorageKind
  ) throws {
    let site = try StorageSite(kind)
    let (database, handle) = try filled(site)
    var options = DatabaseOptions()
    options.follows = true
    let follower = try Database.open(try site.follow(), path: "follower", options: options)
    _ = try follower.core.register(mirrored.definition("2"), "mirror", replacing: mirrored.definition("1"), nil)
    let held = HeldBuild(after: 600)
    try replace(database, handle, by: "2", held.progressed)
    held.waitUntilHeld()
    #expect(try mirrored.isRight(follower, handle, "1"))
    try database.change { tx in try tx.set(-1, key: 1, in: "c") }
    let connection = follower.connection()
    try connection.beginLongLivedRead()
    held.release()
    try database.waitReady(handle)
    #expect(try mirrored.isRight(follower, handle, "2"))
    if kind != .toy {
      try database.core.sweepExtensions()
      #expect(try mirrored.isRight(follower, handle, "2"))
      #expect(errorCode { _ = try connection.read { tx in try tx[handle].texts("rows") } } == .snapshotTooOld)
    }
    connection.endLongLivedRead()
    try follower.close()
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test func `the record of a shadow survives encoding, and damaged ones are refused`() throws {
    var record = ExtensionRecord(
      number: 3, state: .stale(FeedPosition([UInt8](0..<16))), ExtensionTraits(mirrored.definition("1")),
      versionTag: "1")
    var shadow = ExtensionRecord(number: 3, state: .ready, ExtensionTraits(mirrored.definition("2")), versionTag: "2")
    shadow.restart()
    shadow.generation = 5
    record.generation = 4
    record.shadow = shadow
    let bytes = record.bytes
    #expect(try ExtensionRecord(bytes, name: "mirror") == record)
    for count in 0..<bytes.count {
      // Without its position a stale record is a valid one without a position.
      let isWhole = count == bytes.count - FeedPosition.size
      let cut = Array(bytes.prefix(count))
      #expect(errorCode { _ = try ExtensionRecord(cut, name: "mirror") } == (isWhole ? nil : .corruption), "\(count)")
    }
    shadow.generation = 4
    record.shadow = shadow
    #expect(errorCode { _ = try ExtensionRecord(record.bytes, name: "mirror") } == .corruption)
    let owners = ["x.7.a", "x.7~2.a.b", "volatile.x.7~12.a", "spill.x.7~3.0.a"].map {
      ExtensionRecord.owner(ofFamily: $0)
    }
    #expect(owners.compactMap { $0?.number } == [7, 7, 7, 7] && owners.compactMap { $0?.generation } == [0, 2, 12, 3])
    #expect(["x.7~.a", "x.7~1~2.a", "x.~1.a", "c.7.a"].allSatisfy { ExtensionRecord.owner(ofFamily: $0) == nil })
  }
}
