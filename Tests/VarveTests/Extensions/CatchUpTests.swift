import EngineTestSupport
import Foundation
import Synchronization
import Testing
import VarveEngine

@testable import ObjectFixtures
@testable import Varve

/// A change that an extension receives in a catch-up.
private enum Heard: Hashable {
  case inserted(Int)
  case missed(Int)
  case removesAll
}

/// An extension that keeps the lengths of the notes by their keys, and a log of the changes received.
private struct Lengths: DatabaseExtension {
  static let kind = "test.lengths"
  final class Log: Sendable {
    private let heard = Mutex<[Heard]>([])
    func add(_ event: Heard) { heard.withLock { $0.append(event) } }
    func take() -> [Heard] {
      heard.withLock { heard in
        defer { heard = [] }
        return heard
      }
    }
  }

  var version = "1"
  var catchesUp = true
  var followsRemovals = true
  var stopsAt: String?
  /// Whether the extension itself writes a row whenever it receives one that it missed.
  var marks = false
  let log = Log()
  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: version)
    configuration.scope = .only(["notes", "marks"])
    configuration.parts = [PartDefinition("lengths")]
    configuration.keepsState = true
    configuration.catchesUp = catchesUp
    return configuration
  }
  func makeTransaction(_ context: ExtensionContext<Self>) throws -> LengthsTransaction {
    try LengthsTransaction(self, context)
  }
}

private final class LengthsTransaction: ExtensionTransaction {
  typealias Definition = Lengths
  private let definition: Lengths
  private let context: ExtensionContext<Lengths>
  private let lengths: Part
  /// The writes for the flush, in order: the length of a row by its key, or `nil` to delete it. A `nil` element
  /// deletes all.
  private var pending: [(key: RowKey, length: [UInt8]?)?] = []

  init(_ definition: Lengths, _ context: ExtensionContext<Lengths>) throws {
    self.definition = definition
    self.context = context
    lengths = try context.part("lengths")
  }

  func all() throws -> [[UInt8]: [UInt8]] {
    var all: [[UInt8]: [UInt8]] = [:]
    var cursor = try lengths.cursor()
    while let (key, value) = try cursor.next() { all[key] = value }
    return all
  }

  func didChange(_ change: borrowing RowChange) throws {
    if change.event == .inserted { definition.log.add(.inserted(try number(change.key))) }
    try set(change.key, change.row)
  }

  func didMiss(_ key: RowKey, _ row: Row?) throws {
    definition.log.add(.missed(try number(key)))
    try set(key, row)
    if definition.marks, let writing = context.writeTransaction, try number(key) < 1_000 {
      try writing.set("mark", key: 1_000 + number(key), in: "marks")
    }
  }

  func removesAll(in collection: String?) throws -> Bool {
    // Entries that are stored or pending must not be visible if the extension is rebuilt.
    pending.append(nil)
    try lengths.deleteRange(StorageRange())
    guard collection != nil else { return true }
    definition.log.add(.removesAll)
    return definition.followsRemovals
  }

  func mark() -> Int { pending.count }
  func rollBack(to mark: Int) { pending.removeLast(pending.count - mark) }

  func flush() throws {
    let firstAfterRemoval = pending.lastIndex { $0 == nil }.map { $0 + 1 } ?? 0
    for case (let key, let length)? in pending[firstAfterRemoval...] {
      if let length { try lengths.put(key.bytes, length) } else { try lengths.delete(key.bytes) }
    }
    pending = []
  }

  private func number(_ key: RowKey) throws -> Int { try key.key(as: Int.self) }

  private func set(_ key: RowKey, _ row: Row?) throws {
    let text = try row?.object(as: String.self)
    if let stop = definition.stopsAt, text == stop { throw BadWord() }
    pending.append((key, text.map { [UInt8(clamping: $0.utf8.count)] }))
  }
}

/// Tests of an extension that was not registered for a while: it catches up by the feed, or is rebuilt.
struct CatchUpTests {
  private let directory: TemporaryDirectory
  private var path: String { directory.path + "/db" }

  init() throws { directory = try TemporaryDirectory() }

  private func with<Result>(
    _ options: DatabaseOptions = DatabaseOptions(), _ body: (Database) throws -> Result
  ) throws -> Result {
    let database = try Database.open(at: path, options: options)
    let result = try body(database)
    try database.close()
    return result
  }

  private func fill(_ database: Database, _ range: Range<Int>, _ text: String = "note") throws {
    try database.write { tx in for number in range { try tx.set(text, key: number, in: "notes") } }
  }

  /// Writes 100 rows that the extension receives, and then runs a program without the extension.
  private func begin(_ lengths: Lengths = Lengths(), _ body: (Database) throws -> Void) throws {
    try with { database in
      try fill(database, 0..<100)
      _ = try database.registerReady(lengths, as: "lengths")
    }
    _ = lengths.log.take()
    try with(DatabaseOptions(), body)
  }

  /// Returns the content that the extension should have for the current rows.
  private func expected(_ database: Database) throws -> [[UInt8]: [UInt8]] {
    try database.read { tx in
      var lengths: [[UInt8]: [UInt8]] = [:]
      for collection in ["notes", "marks"] {
        var rows = try tx.rows(in: collection)
        while let row = try rows.next() {
          lengths[row.key.bytes] = [UInt8(clamping: try row.object(as: String.self).utf8.count)]
        }
      }
      return lengths
    }
  }

  private func expectRight(
    _ database: Database, _ handle: ExtensionHandle<Lengths>, location: SourceLocation = #_sourceLocation
  ) throws {
    let kept = try database.read { tx in try tx[handle].all() }
    #expect(try kept == expected(database), sourceLocation: location)
  }

  @Test func `an extension that catches up receives only the changed rows, in their current state`() throws {
    try begin { database in
      try fill(database, 5..<7, "changed")
      try fill(database, 5..<6, "changed again")
      try database.write { tx in
        try tx.remove(key: 9, in: "notes")
        try tx.set("new", key: 200, in: "notes")
        try tx.set("elsewhere", key: 1, in: "others")
      }
      try database.write { tx in
        try tx.remove(key: 200, in: "notes")
        try tx.remove(key: 10, in: "notes")
        try tx.set("again", key: 10, in: "notes")
      }
    }
    try with { database in
      let lengths = Lengths()
      let handle = try database.registerReady(lengths, as: "lengths")
      let heard = lengths.log.take()
      #expect(Set(heard) == [.missed(5), .missed(6), .missed(9), .missed(10), .missed(200)])
      #expect(heard.count == 5, "each once, as far as one chunk goes")
      try expectRight(database, handle)
      #expect(try database.read { tx in try tx[handle].all().count } == 99)
      // The extension receives changes in the ordinary way again.
      try fill(database, 300..<301)
      #expect(lengths.log.take() == [.inserted(300)])
      try expectRight(database, handle)
    }
    // The extension is no longer stale.
    try with { database in
      let lengths = Lengths()
      try expectRight(database, try database.registerReady(lengths, as: "lengths"))
      #expect(lengths.log.take().isEmpty)
    }
  }

  @Test func `an extension that can't catch up is rebuilt`() throws {
    try begin { try fill($0, 5..<7, "changed") }
    try with { database in
      let lengths = Lengths(catchesUp: false)
      try expectRight(database, try database.registerReady(lengths, as: "lengths"))
      #expect(lengths.log.take().count { if case .inserted = $0 { true } else { false } } == 100)
    }
  }

  @Test(arguments: [true, false])
  func `an extension is rebuilt if the feed was trimmed or off`(isTrimmed: Bool) throws {
    var options = DatabaseOptions()
    if isTrimmed { options.feed?.sizeMaximum = 1 << 16 } else { options.feed = nil }
    try with { database in
      try fill(database, 0..<100)
      _ = try database.registerReady(Lengths(), as: "lengths")
    }
    try with(options) { database in
      for round in 0..<200 { try fill(database, 0..<100, "round \(round)") }
      try database.write { tx in try tx.remove(key: 3, in: "notes") }
    }
    try with { database in
      let lengths = Lengths()
      try expectRight(database, try database.registerReady(lengths, as: "lengths"))
      let heard = lengths.log.take()
      #expect(heard.count == 99 && heard.allSatisfy { if case .inserted = $0 { true } else { false } })
    }
  }

  @Test(arguments: [true, false])
  func `an extension that missed the clearing of a collection applies it, or is rebuilt`(followsRemovals: Bool) throws {
    try begin { database in
      // Changes from before the removal are received with the row's state after it.
      try fill(database, 5..<7, "before")
      try database.write { tx in try tx.removeAll(in: "notes") }
      try fill(database, 6..<8, "after")
    }
    try with { database in
      let lengths = Lengths(followsRemovals: followsRemovals)
      try expectRight(database, try database.registerReady(lengths, as: "lengths"))
      let heard = lengths.log.take()
      #expect(heard.contains(.removesAll))
      #expect(heard.contains(.inserted(6)) == !followsRemovals)
      #expect(heard.contains(.inserted(5)) == false)
    }
  }

  @Test func `a collection dropped between two steps removes no rows of others from the catch-up`() throws {
    // This collection has the lower number.
    try with { database in try database.write { tx in try tx.set("a", key: 0, in: "first") } }
    try begin { database in
      try database.write { tx in
        for key in 0..<500 { try tx.set("b", key: key, in: "first") }
        for key in 0..<3_000 { try tx.set("changed", key: key, in: "notes") }
      }
    }
    try with { database in
      let dropped = Mutex(false)
      let lengths = Lengths()
      let handle = try database.registerReady(lengths, as: "lengths") { _ in
        // The drop happens after the first step, somewhere within the only commit.
        guard
          !dropped.withLock({ isDropped in
            defer { isDropped = true }
            return isDropped
          })
        else { return }
        do { try database.dropCollection("first") } catch { Issue.record(error) }
      }
      #expect(dropped.withLock { $0 })
      try expectRight(database, handle)
      #expect(try database.read { tx in try tx[handle].all().count } == 3_000)
    }
  }

  @Test func `an extension that catches up applies the removal of all rows`() throws {
    try begin { database in
      try database.write { tx in
        try tx.removeAll()
        try tx.set("one", key: 1, in: "notes")
      }
    }
    try with { database in
      let lengths = Lengths(followsRemovals: false)
      try expectRight(database, try database.registerReady(lengths, as: "lengths"))
      #expect(lengths.log.take() == [.missed(1)])
    }
  }

  @Test(arguments: ["version", "unfinished"])
  func `an extension with another version, or without a complete earlier build, is rebuilt`(reason: String) throws {
    if reason == "version" {
      try begin { try fill($0, 5..<7, "changed") }
    } else {
      try with { database in
        try fill(database, 0..<2_500)
        // Simulates a process that ends between two chunks.
        struct End: Error {}
        let reached: [UInt8] = [0, 0, 0, 1, 1]
        var record = ExtensionRecord(
          number: 1, state: .building(watermark: reached), ExtensionTraits(Lengths()), versionTag: "1")
        record.parts[0].watermark = reached
        try database.core.write(WriteTerms()) { tx in
          try tx.pending.put(
            CatalogKey.databaseExtension("lengths"), record.bytes, in: database.core.catalog.families.catalog)
        }
      }
      try with { try fill($0, 5..<7, "changed") }
    }
    try with { database in
      let lengths = Lengths(version: reason == "version" ? "2" : "1")
      try expectRight(database, try database.registerReady(lengths, as: "lengths"))
      let heard = lengths.log.take()
      #expect(heard.contains(.inserted(50)) && !heard.contains(.missed(5)))
    }
  }

  @Test func `writers continue between the chunks of a catch-up, which misses none of their changes`() throws {
    try begin { database in
      // One commit with more rows than one part of the feed contains.
      try fill(database, 0..<12_000, "many")
      try fill(database, 12_000..<14_000)
    }
    try with { database in
      let lengths = Lengths()
      let rounds = Mutex(0)
      let handle = try database.registerReady(lengths, as: "lengths") { progress in
        // Called after a chunk, on the thread that catches up. The last chunk makes the extension ready.
        let round = rounds.withLock { rounds in
          rounds += 1
          return rounds
        }
        guard round < 30 else { return }
        try? database.write { tx in
          try tx.set("from a writer", key: round, in: "notes")
          try tx.set("from a writer", key: 20_000 + round, in: "notes")
          try tx.remove(key: 11_000 + round, in: "notes")
        }
      }
      #expect(rounds.withLock { $0 } > 14, "at most 1,000 rows a chunk")
      try expectRight(database, handle)
      #expect(lengths.log.take().count { $0 == .missed(20_001) } == 1)
    }
  }

  @Test func `a catch-up finishes although writers write more between its chunks than a short chunk reads`() throws {
    try begin { try fill($0, 0..<6_000, "missed") }
    try with { database in
      let rounds = Mutex(0)
      let lengths = Lengths()
      let handle = try database.registerReady(lengths, as: "lengths") { progress in
        let round = rounds.withLock { rounds in
          rounds += 1
          return rounds
        }
        #expect(progress.rowsDone <= progress.rowsTotal)
        if round < 40 { try? fill(database, (round * 2_000)..<(round * 2_000 + 2_000), "from a writer \(round)") }
      }
      #expect(rounds.withLock { $0 } < 20)
      try expectRight(database, handle)
    }
  }

  /// Returns the feed position from which the extension has missed changes.
  private func stalePosition(_ database: Database) throws -> FeedPosition {
    guard case .stale(let position?) = database.core.extensionCatalog.record("lengths")?.state else {
      throw BadWord()
    }
    return position
  }

  @Test func `a catch-up continues at its position after a crash between two chunks`() throws {
    try begin { try fill($0, 0..<5_000, "changed") }
    var announced: Set<Heard> = []
    var rest = 0
    for attempt in 0..<2 {
      try with { database in
        let lengths = Lengths(stopsAt: attempt == 0 ? "stop" : nil)
        if attempt == 0 {
          let begin = try stalePosition(database)
          // Each chunk is a commit: one that throws in the middle leaves the state of a process that ended there.
          try database.write { tx in try tx.set("stop", key: 9_000, in: "notes") }
          #expect(throws: BadWord.self) { try database.registerReady(lengths, as: "lengths") }
          // How far the catch-up got depends on the speed of the machine: within the commit, or past it.
          #expect(try begin.bytes.lexicographicallyPrecedes(stalePosition(database).bytes))
          announced = Set(lengths.log.take())
          // The extension is registered, and the feed has this change.
          try fill(database, 7_000..<7_001)
        } else {
          try expectRight(database, try database.registerReady(lengths, as: "lengths"))
          let heard = lengths.log.take()
          rest = heard.count
          #expect(heard.allSatisfy { if case .missed = $0 { true } else { false } })
          #expect(announced.union(heard).count == 5_002)
        }
      }
    }
    #expect(announced.count >= 4_000 && rest <= 1_002)
  }

  /// Opens the database of a simulated machine.
  private static func open(_ disk: CrashFileSystem, seed: UInt64) throws -> Database {
    let executor = SteppedExecutor(seed: seed, clock: ManualClock(1_000_000_000))
    let numbers = Mutex(SeededRandom(seed: seed))
    var options = EngineOptions()
    options.memtableSize = 256 << 10
    options.cacheSize = 1 << 20
    options.logSegmentSize = 256 << 10
    let engine = try Engine.open(
      at: "/db", options: options,
      environment: EngineEnvironment(
        fileSystem: disk, clock: executor.clock, random: { numbers.withLock { $0.next() } },
        makeExecutor: { _ in executor }))
    return try Database.open(try EngineBackend(engine), path: "/db")
  }

  @Test(arguments: ["1", "2"])
  func `an extension is brought up to date after a crash at any step of its catch-up`(version: String) throws {
    let disk = CrashFileSystem(seed: 3)
    var database = try Self.open(disk, seed: 3)
    try fill(database, 0..<100)
    _ = try database.registerReady(Lengths(), as: "lengths")
    try database.close()
    database = try Self.open(disk, seed: 4)
    try fill(database, 0..<1_200, "changed")
    try database.write { tx in try tx.remove(key: 50, in: "notes") }
    let points = Mutex<[CrashPoint]>([])
    disk.observe { _, capture in
      let point = capture()
      points.withLock { $0.append(point) }
    }
    // The extension catches up, or is rebuilt if the version differs.
    _ = try database.registerReady(Lengths(version: version), as: "lengths")
    disk.observe(nil)
    try database.close()
    let found = points.withLock { $0 }
    // The number of steps depends on the machine: a step takes as long as a chunk may occupy the writer.
    #expect(found.count >= 2)
    for (index, point) in found.enumerated() {
      let policy: CrashPolicy = index % 2 == 0 ? .processKill : .keepRandomSectors
      for program in Set(["1", version]) {
        let again = try Self.open(point.image(seed: UInt64(index), policy: policy), seed: UInt64(index))
        let handle = try again.registerReady(Lengths(version: program), as: "lengths")
        try expectRight(again, handle)
        try again.close()
      }
    }
  }

  @Test func `an extension that catches up also receives the rows that it writes itself`() throws {
    try begin { try fill($0, 5..<7, "changed") }
    try with { database in
      let lengths = Lengths(marks: true)
      try expectRight(database, try database.registerReady(lengths, as: "lengths"))
      #expect(Set(lengths.log.take()) == [.missed(5), .missed(6), .missed(1_005), .missed(1_006)])
    }
  }

  @Test func `corruption of the feed leads to a rebuild, and not to wrong contents`() throws {
    try begin { database in
      try fill(database, 5..<7, "changed")
      try fill(database, 8..<9, "changed")
    }
    try with { database in
      let feed = database.core.catalog.families.feed
      var cursor = FamilyCursor(
        FeedKey.range(after: .zero), in: feed, of: try database.core.backend.snapshot(), isReverse: true)
      let last = try #require(try cursor.next())
      var batch = StorageBatch()
      batch.put(last.key, [UInt8](last.value.dropLast(2)), in: feed)
      _ = try database.core.backend.commit(batch, check: nil, durability: .process)
      let lengths = Lengths()
      try expectRight(database, try database.registerReady(lengths, as: "lengths"))
      #expect(lengths.log.take().contains(.inserted(50)))
    }
  }
}
