import EngineTestSupport
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of parts with their own versions: which parts are rebuilt when one of them changes, and what the others
/// keep.
struct PartVersionTests {
  private struct Interrupted: Error {}
  private let lines = Lines()

  /// Returns an extension that keeps each row's value in every part, and records the parts for which a row was
  /// received.
  private func mirror(_ parts: [PartDefinition], failsAt: Int? = nil) -> Scripted {
    var mirror = Scripted(events: [.inserts, .updates, .removals])
    mirror.configuration.parts = parts
    mirror.configuration.build = .background
    mirror.did = { [lines] tx, change in
      let key = change.key.text
      if let failsAt, key == "\(failsAt)" { throw CancellationError() }
      let counting = parts.indices.filter { change.parts.contains(PartSet(part: $0)) }.map { parts[$0].name }
      lines.add("\(key) \(counting.joined())")
      for part in parts {
        let value = try change.row?.object(as: Int.self)
        let bytes = Array(key.utf8)
        // Writes to all parts: a put to a part that is not concerned has no effect.
        if let value {
          try tx.part(part.name).put(bytes, Array("\(part.version):\(value)".utf8))
        } else {
          try tx.part(part.name).delete(bytes)
        }
      }
    }
    return mirror
  }

  private func part(_ name: String, _ version: String = "1") -> PartDefinition {
    var part = PartDefinition(name)
    part.version = version
    return part
  }

  private func fill(_ database: Database, _ keys: Range<Int>) throws {
    try database.change { tx in for key in keys { try tx.set(key, key: key, in: "c") } }
  }

  @Test(arguments: StorageKind.allCases)
  func `another version of a part rebuilds that part, and the others do not change`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    var database = try Database.open(try site.open(), path: "parts")
    try fill(database, 1..<4)
    try database.registerReady(mirror([part("a"), part("b")]), as: "mirror")
    #expect(lines.take() == ["1 ab", "2 ab", "3 ab"])
    try database.close()
    database = try Database.open(try site.open(), path: "parts")
    let handle = try database.registerReady(mirror([part("b", "2"), part("a"), part("new")]), as: "mirror")
    // Part "b" is at another index now, and is built along with "new".
    #expect(lines.take() == ["1 bnew", "2 bnew", "3 bnew"])
    let kept = try database.look { tx in try ["a", "b", "new"].map { try tx[handle].texts($0) } }
    #expect(kept[0] == ["1=1:1", "2=1:2", "3=1:3"])
    #expect(kept[1] == ["1=2:1", "2=2:2", "3=2:3"] && kept[2] == ["1=1:1", "2=1:2", "3=1:3"])
    try database.close()
    database = try Database.open(try site.open(), path: "parts")
    try database.registerReady(mirror([part("b", "2"), part("a"), part("new")]), as: "mirror")
    #expect(lines.take() == [], "nothing has changed")
    try database.close()
  }

  @Test(arguments: StorageKind.allCases)
  func `a part missing from the definition is dropped, and rebuilt when it returns`(kind: StorageKind)
    throws
  {
    let site = try StorageSite(kind)
    var database = try Database.open(try site.open(), path: "parts")
    try fill(database, 1..<3)
    try database.registerReady(mirror([part("a"), part("b")]), as: "mirror")
    try database.close()
    database = try Database.open(try site.open(), path: "parts")
    try database.registerReady(mirror([part("a")]), as: "mirror")
    #expect(try database.core.backend.families().filter { $0.name.hasPrefix("x.") }.map(\.name) == ["x.1.a"])
    try fill(database, 3..<4)
    try database.close()
    database = try Database.open(try site.open(), path: "parts")
    _ = lines.take()
    let handle = try database.registerReady(mirror([part("a"), part("b")]), as: "mirror")
    #expect(lines.take() == ["1 b", "2 b", "3 b"])
    #expect(try database.look { tx in try tx[handle].texts("b").count } == 3)
    try database.close()
  }

  @Test(arguments: StorageKind.allCases)
  func `another form of a part, or one in memory, is rebuilt`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    var database = try Database.open(try site.open(), path: "parts")
    try fill(database, 1..<3)
    var counting = Scripted(events: .inserts)
    counting.configuration.build = .background
    counting.configuration.parts = [PartDefinition("n", .counters(.sum))]
    counting.did = { tx, change in try tx.part("n").add(1, to: [1]) }
    var handle = try database.registerReady(counting, as: "counting")
    #expect(try database.look { tx in try tx[handle].part("n").counter([1]) } == 2)
    try database.close()
    database = try Database.open(try site.open(), path: "parts")
    counting.configuration.parts[0].isVolatile = true
    handle = try database.registerReady(counting, as: "counting")
    #expect(try database.look { tx in try tx[handle].part("n").counter([1]) } == 2)
    try database.close()
    database = try Database.open(try site.open(), path: "parts")
    handle = try database.registerReady(counting, as: "counting")
    #expect(try database.look { tx in try tx[handle].part("n").counter([1]) } == 2, "it was empty after the open")
    try database.close()
    database = try Database.open(try site.open(), path: "parts")
    counting.configuration.parts = [PartDefinition("n")]
    counting.did = { tx, change in try tx.part("n").put(Array(change.key.text.utf8), []) }
    handle = try database.registerReady(counting, as: "counting")
    #expect(try database.look { tx in try tx[handle].texts("n") } == ["1=", "2="])
    try database.close()
  }

  @Test(arguments: StorageKind.allCases)
  func `parts at different watermarks receive each row once, and live changes up to their own`(
    kind: StorageKind
  ) throws {
    let site = try StorageSite(kind)
    var database = try Database.open(try site.open(), path: "parts")
    try fill(database, 1..<3_001)
    try database.registerReady(mirror([part("a")]), as: "mirror")
    try database.close()
    database = try Database.open(try site.open(), path: "parts")
    _ = lines.take()
    // Part "b" is added, and its build is interrupted after a chunk.
    #expect(throws: CancellationError.self) {
      try database.registerReady(mirror([part("a"), part("b")], failsAt: 2_500), as: "mirror")
    }
    try database.close()
    database = try Database.open(try site.open(), path: "parts")
    let stored = try #require(database.core.extensionCatalog.record("mirror"))
    #expect(stored.frontier != nil && stored.parts[0].watermark == nil)
    _ = lines.take()
    // Part "c" is added: it is built up to the watermark of "b", and then both are built.
    let parts = [part("a"), part("b"), part("c")]
    let handle = try database.registerReady(mirror(parts), as: "mirror")
    let received = lines.take()
    let alone = received.filter { $0.hasSuffix(" c") }.count
    let both = received.filter { $0.hasSuffix(" bc") }.count
    #expect(alone >= 1_000 && both >= 500 && alone + both == 3_000 && received.count == 3_000)
    let sizes = try database.look { tx in try ["a", "b", "c"].map { try tx[handle].part($0).count() } }
    #expect(sizes == [3_000, 3_000, 3_000])
    try database.close()
  }

  @Test(arguments: StorageKind.allCases)
  func `a change during the build of a part applies to the parts that have the row, and each set is flushed`(
    kind: StorageKind
  ) throws {
    let site = try StorageSite(kind)
    let database = try Database.open(try site.open(), path: "parts")
    try fill(database, 1..<2_001)
    try database.registerReady(mirror([part("a")]), as: "mirror")
    try database.close()
    let again = try Database.open(try site.open(), path: "parts")
    var building = mirror([part("a"), part("b")])
    let did = building.did
    let flushed = Lines()
    // One transaction changes rows that all parts have, and rows that the build has not reached.
    building.did = { tx, change in
      try did(tx, change)
      if change.event == .updated { flushed.add("\(change.parts.rawValue)") }
    }
    building.flush = { tx in flushed.add("flush") }
    let definition = building
    let isDone = Mutex(false)
    let handle = try again.registerReady(definition, as: "mirror") { progress in
      guard (10..<1_990).contains(progress.rowsDone), isDone.withLock({ !$0 }) else { return }
      isDone.withLock { $0 = true }
      try? again.change { tx in
        _ = flushed.take()
        try tx.set(-1, key: 1, in: "c")
        try tx.set(-2, key: 2, in: "c")
        try tx.set(-3, key: 1_999, in: "c")
        try tx.set(-4, key: 3, in: "c")
        lines.add("live " + flushed.take().joined(separator: " "))
        let written = try ["a", "b"].map { try again.core.extensions.list["mirror"]?.value(of: "1999", in: $0, tx) }
        lines.add("live \(written.map { $0 ?? "none" })")
      }
    }
    let live = lines.take().filter { $0.hasPrefix("live") }
    // Part "a" has all rows; part "b" has some of the first ones.
    #expect(live == ["live 3 3 flush 1 flush 3", #"live ["1:-3", "none"]"#])
    let kept = try again.look { tx in try ["a", "b"].map { try tx[handle].texts($0) } }
    #expect(kept[0] == kept[1] && kept[0].count == 2_000)
    try again.close()
  }

  /// One transaction changes a row that only one of two parts receives, and then removes all rows.
  @Test(arguments: StorageKind.allCases)
  func `removing all rows while a part is built removes them from that part, too`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    let database = try Database.open(try site.open(), path: "parts")
    try fill(database, 1..<2_001)
    var removing = mirror([part("a")])
    removing.removesAll = { tx, _ in
      for part in tx.parts.values { try part.deleteRange(StorageRange()) }
      return true
    }
    try database.registerReady(removing, as: "mirror")
    try database.close()
    let again = try Database.open(try site.open(), path: "parts")
    removing.configuration.parts = [part("a"), part("b")]
    removing.did = mirror([part("a"), part("b")]).did
    let isDone = Mutex(false)
    let handle = try again.registerReady(removing, as: "mirror") { progress in
      guard (10..<1_990).contains(progress.rowsDone), isDone.withLock({ !$0 }) else { return }
      isDone.withLock { $0 = true }
      try? again.change { tx in
        try tx.set(-1, key: 1_999, in: "c")
        try tx.removeAll(in: "c")
        try tx.set(7, key: 7, in: "c")
      }
    }
    #expect(isDone.withLock { $0 })
    let kept = try again.look { tx in try ["a", "b"].map { try tx[handle].texts($0) } }
    #expect(kept == [["7=1:7"], ["7=1:7"]])
    try again.endNow()
  }

  /// Returns an extension that copies a row's entry in the part "a" of another extension.
  private func copy() -> Scripted {
    var copy = Scripted(events: .inserts)
    copy.configuration.dependencies = ["mirror"]
    copy.configuration.parts = [PartDefinition("copy")]
    copy.configuration.build = .background
    copy.did = { tx, change in
      let key = Array(change.key.text.utf8)
      let mirror = try tx.context.transaction[Scripted().named("mirror")]
      try tx.part("copy").put(key, try mirror.part("a").get(key) ?? [])
    }
    return copy
  }

  @Test(arguments: StorageKind.allCases)
  func `dependents of an old part are rebuilt, in whichever session that part changed`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    var database = try Database.open(try site.open(), path: "parts")
    try fill(database, 1..<4)
    try database.registerReady(mirror([part("a")]), as: "mirror")
    var handle = try database.registerReady(copy(), as: "copy")
    #expect(try database.look { tx in try tx[handle].texts("copy") } == ["1=1:1", "2=1:2", "3=1:3"])
    try database.close()
    // A program that registers only the first extension, and writes no row.
    database = try Database.open(try site.open(), path: "parts")
    try database.registerReady(mirror([part("a", "2")]), as: "mirror")
    try database.close()
    database = try Database.open(try site.open(), path: "parts")
    try database.registerReady(mirror([part("a", "2")]), as: "mirror")
    handle = try database.registerReady(copy(), as: "copy")
    #expect(try database.look { tx in try tx[handle].texts("copy") } == ["1=2:1", "2=2:2", "3=2:3"])
    try database.endNow()
  }

  @Test func `an extension is not ready before its dependency, even if a build was cut between the two`() throws {
    let site = try StorageSite(.memory)
    var database = try Database.open(try site.open(), path: "parts")
    try fill(database, 1..<3_001)
    try database.registerReady(mirror([part("a")]), as: "mirror")
    try database.registerReady(copy(), as: "copy")
    try database.close()
    database = try Database.open(try site.open(), path: "parts")
    #expect(throws: CancellationError.self) {
      try database.registerReady(mirror([part("a", "2")], failsAt: 2_500), as: "mirror")
    }
    try database.close()
    database = try Database.open(try site.open(), path: "parts")
    try database.register(mirror([part("a", "2")]), as: "mirror")
    let handle = try database.register(copy(), as: "copy")
    // No write may find one of them ready before the other.
    for key in 1..<50 { try database.change { tx in try tx.set(key, key: -key, in: "c") } }
    try database.waitUntilReady(handle)
    #expect(try database.look { tx in try tx[handle].texts("copy").allSatisfy { $0.contains("=2:") } })
    #expect(try database.look { tx in try tx[handle].part("copy").count() } == 3_049)
    try database.endNow()
  }
}

extension RegisteredExtension {
  /// Returns a part's value for a key, even while the part is built.
  fileprivate func value(of key: String, in part: String, _ transaction: WriteTransaction) throws -> String? {
    guard let index = traits.parts.firstIndex(where: { $0.name == part }), let family = families[index] else {
      return nil
    }
    return try transaction.value(of: Array(key.utf8), in: family).map { String(decoding: $0, as: UTF8.self) }
  }
}
