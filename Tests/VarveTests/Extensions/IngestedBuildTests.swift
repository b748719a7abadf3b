import EngineTestSupport
import Synchronization
import Testing
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of the first build of an extension over many rows, by ingested tables: the content must be that of a build
/// by puts, whatever other writers commit meanwhile.
struct IngestedBuildTests {
  static let rows = 1_200

  /// A size that is small enough for several runs.
  static let smallSpill = 24 << 10

  /// Opens a database whose extensions are built by tables from 100 rows on.
  static func open(
    _ backend: any StorageBackend, spill: Int = 1 << 20, options: DatabaseOptions = DatabaseOptions()
  ) throws -> Database {
    let database = try Database.open(backend, path: "ingested", options: options)
    database.core.extensions.rowsForIngestion.store(100, ordering: .relaxed)
    database.core.extensions.spillSize.store(spill, ordering: .relaxed)
    return database
  }

  static func fill(_ database: Database, _ range: Range<Int> = 0..<rows) throws {
    try database.change { tx in for number in range { try tx.set(text(number), key: number, in: "c") } }
  }

  static func text(_ number: Int) -> String { "\(["a", "b", "c", "d"][number % 4])\(number)" }

  /// Expects the parts to have the content that follows from the rows.
  static func expectRight(
    _ database: Database, _ handle: ExtensionHandle<Kept>, location: SourceLocation = #_sourceLocation
  ) throws {
    try database.look { tx in
      let (content, wanted) = (try tx[handle].content(), try KeptTransaction.wanted(tx))
      for (name, entries) in wanted where content[name] != entries {
        let differing = Set((content[name] ?? [:]).keys).union(entries.keys).filter {
          content[name]?[$0] != entries[$0]
        }
        Issue.record(
          "part \(name) differs in \(differing.count) of \(entries.count) keys, \(differing.sorted(by: ByteOrder.precedes).prefix(3))",
          sourceLocation: location)
      }
    }
  }

  /// Expects that no run is left.
  static func expectNoRuns(_ database: Database, location: SourceLocation = #_sourceLocation) throws {
    let runs = try database.core.backend.families().map(\.name).filter { $0.hasPrefix("spill.") }
    #expect(runs == [], sourceLocation: location)
  }

  static func isRun(_ name: String) -> Bool { name.hasPrefix("spill.") }

  @Test(arguments: StorageKind.allCases, [smallSpill, 1 << 20])
  func `a definition that replaces another is built by tables, too, beside other writers`(
    kind: StorageKind, spill: Int
  ) throws {
    let site = try StorageSite(kind)
    let probe = IngestionProbe(try site.open())
    let database = try Self.open(probe, spill: spill)
    database.core.extensions.rowsInTransaction.store(10, ordering: .relaxed)
    try Self.fill(database)
    let handle = try database.registerReady(Kept(), as: "kept")
    _ = probe.take()
    let steps = Atomic<Int>(0)
    let next = Kept("2")
    try database.change { tx in
      try tx.replaceDefinition(of: handle, by: next) { _ in
        let step = steps.add(1, ordering: .relaxed).newValue
        if step > 5 { return }
        try? database.core.write(WriteTerms()) { tx in
          try tx.set("z\(step)", key: step * 31, in: "c")
          _ = try tx.remove(key: 1_000 + step, in: "c")
          try tx.set("new\(step)", key: 5_000 + step, in: "c")
          // The definition in force is kept up to date meanwhile.
          _ = try tx[handle].content()
        }
      }
    }
    try database.waitUntilReady(handle)
    // Arrays have no tables.
    #expect(probe.take().contains { $0.hasPrefix("x.1~1.") } == (kind != .toy))
    #expect(steps.load(ordering: .relaxed) >= 3)
    #expect(next.log.take().given >= Self.rows)
    try Self.expectRight(database, handle)
    try database.change { tx in try tx.set("after", key: 9_000, in: "c") }
    try Self.expectRight(database, handle)
    try Self.expectNoRuns(database)
    try database.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases, [smallSpill, 1 << 20])
  func `parts that are built by tables have the contents that puts produce`(kind: StorageKind, spill: Int) throws {
    let site = try StorageSite(kind)
    let probe = IngestionProbe(try site.open())
    let database = try Self.open(probe, spill: spill)
    try Self.fill(database)
    let kept = Kept()
    let handle = try database.registerReady(kept, as: "kept")
    let names = probe.take()
    if kind == .toy {
      #expect(names.isEmpty)
    } else {
      #expect(
        names.filter { !Self.isRun($0) }.sorted()
          == ["largest", "letters", "log", "once", "ranked", "ranked.runs", "rows", "words"].map { "x.1.\($0)" })
      #expect(names.contains(where: Self.isRun) == (spill == Self.smallSpill))
    }
    let counts = kept.log.take()
    #expect(counts.given == Self.rows && counts.missed == 0)
    #expect(database.progress(of: "kept")?.rowsDone == Self.rows)
    try Self.expectRight(database, handle)
    try Self.expectNoRuns(database)
    // The extension receives changes like any other.
    try database.change { tx in
      try tx.set("z", key: 5, in: "c")
      try tx.remove(key: 6, in: "c")
      try tx.set("y", key: 5_000, in: "c")
    }
    try Self.expectRight(database, handle)
    try database.close()
    let again = try Self.open(try site.open())
    try Self.expectRight(again, try again.registerReady(kept, as: "kept"))
    #expect(kept.log.take().given == 1)
    try again.close()
    try site.close(again.core.backend)
  }

  // MARK: - Concurrent writers

  /// Changes random rows.
  private static func stir(_ database: Database, _ random: inout SeededRandom) throws {
    let (kind, begin) = (random.below(12), random.below(rows))
    var others = random
    try database.change { tx in
      switch kind {
      case 0: try tx.removeAll(in: "c")
      case 1: for key in begin..<(begin + 40) { _ = try tx.remove(key: key, in: "c") }
      case 2: try tx.removeAll()
      default:
        for _ in 0..<8 {
          let key = others.below(rows * 2)
          if others.oneIn(3) { _ = try tx.remove(key: key, in: "c") } else { try tx.set("q\(key)", key: key, in: "c") }
        }
        try tx.set("elsewhere", key: begin, in: "d")
      }
    }
    _ = random.next()
    if kind == 3 { try database.dropCollection("c") }
    // There are always many rows, so that every build is large enough.
    if kind < 4 { try fill(database, begin..<(begin + 300)) }
  }

  @Test(arguments: [StorageKind.memory, .disk], 1...6)
  func `a build misses no change that others write in any of its phases`(kind: StorageKind, seed: Int) throws {
    let site = try StorageSite(kind)
    let probe = IngestionProbe(try site.open())
    let database = try Self.open(probe, spill: seed % 2 == 0 ? Self.smallSpill : 1 << 20)
    try Self.fill(database)
    let random = Mutex(SeededRandom(seed: UInt64(seed)))
    let steps = Mutex(0)
    let stir: @Sendable () throws -> Void = {
      guard
        steps.withLock({
          $0 += 1; return $0
        }) < 30
      else { return }
      try random.withLock { random in for _ in 0...random.below(2) { try Self.stir(database, &random) } }
    }
    // Rows are changed after each family's ingestion, and after each chunk, including those of the catch-up.
    probe.whenIngested { _ in try stir() }
    var kept = Kept()
    kept.followsRemovals = seed != 6
    let handle = try database.registerReady(kept, as: "kept") { _ in
      do { try stir() } catch { Issue.record(error, "seed \(seed)") }
    }
    #expect(probe.take().contains("x.1.rows"))
    // An extension that does not handle removals is built again, by puts.
    #expect(kept.log.take().missed > 0 || !kept.followsRemovals)
    try Self.expectRight(database, handle)
    try Self.expectNoRuns(database)
    for _ in 0..<10 { try random.withLock { try Self.stir(database, &$0) } }
    try Self.expectRight(database, handle)
    try database.close()
    try site.close(probe)
  }

  @Test func `an extension is not ready for any reader while it is built`() throws {
    let site = try StorageSite(.disk)
    let database = try Self.open(try site.open(), spill: Self.smallSpill)
    try Self.fill(database)
    let held = HeldBuild { $0.rowsDone >= 600 }
    let handle = try database.core.register(Kept(), "kept", held.progressed)
    held.waitUntilHeld()
    guard case .ingesting(let mark)? = database.core.extensionCatalog.record("kept")?.state else {
      Issue.record("the record does not say that it is built by tables")
      return held.release()
    }
    #expect(mark.runCount > 0)
    let error = #expect(throws: DatabaseError.self) { try database.look { tx in _ = try tx[handle] } }
    #expect(error?.code == .notReady && error?.message.contains("of about 1200") == true)
    // One of these rows is before the build's watermark, and the other is after it.
    try database.change { tx in
      try tx.set("n1", key: 1, in: "c")
      try tx.set("n2", key: Self.rows - 1, in: "c")
    }
    for backend in [try site.openReadOnly(), try site.follow()] {
      let reader = try Database.open(backend, path: "reader")
      #expect(errorCode { _ = try reader.core.register(Kept(), "kept", nil) } == .notReady)
      try reader.close()
    }
    held.release()
    try database.waitReady(handle)
    try Self.expectRight(database, handle)
    let follower = try Database.open(try site.follow(), path: "reader")
    try Self.expectRight(follower, try follower.core.register(Kept(), "kept", nil))
    try follower.close()
    try database.close()
  }

  // MARK: - By puts

  private struct Stop: Error {}
  private static let refused: [String: Kept.Extra] = [
    "reads": { tx, number in if number == 700 { _ = try tx.part("rows").get([1]) } },
    "reads before it writes": { tx, number in if number == 0 { _ = try tx.part("largest").counter([1]) } },
    "looks": { tx, number in if number == 700 { _ = try tx.part("words").first() } },
    "iterates": { tx, number in
      guard number == 700 else { return }
      var cursor = try tx.part("words").cursor()
      _ = try cursor.next()
    },
    "removes": { tx, number in if number == 700 { try tx.part("rows").delete([1]) } },
    "removes of a log": { tx, number in if number == 700 { try tx.part("log").delete([1]) } },
    "removes a range": { tx, number in if number == 700 { try tx.part("rows").deleteRange(StorageRange(upper: [0])) } },
    "uses scratch": { tx, number in if number == 700 { try tx.part("notes").put([1], []) } },
    "sets": { tx, number in if number == 700 { try tx.context.set(.bool(true), for: "is") } },
    "writes a row": { tx, number in
      if number == 700 { try tx.context.writeTransaction?.set("x", key: 1, in: "others") }
    },
    "waits for the commit": { tx, number in if number == 700 { tx.context.writeTransaction?.onCommit {} } },
    "undoes": { tx, number in
      guard number == 700 else { return }
      try? tx.context.writeTransaction?.savepoint {
        try tx.part("words").put([9], [9])
        throw Stop()
      }
    },
  ]

  @Test(arguments: refused.keys.sorted(), [true, false])
  func `an extension that does more than put is built by puts, even if it catches the error`(
    what: String, isHidden: Bool
  ) throws {
    let site = try StorageSite(.memory)
    let probe = IngestionProbe(try site.open())
    let database = try Self.open(probe, spill: Self.smallSpill)
    try Self.fill(database)
    var kept = Kept()
    let extra = try #require(Self.refused[what])
    kept.extra = { tx, number in
      if isHidden { try? extra(tx, number) } else { try extra(tx, number) }
    }
    let handle = try database.registerReady(kept, as: "kept")
    #expect(probe.take().allSatisfy(Self.isRun))
    #expect(kept.log.take().given > Self.rows)
    try Self.expectRight(database, handle)
    try Self.expectNoRuns(database)
    try database.close()
  }

  @Test(arguments: ["few rows", "no feed", "does not catch up", "a dependency", "a volatile part"])
  func `a build uses puts if it can't use tables`(reason: String) throws {
    let probe = IngestionProbe(try StorageSite(.memory).open())
    var options = DatabaseOptions()
    if reason == "no feed" { options.feed = nil }
    let database = try Self.open(probe, options: options)
    try Self.fill(database, 0..<(reason == "few rows" ? 99 : 200))
    // Rows of other collections don't count.
    try database.change { tx in for number in 0..<200 { try tx.set("x", key: number, in: "others") } }
    var kept = Kept()
    if reason == "does not catch up" { kept.configuration.catchesUp = false }
    if reason == "a volatile part" {
      kept.configuration.catchesUp = false
      kept.configuration.parts[0].isVolatile = true
    }
    if reason == "a dependency" {
      try database.registerReady(Scripted(), as: "other")
      kept.configuration.dependencies = ["other"]
    }
    let handle = try database.registerReady(kept, as: "kept")
    #expect(probe.take() == [])
    try Self.expectRight(database, handle)
    try database.close()
  }

  // MARK: - The backend's API

  @Test(arguments: [StorageKind.disk, .memory])
  func `tables are ingested into an empty family entirely and in order, or not at all`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    let backend = try site.open()
    let family = try backend.createFamily("f", options: StorageFamilyOptions())
    let before = try backend.snapshot()
    let entries = (0..<2_000).map { (key: BigEndian.bytes(UInt32($0)), value: Array("v\($0)".utf8)) }
    func put(_ ingestion: any StorageIngestion, _ entry: (key: [UInt8], value: [UInt8])) throws {
      unsafe try ingestion.put(entry.key.span.bytes, entry.value.span.bytes)
    }
    // An ingestion that is not finished must leave no entries.
    let dropped = try backend.beginIngestion(into: family)
    for entry in entries.prefix(10) { try put(dropped, entry) }
    let ingestion = try backend.beginIngestion(into: family)
    for entry in entries { try put(ingestion, entry) }
    #expect(errorCode { try put(ingestion, entries[5]) } == .invalidArgument)
    #expect(try backend.snapshot().value(of: entries[3].key, in: family) == nil)
    try ingestion.finish()
    #expect(try before.value(of: entries[3].key, in: family) == nil)
    let after = try backend.snapshot()
    for entry in entries { #expect(try after.value(of: entry.key, in: family) == entry.value) }
    let second = try backend.beginIngestion(into: family)
    try put(second, ([0xFF], []))
    #expect(errorCode { try second.finish() } == .invalidArgument)
    #expect(try backend.snapshot().value(of: [0xFF], in: family) == nil)
    try backend.close()
    let again = try site.open()
    let found = try #require(try again.families().first { $0.name == "f" })
    #expect(try again.snapshot().value(of: entries[1_999].key, in: found) == entries[1_999].value)
    try site.close(again)
  }
}
