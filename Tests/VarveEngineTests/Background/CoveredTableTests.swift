import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests that tables that are completely covered by range tombstones are dropped without being read.
struct CoveredTableTests {
  private static let options: EngineOptions = {
    var options = EngineTests.options(memtableSize: 64 << 10)
    options.compression = CompressionKind.none
    options.deadRunMinimum = 0
    return options
  }()

  /// Identifiers of tables are random: each opening draws other ones.
  private static func engine(
    seed: UInt64, _ executor: SteppedExecutor, on disk: any FileSystem = MemoryFileSystem()
  ) throws -> Engine {
    let random = Mutex(SeededRandom(seed: seed))
    return try Engine.open(
      at: "/db", options: options,
      environment: EngineEnvironment(
        fileSystem: disk, clock: executor.clock, random: { random.withLock { $0.next() } },
        makeExecutor: { _ in executor }))
  }

  private static func fill(_ engine: Engine, _ range: Range<Int>) throws {
    for index in range { try engine.put(ObservedEngine.key(index), [UInt8](repeating: 7, count: 300)) }
    try engine.compact()
  }

  private static func fileCount(_ engine: Engine) -> Int { engine.statistics.levels.reduce(0) { $0 + $1.fileCount } }

  @Test func `a seek does not open tables that a memtable's range tombstone covers completely`() throws {
    let disk = CountingFileSystem()
    var engine = try Self.engine(seed: 1, SteppedExecutor(seed: 1), on: disk)
    try Self.fill(engine, 0..<5_000)
    #expect(Self.fileCount(engine) >= 10)
    try engine.close()

    engine = try Self.engine(seed: 2, SteppedExecutor(seed: 2), on: disk)
    try engine.put(ObservedEngine.key(4), [1])
    try engine.deleteRange(from: ObservedEngine.key(0), to: ObservedEngine.key(4_990))
    try engine.put(ObservedEngine.key(4_000), [2])
    try engine.put(ObservedEngine.key(6_000), [3])
    let opened = disk.openedCount
    let live = [4_000] + Array(4_990..<5_000) + [6_000]
    for start in [nil, 0, 17, 3_999, 4_000] {
      var cursor = try engine.cursor()
      if let start { try cursor.seek(ObservedEngine.key(start)) } else { try cursor.seekToFirst() }
      var found: [[UInt8]] = []
      while cursor.isValid {
        found.append(cursor.keyBytes)
        try cursor.next()
      }
      #expect(found == live.map(ObservedEngine.key), "from \(start.map(String.init) ?? "the first")")
    }
    var bounded = try engine.cursor(
      bounds: CursorBounds(lower: ObservedEngine.key(100), upper: ObservedEngine.key(3_900)))
    try bounded.seekToFirst()
    let isAnythingThere = bounded.isValid
    #expect(!isAnythingThere)
    #expect(disk.openedCount <= opened + 1, "the last table, alone")
    try engine.close()
  }

  @Test
  func `layout 7: tables that a range delete covers completely are dropped unread, and partly covered ones are not`()
    throws
  {
    let disk = CountingFileSystem()
    var engine = try Self.engine(seed: 1, SteppedExecutor(seed: 1), on: disk)
    try Self.fill(engine, 0..<5_000)
    let files = Self.fileCount(engine)
    #expect(files >= 10)
    try engine.close()

    let executor = SteppedExecutor(seed: 2)
    engine = try Self.engine(seed: 2, executor, on: disk)
    let (first, end) = (ObservedEngine.key(100), ObservedEngine.key(4_900))
    try engine.deleteRange(from: first, to: end)
    try engine.flush()
    let opened = disk.openedCount
    let work = engine.statistics.work
    executor.runAll()
    let dropped = Int(engine.statistics.work.droppedUnreadCount)
    #expect(dropped >= files - 4 && dropped < files, "but for the tables at both ends")
    #expect(Self.fileCount(engine) == files - dropped + 1)
    #expect(engine.statistics.work.bytesCompactionRead == work.bytesCompactionRead)
    // Only the table with the tombstone may be opened, to find out what it covers.
    #expect(disk.openedCount <= opened + 1)
    #expect(try engine.content()["default"]?.count == 200)
    #expect(try engine.verify().faults.isEmpty)
    try engine.close()
    // The result is the same after the next opening.
    engine = try Self.engine(seed: 3, SteppedExecutor(seed: 3), on: disk)
    #expect(try engine.content()["default"]?.count == 200)
    try engine.compact()
    let rest = try engine.content()["default"] ?? []
    #expect(rest.count == 200, "\(rest.map { String(decoding: $0.key, as: UTF8.self) })")
    try engine.close()
  }

  @Test func `covered tables are kept for a snapshot or its cursor, and dropped after the release`() throws {
    let executor = SteppedExecutor(seed: 4)
    let engine = try Self.engine(seed: 4, executor)
    try Self.fill(engine, 0..<3_000)
    var snapshot: EngineSnapshot? = engine.snapshot()
    try engine.deleteRange(from: ObservedEngine.key(0), to: ObservedEngine.key(3_000))
    try engine.flush()
    executor.runAll()
    #expect(engine.statistics.work.droppedUnreadCount == 0)
    var cursor = try engine.cursor(snapshot: snapshot)
    try cursor.seekToFirst()
    #expect(cursor.keyBytes == ObservedEngine.key(0))
    let other = cursor
    #expect(other.sequence == snapshot?.sequence)
    snapshot = nil
    executor.runAll()
    #expect(engine.statistics.work.droppedUnreadCount == 0, "the cursor is there still")
    Self.end(other)
    executor.runAll()
    #expect(engine.statistics.work.droppedUnreadCount > 5)
    #expect(try engine.content()["default"]?.isEmpty == true)
    try engine.close()
  }

  private static func end(_ cursor: consuming EngineCursor) {}

  @Test func `bottommost tombstones that only a snapshot kept are dropped after its release`() throws {
    let executor = SteppedExecutor(seed: 6)
    let engine = try Self.engine(seed: 4, executor)
    try Self.fill(engine, 0..<1_000)
    var snapshot: EngineSnapshot? = engine.snapshot()
    for index in 0..<1_000 { try engine.delete(ObservedEngine.key(index)) }
    try engine.compact()
    executor.runAll()
    #expect(engine.statistics.levels.reduce(0) { $0 + $1.tombstoneCount } > 0)
    withExtendedLifetime(snapshot) {}
    snapshot = nil
    executor.runAll()
    #expect(engine.statistics.levels.reduce(0) { $0 + $1.tombstoneCount } == 0)
    #expect(Self.fileCount(engine) == 0)
    try engine.close()
  }

  // MARK: - The rule

  private static func table(
    _ number: UInt64, _ smallest: String, _ largest: String, sequences: ClosedRange<UInt64>, rangeTombstones: UInt64 = 0
  ) -> TableMetadata {
    Array(smallest.utf8).withByteView { low in
      Array(largest.utf8).withByteView { high in
        TableMetadata(
          number: FileNumber(number), fileSize: 1_000, tableID: number, smallestKey: low,
          smallestTrailer: Trailer(SequenceNumber(sequences.upperBound), .put), largestKey: high,
          largestTrailer: Trailer(SequenceNumber(sequences.lowerBound), .put),
          smallestSequence: SequenceNumber(sequences.lowerBound), largestSequence: SequenceNumber(sequences.upperBound),
          entryCount: 10, rangeTombstoneCount: rangeTombstones, rawSize: 1_000)
      }
    }
  }

  private static func list(_ fragments: [(String, String, [UInt64])]) -> RangeTombstoneList {
    var builder = RangeTombstoneListBuilder()
    for (start, end, sequences) in fragments {
      Array(start.utf8).withByteView { start in
        Array(end.utf8).withByteView { end in builder.append(start, end, sequences) }
      }
    }
    return RangeTombstoneList(builder)
  }

  /// Returns whether a table from c to k with the sequences 5 to 9 is covered by the fragments, if `oldest` is the
  /// oldest visible sequence.
  private static func isCovered(_ fragments: [(String, String, [UInt64])], oldest: UInt64 = 100) -> Bool {
    let table = table(1, "c", "k", sequences: 5...9)
    let cover = self.table(2, "a", "z", sequences: 10...50, rangeTombstones: UInt64(fragments.count))
    let list = list(fragments)
    let version = Version(
      levelZero: LevelZero([cover]), runs: [SortedRun([table])] + (2..<Limits.levelCount).map { _ in SortedRun([]) })
    var covered = CoveredTables()
    covered.update(to: version, oldestSnapshot: SequenceNumber(oldest)) { $0 === cover ? list : nil }
    return !covered.idle(in: version, CompactionsInProgress()).isEmpty
  }

  @Test func `a table is covered only if newer tombstones that every reader sees cover all of its range`() {
    #expect(Self.isCovered([("c", "l", [10])]))
    #expect(Self.isCovered([("a", "d", [10]), ("d", "k", [11]), ("k", "z", [12, 3])]), "one after the other")
    #expect(!Self.isCovered([("c", "k", [10])]), "the end is excluded")
    #expect(!Self.isCovered([("cc", "l", [10])]), "it begins too late")
    #expect(!Self.isCovered([("a", "d", [10]), ("e", "l", [10])]), "a gap")
    #expect(!Self.isCovered([("c", "l", [9])]), "a table may hold an entry that is as new")
    #expect(!Self.isCovered([("a", "d", [10]), ("d", "l", [8])]), "one is older")
    #expect(!Self.isCovered([("c", "l", [10])], oldest: 9), "someone sees less")
    #expect(Self.isCovered([("c", "l", [20, 10])], oldest: 15), "the older one is seen by all")
    #expect(!Self.isCovered([("c", "l", [20])], oldest: 15))
  }

  // MARK: - The end

  /// A job that finds no work, and schedules another one as long as work is due, would keep a thread busy until the
  /// last flush of a close has ended.
  @Test func `no pick of a compaction is scheduled while the engine closes`() throws {
    let executor = SteppedExecutor(seed: 9)
    let engine = try Self.engine(seed: 9, executor)
    try Self.fill(engine, 0..<300)
    executor.runAll()
    let background = engine.core.background
    let families = background.registry.all.map(\.id)
    #expect(!families.isEmpty)
    background.compactions.didChange(families)
    #expect(background.compactions.state.withLock { $0.isPickScheduled })
    executor.runAll()
    background.state.withLock { $0.isClosing = true }
    background.compactions.didChange(families)
    #expect(background.compactions.state.withLock { !$0.isPickScheduled && !$0.changed.isEmpty })
    try engine.close()
  }

  // MARK: - The look at the oldest sequence

  /// A pick must read the oldest sequence only once: between two reads, a snapshot and a newer commit could be made.
  @Test func `a snapshot that is made during a pick keeps the tables that it sees`() throws {
    let executor = SteppedExecutor(seed: 8)
    let engine = try Self.engine(seed: 8, executor)
    try Self.fill(engine, 0..<3_000)
    executor.runAll()
    let snapshots = engine.core.background.snapshots
    let between = Between(engine)
    // The function runs once, at the next time that a pick reads the snapshots.
    snapshots.whenLooked.set { between.run() }
    try engine.put(ObservedEngine.key(9_999), [1])
    try engine.flush()
    executor.runAll()
    #expect(between.failure == nil)
    let snapshot = try #require(between.snapshot)
    var cursor = try engine.cursor(snapshot: snapshot)
    try cursor.seekToFirst()
    var count = 0
    while cursor.isValid {
      count += 1
      try cursor.next()
    }
    #expect(count >= 3_000, "the snapshot is older than the range delete")
    #expect(engine.statistics.work.droppedUnreadCount == 0)
    Self.end(cursor)
    try engine.close()
  }

  /// The events between two reads: a snapshot is taken, everything is deleted after it, and the deletes are flushed
  /// to tables.
  private final class Between: Sendable {
    private struct State {
      var hasRun = false
      var snapshot: EngineSnapshot?
      var failure: EngineError?
    }

    private let engine: Engine
    private let state = Mutex(State())

    init(_ engine: Engine) { self.engine = engine }

    var snapshot: EngineSnapshot? { state.withLock { $0.snapshot } }
    var failure: EngineError? { state.withLock { $0.failure } }

    func run() {
      let isFirst = state.withLock { state in
        defer { state.hasRun = true }
        return !state.hasRun
      }
      guard isFirst else { return }
      state.withLock { $0.snapshot = engine.snapshot() }
      do throws(EngineError) {
        try engine.deleteRange(from: ObservedEngine.key(0), to: ObservedEngine.key(3_000))
        try engine.flush()
      } catch {
        state.withLock { $0.failure = error }
      }
    }
  }
}
