import EngineTestSupport
import Synchronization
import Testing
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of builds by ingested tables that end early, and of how they continue.
struct IngestedBuildEndTests {
  private struct Broken: Error {}
  private final class Flag: Sendable {
    private let flag = Atomic<Bool>(true)
    var isSet: Bool { flag.load(ordering: .sequentiallyConsistent) }
    func clear() { flag.store(false, ordering: .sequentiallyConsistent) }
  }
  private typealias Base = IngestedBuildTests

  private func families(_ database: Database) throws -> [String] {
    try database.core.backend.families().map(\.name).filter { $0.hasPrefix("x.") || Base.isRun($0) }
  }

  /// The error is thrown for a row, or by the check at the end of the build.
  @Test(arguments: [Base.smallSpill, 1 << 20], [550, 1_150, Int.max])
  func `a build that ends with an error leaves no family, and a retry builds all parts`(spill: Int, row: Int) throws {
    let site = try StorageSite(.memory)
    let probe = IngestionProbe(try site.open())
    let database = try Base.open(probe, spill: spill)
    try Base.fill(database)
    var kept = Kept()
    let broken = Flag()
    kept.extra = { _, number in if number == row, broken.isSet { throw Broken() } }
    kept.finish = { if row == .max, broken.isSet { throw Broken() } }
    let handle = try database.core.register(kept, "kept", nil)
    #expect(throws: Broken.self) { try database.waitReady(handle) }
    #expect(database.core.extensionCatalog.record("kept")?.state.isFailed == true)
    #expect(try families(database) == [])
    broken.clear()
    _ = probe.take()
    try database.retry(handle)
    try database.waitReady(handle)
    #expect(probe.take().contains("x.1.rows"))
    try Base.expectRight(database, handle)
    try Base.expectNoRuns(database)
    try database.close()
  }

  /// Builds up to a chunk after 600 rows, closes the database there, and returns the watermark.
  private func interrupted(_ site: StorageSite, _ kept: Kept) throws -> ExtensionRecord.IngestionMark {
    let database = try Base.open(try site.open(), spill: Base.smallSpill)
    try Base.fill(database)
    let held = HeldBuild { $0.rowsDone >= 600 }
    _ = try database.core.register(kept, "kept", held.progressed)
    held.waitUntilHeld()
    let closing = Threads.start(1) { _ in try database.close() }
    while !database.core.isClosing {}
    held.release()
    closing.join()
    guard case .ingesting(let mark)? = database.core.extensionCatalog.record("kept")?.state else {
      throw DatabaseError(.notReady, "no run was written")
    }
    return mark
  }

  /// Returns the number of rows of "c" after a watermark.
  private func left(_ database: Database, after mark: ExtensionRecord.IngestionMark) throws -> Int {
    try database.look { tx in
      var count = 0
      var rows = try tx.rows(in: "c")
      let info = try #require(try tx.info("c"))
      while let row = try rows.next() {
        let key = try info.storageKey(try row.key.key(as: Int.self), limit: 100)
        if ByteOrder.precedes(mark.watermark, info.scanKey(key)) { count += 1 }
      }
      return count
    }
  }

  @Test(arguments: [StorageKind.disk, .memory], [true, false])
  func `a build that is interrupted by a close continues after the last row in its record`(
    kind: StorageKind, isChanged: Bool
  ) throws {
    let site = try StorageSite(kind)
    let kept = Kept()
    let mark = try interrupted(site, kept)
    _ = kept.log.take()
    if isChanged {
      // Another start of the program, which does not register the extension.
      let database = try Base.open(try site.open())
      try database.change { tx in
        for key in stride(from: 0, to: 1_000, by: 7) { _ = try tx.remove(key: key, in: "c") }
        for key in stride(from: 1, to: 1_000, by: 7) { try tx.set("changed", key: key, in: "c") }
      }
      #expect(database.core.extensionCatalog.record("kept")?.state == .ingesting(mark))
      try database.close()
    }
    let database = try Base.open(try site.open())
    let left = try left(database, after: mark)
    #expect(left > 100 && left < 700)
    let handle = try database.registerReady(kept, as: "kept")
    let counts = kept.log.take()
    #expect(counts.given == left)
    #expect((counts.missed > 0) == isChanged)
    try Base.expectRight(database, handle)
    try Base.expectNoRuns(database)
    try database.close()
    try site.close(database.core.backend)
  }

  @Test func `a build continues with its runs if the definition has its parts in another order`() throws {
    let site = try StorageSite(.memory)
    var kept = Kept()
    _ = try interrupted(site, kept)
    kept.configuration.parts.reverse()
    _ = kept.log.take()
    let database = try Base.open(try site.open())
    let handle = try database.registerReady(kept, as: "kept")
    #expect(kept.log.take().given < 700)
    try Base.expectRight(database, handle)
    try Base.expectNoRuns(database)
    try database.close()
    try site.close(database.core.backend)
  }

  @Test func `a build survives the end of the process after the ingestion into any family`() throws {
    let count = Mutex(0)
    // There are more runs than steps, so that the last run does not crash.
    for crash in 0..<100 {
      let site = try StorageSite(.memory)
      let probe = IngestionProbe(try site.open())
      let database = try Base.open(probe, spill: Base.smallSpill)
      try Base.fill(database, 0..<700)
      count.withLock { $0 = 0 }
      let isLeft = Flag()
      let leave: @Sendable () throws -> Void = {
        guard
          count.withLock({
            $0 += 1; return $0 - 1
          }) == crash
        else { return }
        isLeft.clear()
        throw DatabaseError(.storage, "the process ends here")
      }
      probe.whenIngested { _ in try leave() }
      let kept = Kept()
      let handle = try database.core.register(kept, "kept", nil)
      if errorCode({ try database.waitReady(handle) }) == nil {
        #expect(isLeft.isSet && crash > 10)
        try database.close()
        break
      }
      if crash % 3 == 0 {
        // The same session continues the build.
        probe.whenIngested { _ in }
        try database.retry(handle)
        try database.waitReady(handle)
        try Base.expectRight(database, handle)
        try Base.expectNoRuns(database)
      }
      try database.change { tx in try tx.set("later", key: 3, in: "c") }
      try site.abandon()
      try database.close()
      let again = try Base.open(try site.open(), spill: Base.smallSpill)
      // Opening must keep the runs that the record names.
      let record = again.core.extensionCatalog.record("kept")
      #expect(try families(again).filter(Base.isRun).allSatisfy { record?.keepsSpill($0) ?? false })
      try Base.expectRight(again, try again.registerReady(kept, as: "kept"))
      try Base.expectNoRuns(again)
      try again.close()
      try site.close(again.core.backend)
    }
  }

  @Test func `a build starts again once if the feed is trimmed meanwhile`() throws {
    for isReopened in [true, false] {
      let site = try StorageSite(.memory)
      var options = DatabaseOptions()
      options.feed?.sizeMaximum = 1 << 16
      let kept = Kept()
      let trim: @Sendable (Database) throws -> Void = { database in
        for round in 0..<200 {
          try database.change { tx in for key in 0..<100 { try tx.set("r\(round)", key: key, in: "c") } }
        }
      }
      if isReopened {
        _ = try interrupted(site, kept)
        let between = try Base.open(try site.open(), options: options)
        try trim(between)
        try between.close()
      }
      let probe = IngestionProbe(try site.open())
      let database = try Base.open(probe, spill: Base.smallSpill, options: options)
      if !isReopened { try Base.fill(database) }
      let trimmed = Flag()
      _ = kept.log.take()
      let handle = try database.registerReady(kept, as: "kept") { progress in
        guard !isReopened, progress.rowsDone > 900, trimmed.isSet else { return }
        trimmed.clear()
        do { try trim(database) } catch { Issue.record(error) }
      }
      #expect(probe.take().allSatisfy(Base.isRun))
      let given = kept.log.take().given
      #expect(given >= Base.rows && given < 2 * Base.rows + 100)
      try Base.expectRight(database, handle)
      try Base.expectNoRuns(database)
      try database.close()
    }
  }

  @Test func `an extension that is unregistered during its build leaves no family`() throws {
    for phase in ["chunk", "run", "end"] {
      let probe = IngestionProbe(try StorageSite(.memory).open())
      let database = try Base.open(probe, spill: Base.smallSpill)
      try Base.fill(database)
      let isDue = Flag()
      let unregister: @Sendable () throws -> Void = {
        guard isDue.isSet else { return }
        isDue.clear()
        // From another thread, as a program would.
        #expect(Threads.start(1) { _ in _ = try database.core.unregister("kept") }.errorsAtEnd().isEmpty)
      }
      probe.whenIngested { name in if Base.isRun(name) == (phase == "run"), phase != "chunk" { try unregister() } }
      let handle = try database.core.register(Kept(), "kept") { progress in
        if phase == "chunk", progress.rowsDone > 600 { try? unregister() }
      }
      #expect(errorCode { try database.waitReady(handle) } == .unknownExtension)
      while database.core.extensionCatalog.record("kept") != nil {}
      database.core.builds.close()
      #expect(!isDue.isSet)
      #expect(try families(database) == [], "\(phase)")
      try database.close()
    }
  }

  @Test func `a definition that is replaced during its build leaves no run`() throws {
    let site = try StorageSite(.memory)
    let database = try Base.open(try site.open(), spill: Base.smallSpill)
    try Base.fill(database)
    let isDue = Flag()
    let handle = try database.core.register(Kept("1"), "kept") { progress in
      guard progress.rowsDone > 600, isDue.isSet else { return }
      isDue.clear()
      do {
        try database.change { tx in
          try tx.replaceDefinition(of: ExtensionHandle(name: "kept", definition: Kept("1")), by: Kept("2"))
        }
      } catch { Issue.record(error) }
    }
    try database.waitReady(handle)
    #expect(!isDue.isSet)
    try Base.expectRight(database, handle)
    #expect(database.core.extensionCatalog.record("kept")?.tags == ["2"])
    try database.close()
    let again = try Base.open(try site.open())
    try Base.expectRight(again, try again.registerReady(Kept("2"), as: "kept"))
    try Base.expectNoRuns(again)
    #expect(try families(again).allSatisfy { $0.hasPrefix("x.1~1.") })
    try again.close()
    try site.close(again.core.backend)
  }

  @Test func `a build starts again without the runs if the extension has another version`() throws {
    let site = try StorageSite(.memory)
    _ = try interrupted(site, Kept("1"))
    let database = try Base.open(try site.open())
    let kept = Kept("2")
    let handle = try database.registerReady(kept, as: "kept")
    #expect(kept.log.take().given == Base.rows)
    try Base.expectRight(database, handle)
    try Base.expectNoRuns(database)
    try database.close()
    try site.close(database.core.backend)
  }
}
