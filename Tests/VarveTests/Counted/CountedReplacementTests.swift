import EngineTestSupport
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@_spi(Extensions) @testable import Varve

/// Tests of definitions that are replaced by others that count other parts: the content stays, and is counted.
struct CountedReplacementTests {
  private let lines = Lines()

  /// An extension that keeps the keys of all rows, counted or not.
  private func mirror(isCounted: Bool, version: String = "1") -> Scripted {
    var mirror = Scripted()
    mirror.configuration.build = .background
    mirror.configuration.version = version
    mirror.configuration.parts = [CountedPartTests.counted(isCounted: isCounted), PartDefinition("plain")]
    mirror.did = { [lines] tx, change in
      lines.add("\(change.key.text)")
      let part = try tx.part("p")
      let isThere = try part.get(change.key.bytes) != nil
      switch (try change.row != nil, isCounted) {
      case (true, true): if !isThere { try part.insert(change.key.bytes, []) }
      case (true, false): try part.put(change.key.bytes, [])
      case (false, true): if isThere { try part.remove(change.key.bytes) }
      case (false, false): try part.delete(change.key.bytes)
      }
    }
    return mirror
  }

  private func requireCounts(_ database: Database, _ handle: ExtensionHandle<Scripted>, _ count: Int) throws {
    try database.look { tx in
      let part = try tx[handle].part("p")
      #expect(try part.count() == count)
      try part.requireRightCounts()
    }
  }

  @Test(arguments: StorageKind.allCases)
  func `counts that a replacement turns on and off are made without passing rows again`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    var database = try Database.open(try site.open(), path: "counted")
    // More rows than a replacement builds in its transaction.
    database.core.extensions.rowsInTransaction.store(100, ordering: .relaxed)
    var handle = try database.registerReady(mirror(isCounted: false), as: "mirror")
    try database.change { tx in for key in 0..<700 { try tx.set(key, key: key, in: "c") } }
    var count = 700
    for round in 0..<6 {
      let isCounted = round % 2 == 0
      let connection = database.connection()
      try connection.beginLongLivedRead()
      let before = count
      _ = lines.take()
      try database.change { tx in
        // What the transaction writes before the replacement and after it.
        try tx.set(0, key: 1_000 + round, in: "c")
        try tx.remove(key: round, in: "c")
        try tx.replaceDefinition(of: handle, by: mirror(isCounted: isCounted))
        try tx.set(0, key: 2_000 + round, in: "c")
        count += 1
        #expect(try tx[handle].part("p").count() == count)
        if isCounted {
          let third = try #require(try tx[handle].part("p").entry(at: 2))
          #expect(try tx[handle].part("p").offset(of: third.key) == 2)
        }
      }
      #expect(lines.take().count == 3, "no other row was passed")
      if isCounted { try requireCounts(database, handle, count) }
      try database.change { tx in
        try tx.remove(key: 100 + round, in: "c")
        try tx.set(0, key: 3_000 + round, in: "c")
      }
      if isCounted { try requireCounts(database, handle, count) }
      // A reader of the commit before has the definition of that commit.
      try connection.read { tx throws in
        let part = try tx[handle].part("p")
        #expect(try part.count() == before && part.isCounted != isCounted)
        if !isCounted { #expect(try part.offset(of: [0xff]) == before) }
      }
      connection.endLongLivedRead()
    }
    // Counts that are turned off are gone, and those that are turned on are there after the next open.
    for isCounted in [false, true] {
      try database.change { tx in try tx.replaceDefinition(of: handle, by: mirror(isCounted: isCounted)) }
      try database.close()
      database = try Database.open(try site.open(), path: "counted")
      _ = lines.take()
      handle = try database.registerReady(mirror(isCounted: isCounted), as: "mirror")
      #expect(lines.take() == [])
      let families = try database.core.backend.families().filter { $0.name.hasSuffix("p.runs") }
      #expect(families.count == (isCounted ? 1 : 0))
    }
    try requireCounts(database, handle, count)
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `a replacement that is undone leaves the counts of before`(kind: StorageKind) throws {
    struct Undone: Error {}
    let site = try StorageSite(kind)
    let database = try Database.open(try site.open(), path: "counted")
    let handle = try database.registerReady(mirror(isCounted: true), as: "mirror")
    try database.change { tx in for key in 0..<300 { try tx.set(key, key: key, in: "c") } }
    try database.change { tx in
      try tx.set(0, key: 1_000, in: "c")
      try? tx.savepoint {
        try tx.replaceDefinition(of: handle, by: mirror(isCounted: false))
        try tx.set(0, key: 1_001, in: "c")
        throw Undone()
      }
      try tx.set(0, key: 1_002, in: "c")
      #expect(try tx[handle].part("p").count() == 302)
    }
    try requireCounts(database, handle, 302)
    // Off and on again in one transaction.
    try database.change { tx in
      try tx.set(0, key: 1_003, in: "c")
      try tx.replaceDefinition(of: handle, by: mirror(isCounted: false))
      try tx.set(0, key: 1_004, in: "c")
      try tx.replaceDefinition(of: handle, by: mirror(isCounted: true))
      try tx.remove(key: 7, in: "c")
    }
    try requireCounts(database, handle, 303)
    // Another version is built, whether it is counted or not.
    _ = lines.take()
    try database.change { tx in try tx.replaceDefinition(of: handle, by: mirror(isCounted: true, version: "2")) }
    #expect(lines.take().count == 303)
    try requireCounts(database, handle, 303)
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `a reader that follows finds parts empty whose families come later, and rebuilt ones gone`(
    kind: StorageKind
  ) throws {
    let site = try StorageSite(kind)
    var database = try Database.open(try site.open(), path: "counted")
    var options = DatabaseOptions()
    options.follows = true
    let follower = try Database.open(try site.follow(), path: "follower", options: options)
    try database.registerReady(mirror(isCounted: true), as: "mirror")
    let handle = try follower.registerReady(mirror(isCounted: true), as: "mirror")
    func hold() throws -> Connection {
      let connection = follower.connection()
      try connection.beginLongLivedRead()
      return connection
    }
    let empty = try hold()
    // The families of the entries and of their counts are made now, and the follower knows of them.
    try database.change { tx in for key in 0..<10 { try tx.set(key, key: key, in: "c") } }
    try follower.core.read { tx throws in #expect(try tx[handle].part("p").count() == 10) }
    try empty.read { tx throws in
      let part = try tx[handle].part("p")
      #expect(try part.count() == 0 && part.first() == nil && part.offset(of: [0xff]) == 0)
    }
    empty.endLongLivedRead()

    // The follower has not read the extension at this commit, so it looks for the families after they have gone.
    try database.change { tx in try tx.set(0, key: 60, in: "c") }
    let whole = try hold()
    try database.close()
    database = try Database.open(try site.open(), path: "counted")
    try database.registerReady(mirror(isCounted: true, version: "2"), as: "mirror")
    try database.change { tx in try tx.set(0, key: 50, in: "c") }
    #expect(errorCode { try follower.core.read { tx in _ = try tx[handle] } } == .definitionDiffers)
    #expect(errorCode { try whole.read { tx in _ = try tx[handle].part("p").count() } } == .snapshotTooOld)
    whole.endLongLivedRead()
    try follower.close()
    try database.close()
    withExtendedLifetime(site) {}
  }
}
