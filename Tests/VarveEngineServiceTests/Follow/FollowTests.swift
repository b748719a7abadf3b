import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of what a follower sees while a writer performs every kind of work.
struct FollowTests {
  private static let key: [UInt8] = Array("key".utf8)

  /// Runs `body` on in-memory files, where followers only read the log, and on the real disk, where they are
  /// notified.
  private static func onEach(_ body: (FollowFixture) throws -> Void) throws {
    try body(FollowFixture())
    let directory = try TemporaryDirectory()
    try body(FollowFixture(PosixFileSystem(), at: directory.path + "/db"))
  }

  @Test func `a follower sees each commit whole after its next step`() throws {
    try Self.onEach { fixture in
      let other = try fixture.writer.createFamily("other")
      let follower = try fixture.follow()
      for round in 1...50 {
        var batch = WriteBatch()
        try batch.put(Self.key, [UInt8(round)])
        try batch.put(Self.key, [UInt8(round), 1], in: other)
        if round % 5 == 0 { try batch.delete(Self.key, in: other) }
        let before = try FollowFixture.content(follower.engine)
        try fixture.writer.write(batch)
        #expect(try FollowFixture.content(follower.engine) == before, "it stands still")
        #expect(try fixture.isSame(follower), "round \(round)")
      }
      try follower.close()
      try fixture.writer.close()
    }
  }

  @Test func `a follower continues over flushes, compactions and segments that are used again`() throws {
    try Self.onEach { fixture in
      let early = try fixture.follow()
      for round in 0..<12 {
        try fixture.fill(round)
        if round % 3 == 2 { try fixture.writer.compact() }
        if round % 2 == 0 { #expect(try fixture.isSame(early), "round \(round)") }
      }
      #expect(fixture.writer.statistics.levels.contains { $0.fileCount > 0 })
      #expect(try fixture.isSame(early))
      let late = try fixture.follow()
      #expect(try FollowFixture.content(late.engine) == FollowFixture.content(fixture.writer))
      try early.close()
      try late.close()
      try fixture.writer.close()
    }
  }

  @Test func `entries that the writer flushed leave the follower's memtables`() throws {
    try Self.onEach { fixture in
      let follower = try fixture.follow()
      for round in 0..<6 {
        try fixture.fill(round)
        try follower.catchUp()
      }
      try fixture.writer.put(Self.key, [1])
      try fixture.writer.flush()
      try fixture.writer.put(Self.key, [2])
      try follower.catchUp()
      let entries = follower.engine.statistics.families.reduce(0) { $0 + $1.memTableEntryCount }
      #expect(entries == 1, "the one that is in no table")
      #expect(try fixture.isSame(follower))
      try follower.close()
      try fixture.writer.close()
    }
  }

  @Test func `an entry is never both in a memtable and in a table`() throws {
    try Self.onEach { fixture in
      let follower = try fixture.follow()
      for round in 0..<8 {
        try fixture.fill(round)
        // A part of the entries is flushed by now, and the boundary lies within a memtable of the follower.
        fixture.executor.runAll()
        try follower.catchUp()
        for family in follower.engine.families {
          let view = family.state.retainView()
          let flushed = follower.engine.core.tree.state.families[family.id]?.flushedSequence ?? .zero
          for table in view.frozen + [view.memTable] where !table.isEmpty {
            #expect(table.smallestSequence > flushed, "round \(round)")
          }
        }
        #expect(try fixture.isSame(follower))
      }
      try follower.close()
      try fixture.writer.close()
    }
  }

  @Test func `a follower sees families created, dropped, and created again with the same name`() throws {
    try Self.onEach { fixture in
      let follower = try fixture.follow()
      let first = try fixture.writer.createFamily("x")
      try fixture.writer.put(Self.key, [1], in: first)
      #expect(try fixture.isSame(follower))
      let seen = try follower.engine.family(named: "x")
      var cursor = try follower.engine.cursor(in: seen)
      try fixture.writer.dropFamily(first)
      let second = try fixture.writer.createFamily("x")
      #expect(try follower.engine.get(Self.key, in: seen) == [1], "nothing changes before a step")
      try fixture.writer.put(Self.key, [2], in: second)
      #expect(try fixture.isSame(follower))
      #expect(FollowFixture.code { _ = try follower.engine.get(Self.key, in: seen) } == .familyDropped)
      #expect(try follower.engine.get(Self.key, in: follower.engine.family(named: "x")) == [2])
      try cursor.seekToFirst()
      #expect(cursor.isValid && cursor.valueBytes == [1], "a cursor continues")
      try follower.close()
      try fixture.writer.close()
    }
  }

  @Test func `a rolled MANIFEST is read again, and tables stay open`() throws {
    try Self.onEach { fixture in
      try fixture.fill(0)
      try fixture.writer.flush()
      let follower = try fixture.follow()
      let number = try Manifest.currentNumber(directory: fixture.path, fileSystem: fixture.fileSystem)
      let table = try #require(follower.engine.defaultFamily.state.version.levelZero.tables.first)
      var round = 0
      while try Manifest.currentNumber(directory: fixture.path, fileSystem: fixture.fileSystem) == number {
        let name = String(repeating: "n", count: 200) + "\(round)"
        try fixture.writer.dropFamily(try fixture.writer.createFamily(name))
        if round % 100 == 0 { try follower.catchUp() }
        round += 1
      }
      try fixture.writer.put(Self.key, [1])
      #expect(try fixture.isSame(follower))
      let same = follower.engine.defaultFamily.state.version.levelZero.tables.first
      #expect(same === table, "the metadata, and with it the open file, is the one from before")
      try follower.close()
      try fixture.writer.close()
    }
  }

  @Test func `a follower's snapshots and cursors stay readable after the writer removed their tables`() throws {
    try Self.onEach { fixture in
      try fixture.fill(0)
      try fixture.writer.flush()
      let follower = try fixture.follow()
      let expected = try FollowFixture.content(fixture.writer)
      let snapshot = follower.engine.snapshot()
      var cursor = try follower.engine.cursor()
      for round in 1..<4 {
        try fixture.fill(round)
        try fixture.writer.compact()
        try fixture.writer.waitForCompaction()
        #expect(try fixture.isSame(follower))
      }
      // None of the tables was read before its file was removed.
      #expect(try FollowFixture.content(follower.engine, snapshot) == expected)
      #expect(
        try follower.engine.get(Array("key1000".utf8), snapshot: snapshot)
          == expected["default"]?[Array("key1000".utf8)])
      var count = 0
      try cursor.seekToFirst()
      while cursor.isValid {
        #expect(expected["default"]?[cursor.keyBytes] == cursor.valueBytes)
        count += 1
        try cursor.next()
      }
      #expect(count == 300)
      try follower.close()
      try fixture.writer.close()
    }
  }

  @Test func `a follower's snapshots and cursors see no entry of a later ingestion or a later family`() throws {
    try Self.onEach { fixture in
      let writer = fixture.writer
      let early = try writer.createFamily("early")
      try writer.put(Self.key, [1])
      let follower = try fixture.follow()
      let snapshot = follower.engine.snapshot()
      var cursor = try follower.engine.cursor(in: try follower.engine.family(named: "early"))
      let ingested = try writer.createFamily("ingested")
      let merged = try writer.createFamily("merged")
      for family in [early, ingested] {
        let tables = try writer.makeTableWriter(for: family)
        for index in 0..<100 { try tables.put(Array("key\(1_000 + index)".utf8), [2]) }
        try writer.ingest(try tables.finish(), into: family)
      }
      // A compaction into the last level sets the sequences to zero.
      try fixture.fill(3, in: merged)
      try writer.compact()
      #expect(try fixture.isSame(follower))
      for name in ["early", "ingested", "merged"] {
        let family = try follower.engine.family(named: name)
        let key = Array("key1000".utf8)
        #expect(try follower.engine.get(key, in: family) != nil, "\(name)")
        #expect(try follower.engine.get(key, in: family, snapshot: snapshot) == nil, "\(name)")
        #expect(try follower.engine.multiGet([key], in: family, snapshot: snapshot) == [nil], "\(name)")
        #expect(try !follower.engine.contains(key, in: family, snapshot: snapshot), "\(name)")
      }
      try cursor.seekToFirst()
      let isValid = cursor.isValid
      #expect(!isValid)
      let seen = try FollowFixture.content(follower.engine, snapshot)
      #expect(seen == ["default": [Self.key: [1]], "early": [:], "ingested": [:], "merged": [:]])
      try follower.close()
      try writer.close()
    }
  }

  @Test func `a read of a removed table that was not open fails until the follower's next step`() throws {
    let fixture = try FollowFixture()
    for round in 0..<12 {
      let family = try fixture.writer.createFamily("f\(round)")
      try fixture.writer.put(Self.key, [UInt8(round)], in: family)
      try fixture.writer.flush()
    }
    let follower = try fixture.follow { $0.openTableCount = 16 }
    let last = try follower.engine.family(named: "f11")
    let snapshot = follower.engine.snapshot()
    try fixture.writer.put(Self.key, [77], in: try fixture.writer.family(named: "f11"))
    try fixture.writer.compact()
    try fixture.writer.waitForCompaction()
    #expect(FollowFixture.code { _ = try follower.engine.get(Self.key, in: last) } == .notFound)
    try follower.catchUp()
    #expect(try follower.engine.get(Self.key, in: last) == [77])
    #expect(FollowFixture.code { _ = try follower.engine.get(Self.key, in: last, snapshot: snapshot) } == .notFound)
    #expect(try fixture.isSame(follower))
  }

  @Test func `a commit that waits for its sync, and the commits after it, are announced after the sync`() throws {
    let directory = try TemporaryDirectory()
    let fixture = try FollowFixture(PosixFileSystem(), at: directory.path + "/db")
    let follower = try fixture.follow()
    let first = try fixture.writer.put(Self.key, [1])
    #expect(try follower.catchUp() == first)
    var batch = WriteBatch()
    try batch.put(Self.key, [2])
    let ticket = try fixture.writer.submit(batch, durability: .power)
    let later = try fixture.writer.put(Self.key, [3])
    #expect(try fixture.writer.get(Self.key) == [3])
    #expect(try follower.catchUp() == first)
    #expect(try follower.engine.get(Self.key) == [1])
    try ticket.wait()
    #expect(try follower.catchUp() == later)
    #expect(try follower.engine.get(Self.key) == [3])
    // From here on, commits are announced at once again.
    let next = try fixture.writer.put(Self.key, [4])
    #expect(try follower.catchUp() == next)
    try follower.close()
    try fixture.writer.close()
  }

  @Test func `a follower shows a whole batch when a flush ends within it`() throws {
    let directory = try TemporaryDirectory()
    let fixture = try FollowFixture(PosixFileSystem(), at: directory.path + "/db")
    let other = try fixture.writer.createFamily("other")
    let fileSystem = FaultInjectingFileSystem(PosixFileSystem())
    let follower = try fixture.follow(fileSystem)
    // Between the follower's reads of the page and of the MANIFEST, the default family is flushed, up to the first of
    // a batch's two entries.
    fileSystem.interrupt(afterCalls: 0) {
      for round in UInt8(1)...60 {
        var batch = WriteBatch()
        try? batch.put(Self.key, [round] + [UInt8](repeating: 0, count: 2_000))
        try? batch.put(Self.key, [round], in: other)
        _ = try? fixture.writer.write(batch)
      }
      fixture.executor.runAll()
    }
    try follower.catchUp()
    let family = try follower.engine.family(named: "other")
    let first = try follower.engine.get(Self.key)?.first
    #expect(first != nil, "the flush was met")
    #expect(try follower.engine.get(Self.key, in: family)?.first == first)
    #expect(follower.engine.visibleSequence < fixture.writer.visibleSequence, "and the page was not looked at again")
    #expect(try fixture.isSame(follower))
    try follower.close()
    try fixture.writer.close()
  }

  @Test func `a commit that is not logged is seen when it was flushed`() throws {
    try Self.onEach { fixture in
      let other = try fixture.writer.createFamily("other")
      let follower = try fixture.follow()
      try fixture.writer.put(Self.key, [1])
      var batch = WriteBatch()
      try batch.put(Self.key, [2])
      try batch.put(Self.key, [2], in: other)
      try fixture.writer.write(batch, durability: Durability.none)
      let last = try fixture.writer.put([9], [9])
      #expect(try follower.catchUp() == last, "a gap in sequence is not damage")
      #expect(try follower.engine.get(Self.key) == [1])
      try fixture.writer.flush()
      #expect(try fixture.isSame(follower))
      #expect(try follower.engine.get(Self.key) == [2])
      try follower.close()
      try fixture.writer.close()
    }
  }

  @Test func `a follower continues when the writer closes and opens again`() throws {
    let directory = try TemporaryDirectory()
    for (fileSystem, path) in [
      (MemoryFileSystem() as any FileSystem, "/db"), (PosixFileSystem(), directory.path + "/db"),
    ] {
      var fixture = try FollowFixture(fileSystem, at: path)
      let follower = try fixture.follow()
      for round in 0..<6 {
        try fixture.writer.put(Self.key, [UInt8(round)])
        if round % 2 == 0 { #expect(try fixture.isSame(follower), "round \(round)") }
        if round % 3 == 0 { try fixture.fill(round) }
        try fixture.writer.close()
        fixture = try FollowFixture(fileSystem, at: path, seed: UInt64(round + 2))
        #expect(try fixture.isSame(follower), "round \(round)")
      }
      try follower.close()
      try fixture.writer.close()
    }
  }

  @Test func `a log that continues after a failed sync is followed`() throws {
    let disk = CrashFileSystem(seed: 3)
    let fixture = try FollowFixture(disk)
    let follower = try fixture.follow()
    try fixture.writer.put(Self.key, [0], durability: .power)
    for index in 1..<20 { try fixture.writer.put([UInt8(index)], [UInt8(index)]) }
    #expect(try fixture.isSame(follower), "what the failed sync was to make durable is seen")
    disk.failSyncs(ofPathsEndingIn: ".log")
    #expect(FollowFixture.code { try fixture.writer.put([20], [20], durability: .power) } == .outcomeUnknown)
    try fixture.writer.put([21], [21])
    #expect(try fixture.isSame(follower))
    try fixture.fill(1)
    #expect(try fixture.isSame(follower))
    try follower.close()
    try fixture.writer.close()
  }

  @Test func `a follower throws rewound once commits that it showed are lost`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let fileSystem = PosixFileSystem()
    var fixture = try FollowFixture(fileSystem, at: path)
    try fixture.writer.put(Self.key, [1])
    try fixture.writer.close()
    let before = try DirectoryImage(fileSystem, at: path)
    fixture = try FollowFixture(fileSystem, at: path, seed: 2)
    let follower = try fixture.follow()
    try fixture.writer.put(Self.key, [2])
    #expect(try fixture.isSame(follower))
    try fixture.writer.close()
    // Simulates a loss of power: what was not synced is lost. The page stays, because it is mapped.
    for name in try fileSystem.list(path) where name != "SHARED" { try fileSystem.remove(path + "/" + name) }
    for (name, bytes) in before.files where name != "SHARED" {
      try DirectoryImage.write(bytes, to: path + "/" + name, on: fileSystem)
    }
    fixture = try FollowFixture(fileSystem, at: path, seed: 3)
    try fixture.writer.put(Self.key, [3])
    #expect(FollowFixture.code { try follower.catchUp() } == .rewound)
    #expect(FollowFixture.code { try follower.catchUp() } == .rewound, "for good")
    #expect(try follower.engine.get(Self.key) == [2], "reads see what they saw")
    try follower.close()
    let fresh = try fixture.follow()
    #expect(try fixture.isSame(fresh))
    try fresh.close()
    try fixture.writer.close()
  }

  @Test func `the writer and the follower explain how commits are announced`() throws {
    try Self.onEach { fixture in
      let follower = try fixture.follow()
      let isNotified = fixture.path != "/db"
      #expect(fixture.writer.explain().contains(isNotified ? "notified of commits by SHARED" : "poll the log"))
      #expect(follower.engine.explain().contains(isNotified ? "sleeps on SHARED" : "polls the log"))
      try follower.close()
      try fixture.writer.close()
    }
  }
}
