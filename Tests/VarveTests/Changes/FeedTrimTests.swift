import EngineTestSupport
import Foundation
import Testing
import VarveEngine

@testable import ObjectFixtures
@testable import Varve

/// Tests of the limits of the feed.
struct FeedTrimTests {
  private let time = ManualTime()

  private func options(size: Int = 1 << 16, age: Duration = .seconds(24_000)) -> DatabaseOptions {
    var options = DatabaseOptions()
    options.feed?.sizeMaximum = size
    options.feed?.ageMaximum = age
    options.clock = time.clock
    return options
  }

  /// Returns the size and the versions that are actually stored.
  private func storedSize(_ database: Database) throws -> (size: Int, versions: [CommitVersion]) {
    let snapshot = try database.core.backend.snapshot()
    var cursor = FamilyCursor(
      FeedKey.range(after: .zero), in: database.core.catalog.families.feed, of: snapshot, isReverse: false)
    var size = 0
    var versions: [CommitVersion] = []
    while let (key, value) = try cursor.next() {
      size += key.count + value.count
      versions.append(try FeedKey.parse(key).version)
    }
    return (size, versions)
  }

  private static let text = String(repeating: "k", count: 400)

  @Test func `the feed stays below its size, drops the oldest first, and knows its size`() throws {
    let database = try Database.inMemory(options: options())
    var newest: [CommitVersion] = []
    for number in 0..<1_000 {
      try database.put("\(Self.text)\(number)")
      newest.append(try database.lastVersion())
      if number % 50 == 49 {
        let (size, versions) = try storedSize(database)
        #expect(size <= 1 << 16 && size == database.core.feed.size)
        #expect(versions == Array(newest.suffix(versions.count)))
      }
    }
    // At least three quarters remain, because a segment is a sixteenth.
    #expect(try storedSize(database).size > 3 << 14)
  }

  @Test func `events that are too old are dropped with the next commit, and others stay`() throws {
    let database = try Database.inMemory(options: options(age: .seconds(240)))
    try database.put("old")
    time.advance(150)
    try database.put("middle")
    #expect(try database.feedEvents().map(\.text) == ["+old", "+middle"])
    time.advance(100)
    // The feed is past its age limit, but no commit has trimmed it.
    #expect(try database.feedEvents().map(\.text) == ["+old", "+middle"])
    try database.put("new")
    #expect(try database.feedEvents().map(\.text) == ["gap", "+middle", "+new"])
    time.advance(1_000_000)
    try database.put("last")
    #expect(try database.feedEvents().map(\.text) == ["gap", "+last"])
  }

  @Test func `no event exceeds the age limit as long as there are commits`() throws {
    var random = seededRandom("feed age", 0x5EED_0003)
    let database = try Database.inMemory(options: options(age: .seconds(480)))
    var now: Int64 = 0
    for number in 0..<500 {
      try database.put("k\(number)")
      let dates = try database.feedEvents(limit: 1_000).compactMap { $0.changes?.date.timeIntervalSince1970 }
      #expect(Int64(dates[0]) >= 1_700_000_000 + now - 480)
      #expect(dates.last == Double(1_700_000_000 + now))
      let step = Int64(random.below(40))
      now += step
      time.advance(step)
    }
  }

  @Test func `a lagging subscription receives one gap and continues after it`() async throws {
    let database = try await Database.inMemory(options: options())
    try database.put("first")
    var lagging = database.changes(after: .zero, buffer: 2).makeAsyncIterator()
    var listening = database.changes(buffer: 2).makeAsyncIterator()
    for number in 0..<500 { try database.put("\(Self.text)\(number)") }
    let (_, versions) = try storedSize(database)
    let gap = try await lagging.next()
    guard case .gap(let from, let to) = gap else {
      Issue.record("\(String(describing: gap?.text)) and no gap")
      return
    }
    #expect(from == .zero)
    #expect(to < versions[0])
    for version in versions { #expect(try await lagging.nextChanges().version == version) }
    try database.put("last")
    #expect(try await lagging.next(1) == ["+last"])
    // The other consumer had two events in its buffer, and then the same gap from there.
    #expect(try await listening.next(3).last == "gap")
    for version in try storedSize(database).versions {
      #expect(try await listening.nextChanges().version == version)
    }
    try database.put("very last")
    #expect(try await listening.next(1) == ["+very last"])
  }

  @Test func `a reader that has read up to where the feed was trimmed receives no gap`() throws {
    let database = try Database.inMemory(options: options(age: .seconds(240)))
    try database.put("a")
    let seen = try database.lastVersion()
    time.advance(10_000)
    try database.put("b")
    #expect(try database.feedEvents(after: seen).map(\.text) == ["+b"])
    #expect(try database.feedEvents(after: CommitVersion(seen.number - 1)).map(\.text) == ["gap", "+b"])
  }

  @Test func `after a restart the size of the feed is known`() throws {
    let kept = KeptDatabase(options: options())
    for round in 0..<30 {
      let database = try kept.open()
      #expect(database.core.feed.size == (try storedSize(database).size))
      for number in 0..<20 { try database.put("\(Self.text)\(round) \(number)") }
      if round == 20 {
        try database.change { tx in for number in 0..<12_000 { try tx.set(ChangedNote(""), key: number, in: "numbers") }
        }
      }
      let (size, _) = try storedSize(database)
      #expect(database.core.feed.size == size)
      #expect(round == 20 || size <= 1 << 16)
      try database.endNow()
    }
  }

  @Test func `a commit larger than the feed may be is reported, and dropped with the next`() throws {
    let database = try Database.inMemory(options: options())
    try database.put("before")
    let before = try database.lastVersion()
    try database.change { tx in for number in 0..<20_000 { try tx.set(ChangedNote(""), key: number, in: "numbers") } }
    #expect(try database.feedEvents(after: before).first?.changes?.rowCount == 20_000)
    try database.put("after")
    #expect(try database.feedEvents(after: before).map(\.text) == ["gap", "+after"])
    #expect(database.core.feed.size < 100)
  }

  @Test func `a commit that is refused does not change the feed`() throws {
    let database = try Database.inMemory(options: options())
    try database.put("a")
    let size = database.core.feed.size
    var tries = 0
    try database.besides { tx in
      tries += 1
      _ = try tx.object(ChangedNote.self, key: "a", in: "notes")
      if tries == 1 { try otherThread { try database.put("a", "changed meanwhile") } }
      try tx.set(ChangedNote(""), key: "b", in: "notes")
    }
    #expect(tries == 2)
    #expect(database.core.feed.size == (try storedSize(database).size))
    #expect(database.core.feed.size > size)
    #expect(try database.feedEvents().map(\.text) == ["+a", "~a", "+b"])
  }

  // MARK: - Clocks

  @Test func `a clock that is set back or jumps keeps the record small and the feed complete`() throws {
    var state = FeedState()
    var options = FeedOptions()
    options.ageMaximum = .seconds(1_000_000_000)
    let bounds = FeedState.Bounds(options)
    var version: UInt64 = 0
    for number in 0..<10_000 {
      let now: Int64 = number % 2 == 0 ? 1_000_000 : 500_000_000
      _ = state.prepare(now: now, bounds)
      version += 3
      state.add(size: 100, version: CommitVersion(version), now: now)
      #expect(state.record.segments.count <= ChangeLimits.segmentsMaximum)
    }
    #expect(state.size == 1_000_000)
    #expect(state.record.trimmedThrough == .zero)
    #expect(try FeedRecord(state.record.bytes) == state.record)
  }

  @Test func `events from a clock that was ahead are dropped with the expired ones after them`() {
    var state = FeedState()
    var options = FeedOptions()
    options.ageMaximum = .seconds(240)
    let bounds = FeedState.Bounds(options)
    for (version, now) in [(1, 9_000_000), (2, 1_000), (3, 1_020), (4, 5_000)] as [(UInt64, Int64)] {
      _ = state.prepare(now: now, bounds)
      state.add(size: 100, version: CommitVersion(version), now: now)
    }
    #expect(state.record.trimmedThrough == CommitVersion(3))
    #expect(state.size == 100)
  }

  // MARK: - On and off

  @Test func `commits made without a feed are a gap after it is turned on again`() throws {
    var kept = KeptDatabase(options: options())
    var database = try kept.open()
    try database.put("a")
    let seen = try database.lastVersion()
    try database.endNow()
    kept.options.feed = nil
    database = try kept.open()
    try database.put("b")
    #expect(try database.feedEvents(after: seen).map(\.text) == ["gap"])
    let unrecorded = try database.lastVersion()
    try database.endNow()
    kept.options = options()
    database = try kept.open()
    try database.put("c")
    #expect(try database.feedEvents(after: seen).map(\.text) == ["gap", "+c"])
    #expect(try database.feedEvents(after: unrecorded).map(\.text).last == "+c")
    let last = try database.feedEvents(after: seen)[0].version
    #expect(last >= unrecorded)
    try database.endNow()
    database = try kept.open()
    #expect(try database.feedEvents(after: last).map(\.text) == ["+c"])
  }

  @Test func `missing parts are a gap, and not fewer rows`() throws {
    let kept = KeptDatabase(options: options(size: 64 << 20))
    let database = try kept.open()
    try database.change { tx in for number in 0..<25_000 { try tx.set(ChangedNote(""), key: number, in: "numbers") } }
    let version = try database.lastVersion()
    let backend = try #require(database.core.backend as? EngineBackend)
    let family = database.core.catalog.families.feed
    for part: UInt32 in [2, 1, 0] {
      try backend.remove(BigEndian.bytes(version.number) + BigEndian.bytes(part), family)
      #expect(try database.feedEvents().map(\.text) == (part == 0 ? [] : ["gap"]))
    }
    #expect(try database.feedEvents().isEmpty)
  }
}

extension EngineBackend {
  fileprivate func remove(_ key: [UInt8], _ family: StorageFamily) throws {
    var batch = StorageBatch()
    batch.delete(key, in: family)
    _ = try commit(batch, check: nil, durability: .process)
  }
}
