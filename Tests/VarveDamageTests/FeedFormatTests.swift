import EngineTestSupport
import Testing
import VarveEngine

@testable import ObjectFixtures
@testable import Varve

/// Tests of the bytes of the feed.
struct FeedFormatTests {
  private static let family = StorageFamily(name: "objects", number: 1)

  private static func info(_ id: UInt32, isOwn: Bool = false) -> CollectionInfo {
    CollectionInfo(
      name: "c\(id)", record: CollectionRecord(id: id, coder: 0, isOwn: isOwn, keyType: "string"), coders: CoderTable(),
      objects: family, metadata: family, definition: nil, versions: VersionNumbers())
  }

  private static func pending(
    _ changes: ChangeRecorder, label: String? = nil, custom: [UInt8]? = nil, time: Int64 = 0
  ) -> PendingChangeSet {
    PendingChangeSet(changes: changes, label: label, custom: custom, time: time)
  }

  // MARK: - Encoding

  @Test func `an entry and a record of the feed have the bytes of the format`() throws {
    var changes = ChangeRecorder()
    changes.noteCleared(Self.info(2))
    changes.note(.inserted, Self.info(300).prefix + [0x11, 0x61, 0x00], Self.info(300))
    let entries = FeedWriter(Self.pending(changes, label: "ab", custom: [7], time: 300)).entries(offset: 5)
    #expect(
      entries == [
        [
          1, 0b1101,  // format, flags: last, label, custom object
          5,  // bytes of the segment before it
          0xAC, 2,  // 300 s
          2, 0x61, 0x62,  // label
          1, 7,  // custom object
          2,  // collections
          2, 1,  // 2: no rows, cleared
          0xAC, 2, 2,  // 300: one row
          13, 3, 0x11, 0x61, 0x00,  // inserted, key
        ]
      ])
    #expect(
      FeedRecord(
        trimmedThrough: 0x0102, segments: [FeedRecord.Segment(last: CommitVersion(0x0304), size: 5, time: 6)]
      ).bytes == [1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1]
        + [0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 6])
    #expect(FeedKey.stamped(part: 258) == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2])
  }

  @Test func `a changed row takes about twenty bytes`() throws {
    let database = try Database.inMemory()
    let ids = (0..<1_000).map { _ in UUIDKey.random() }
    try database.change { tx in
      for id in ids { try tx.set(ChangedNote(""), key: id, in: "notes") }
    }
    #expect(database.core.feed.size < 1_000 * 20 + 40)
    let before = database.core.feed.size
    for id in ids[..<100] { try database.change { try $0.touchRow(key: id, in: "notes") } }
    #expect(database.core.feed.size - before < 100 * 50)
  }

  @Test func `changes are read as they were recorded, whatever they are`() throws {
    var random = seededRandom("feed entries", 0x5EED_0001)
    for _ in 0..<200 {
      var expected: [UInt32: FeedEntry.Collection] = [:]
      var changes = ChangeRecorder()
      if random.oneIn(10) { changes.noteEverythingRemoved([Self.info(9)]) }
      if random.oneIn(10) { expected[9] = changes.isEverythingRemoved ? .init(id: 9, isCleared: true) : nil }
      if changes.isEverythingRemoved { expected[9] = FeedEntry.Collection(id: 9, isCleared: true) }
      for id in 1...UInt32(1 + random.below(4)) {
        let info = Self.info(id * 1_000, isOwn: random.oneIn(3))
        var collection = FeedEntry.Collection(id: info.record.id)
        if random.oneIn(4) {
          changes.noteCleared(info)
          collection.isCleared = true
        }
        for row in 0..<random.below(60) {
          let key = BigEndian.bytes(UInt16(row)) + [UInt8](repeating: 0xFF, count: random.below(200))
          let change = RowChange.Event(rawValue: UInt8(random.below(8))) ?? .removed
          changes.note(change, info.prefix + key, info)
          collection.rows.append(FeedEntry.Row(state: RowState(change, before: nil), key: key))
        }
        if collection.isCleared || !collection.rows.isEmpty { expected[collection.id] = collection }
      }
      let label = random.oneIn(2) ? String(repeating: "é", count: random.below(100)) : nil
      let custom = random.oneIn(2) ? [UInt8](repeating: 1, count: random.below(300)) : nil
      let offset = random.next() >> UInt64(random.below(64))
      let writer = FeedWriter(
        Self.pending(changes, label: label, custom: custom, time: 1 << 40), partSize: 1 + random.below(2_000))
      let entries = try writer.entries(offset: offset & (1 << 50 - 1)).map { try FeedEntry($0) }
      #expect(entries.map(\.isLast) == entries.indices.map { $0 == entries.count - 1 })
      #expect(entries.first?.label == label && entries.first?.custom == custom)
      #expect(entries.dropFirst().allSatisfy { $0.label == nil && $0.custom == nil && !$0.isEverythingCleared })
      #expect(entries.first?.isEverythingCleared == changes.isEverythingRemoved)
      var found: [UInt32: FeedEntry.Collection] = [:]
      for collection in entries.flatMap(\.collections) {
        found[collection.id, default: FeedEntry.Collection(id: collection.id)].rows += collection.rows
        if collection.isCleared { found[collection.id]?.isCleared = true }
      }
      for id in found.keys { found[id]?.rows.sort { ByteOrder.precedes($0.key, $1.key) } }
      for id in expected.keys { expected[id]?.rows.sort { ByteOrder.precedes($0.key, $1.key) } }
      #expect(found == expected)
    }
  }

  // MARK: - Parts

  @Test func `a commit of more than 10,000 rows has several parts, and is read as one`() throws {
    let database = try Database.inMemory()
    try database.change("large") { tx in
      try tx.setCustomObject(1)
      try tx.set(ChangedNote(""), key: "only", in: "others")
      for number in 0..<25_000 { try tx.set(ChangedNote(""), key: number, in: "numbers") }
    }
    try database.put("next")
    let snapshot = try database.core.backend.snapshot()
    var cursor = FamilyCursor(
      FeedKey.range(after: .zero), in: database.core.catalog.families.feed, of: snapshot, isReverse: false)
    var parts: [UInt32] = []
    while let (key, value) = try cursor.next() {
      parts.append(try FeedKey.parse(key).part)
      #expect(try FeedEntry(value).collections.reduce(0) { $0 + $1.rows.count } <= 10_000)
    }
    #expect(parts == [0, 1, 2, 0])
    let events = try database.feedEvents()
    #expect(events.count == 2)
    let large = try #require(events.first?.changes)
    #expect(large.label == "large")
    #expect(try large.customObject(as: Int.self) == 1)
    #expect(try large.insertedKeys(in: "numbers").map { try $0.key(as: Int.self) } == Array(0..<25_000))
    #expect(large.insertedKeys(in: "others").map(\.string) == ["only"])
    #expect(events.last?.text == "+next")
    // A limit applies between commits, never within one.
    #expect(try database.feedEvents(limit: 1).first?.changes?.rowCount == 25_001)
  }

  @Test func `long keys produce more parts, and each is within its limit`() throws {
    let info = Self.info(1)
    var changes = ChangeRecorder()
    for number in 0..<100 {
      changes.note(.updated, info.prefix + [UInt8(number)] + [UInt8](repeating: 7, count: 1_000), info)
    }
    let entries = FeedWriter(Self.pending(changes), partSize: 10_000).entries(offset: 0)
    #expect(entries.count == 12)
    #expect(entries.allSatisfy { $0.count < 10_100 })
    // Each entry stores the size of the keys and values of those before it.
    let offsets = try entries.map { try FeedEntry($0).offset }
    let sizes = entries.map { UInt64($0.count + 12) }
    #expect(offsets == entries.indices.map { sizes[..<$0].reduce(0, +) })
  }

  @Test func `a label or an object that exceeds the storage's limit fails the commit`() throws {
    let engine = try Engine.open(at: "/small", environment: .inMemory())
    let database = try Database.open(SmallBackend(try EngineBackend(engine)), path: "/small")
    let thrown = #expect(throws: DatabaseError.self) {
      try database.change { tx in
        try tx.setCustomObject(String(repeating: "x", count: 5_000))
        try tx.set(ChangedNote(""), key: "a", in: "notes")
      }
    }
    #expect(thrown?.code == .valueTooLong)
    #expect(try database.look { try $0.count() } == 0)
    try database.put("b")
    #expect(try database.feedEvents().map(\.text) == ["+b"])
  }

  // MARK: - Damage

  /// Returns valid entries and records, which the tests damage.
  private static func samples() -> [[UInt8]] {
    var changes = ChangeRecorder()
    for number in 0..<20 {
      changes.note(.inserted, info(1).prefix + Array("key \(number)".utf8), info(1))
      changes.note(.removed, info(700).prefix + Array("key \(number)".utf8), info(700))
    }
    let writer = FeedWriter(pending(changes, label: "ä label", custom: Array("custom".utf8), time: 1_700_000_000))
    let record = FeedRecord(
      trimmedThrough: 77,
      segments: (1...5).map { FeedRecord.Segment(last: CommitVersion(100 * $0), size: $0, time: Int64($0)) })
    return writer.entries(offset: 1 << 20) + [record.bytes]
  }

  /// Reads bytes as each kind of data in the feed: throws only expected errors, and never crashes. Returns how many
  /// kinds accepted them.
  @discardableResult
  private static func read(_ bytes: [UInt8]) -> Int {
    var count = 0
    for read in [
      { (bytes: [UInt8]) throws in _ = try FeedEntry(bytes) }, { _ = try FeedRecord($0) },
      { _ = try FeedKey.parse($0) },
    ] {
      do {
        try read(bytes)
        count += 1
      } catch let error as DatabaseError where error.code == .corruption || error.code == .unsupportedVersion {
        continue
      } catch {
        Issue.record("\(error) for \(bytes)")
      }
    }
    return count
  }

  @Test func `every prefix of an entry or a record is refused`() {
    let samples = Self.samples()
    for (index, sample) in samples.enumerated() {
      func read(_ bytes: [UInt8]) throws {
        if index < samples.count - 1 { _ = try FeedEntry(bytes) } else { _ = try FeedRecord(bytes) }
      }
      #expect(throws: Never.self) { try read(sample) }
      for count in 0..<sample.count {
        #expect(throws: DatabaseError.self) { try read(Array(sample[..<count])) }
      }
      #expect(throws: DatabaseError.self) { try read(sample + [0]) }
    }
  }

  @Test func `flipped and random bytes are read or refused, and nothing else`() {
    var random = seededRandom("feed damage", 0x5EED_0002)
    for sample in Self.samples() {
      for index in sample.indices {
        for bit in 0..<8 {
          var flipped = sample
          flipped[index] ^= 1 << bit
          Self.read(flipped)
        }
      }
      for _ in 0..<5_000 {
        var mixed = sample
        for _ in 0..<(1 + random.below(6)) { mixed[random.below(mixed.count)] = UInt8(random.below(256)) }
        if random.oneIn(3) { mixed.removeLast(random.below(mixed.count)) }
        Self.read(mixed)
      }
    }
    for _ in 0..<20_000 {
      var bytes = (0..<random.below(64)).map { _ in UInt8(random.below(256)) }
      if !bytes.isEmpty { bytes[0] = 1 }
      Self.read(bytes)
    }
  }

  @Test func `excessive counts and sizes allocate no memory`() {
    let huge: [UInt8] = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]
    // The damaged counts are those of collections, rows, a key and a label.
    #expect(Self.read([1, 1, 0, 0] + huge) == 0)
    #expect(Self.read([1, 1, 0, 0, 1, 1] + huge) == 0)
    #expect(Self.read([1, 1, 0, 0, 1, 1, 2, 13] + huge) == 0)
    #expect(Self.read([1, 5, 0, 0] + huge) == 0)
    #expect(Self.read([1, 0] + [UInt8](repeating: 0xFF, count: 12)) == 0)
  }

  @Test func `a state that no transaction leaves is invalid`() {
    var reachable: Set<RowState> = []
    // The events that are possible for an existing row, and those for a missing one.
    let ifThere = (0..<8).compactMap { RowChange.Event(rawValue: $0) }.filter { $0 != .inserted }
    var fresh = (ifThere + [.inserted]).map { RowState($0, before: nil) }
    while let state = fresh.popLast() {
      guard reachable.insert(state).inserted else { continue }
      fresh += (state.isRemoved ? [.inserted] : ifThere).map { RowState($0, before: state) }
    }
    for bits in UInt8.min...UInt8.max {
      let state = RowState(bits: bits)
      #expect(state.map { reachable.contains($0) } ?? !reachable.contains { $0.bits == bits })
      #expect(state.map { $0.bits == bits } ?? true)
    }
  }
}

extension FeedRecord {
  fileprivate init(trimmedThrough: UInt64, segments: [Segment]) {
    self.init()
    self.trimmedThrough = CommitVersion(trimmedThrough)
    self.segments = segments
  }
}

extension FeedWriter {
  fileprivate func entries(offset: UInt64) -> [[UInt8]] {
    var entries: [[UInt8]] = []
    forEachEntry(offset: offset) { part, write in
      #expect(part == entries.count)
      var entry: [UInt8] = []
      write(&entry)
      entries.append(entry)
      return entry.count
    }
    return entries
  }
}
