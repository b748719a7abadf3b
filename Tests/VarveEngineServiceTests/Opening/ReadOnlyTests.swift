import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of engines and followers that may not write, while another engine writes.
struct ReadOnlyTests {
  private static let key: [UInt8] = Array("key".utf8)

  private static func readOnly(_ path: String, _ fileSystem: any FileSystem) throws -> Engine {
    var options = FollowFixture.options
    options.readOnly = true
    return try Engine.open(at: path, options: options, environment: DirectoryImage.environment(fileSystem))
  }

  @Test func `a read-only engine changes no byte and needs no permission`() throws {
    let directory = try TemporaryDirectory()
    for (base, path) in [(MemoryFileSystem() as any FileSystem, "/db"), (PosixFileSystem(), directory.path + "/db")] {
      let fixture = try FollowFixture(base, at: path)
      try fixture.fill(1)
      try fixture.writer.flush()
      try fixture.writer.put(Self.key, [1], durability: .power)
      try fixture.writer.put(Self.key, [2])
      let before = try DirectoryImage(base, at: path)
      let fileSystem = UnwritableFileSystem(base)
      let engine = try Self.readOnly(path, fileSystem)
      #expect(try FollowFixture.content(engine) == FollowFixture.content(fixture.writer))
      #expect(engine.visibleSequence == fixture.writer.visibleSequence)
      #expect(try engine.verify().faults.isEmpty)
      try engine.close()
      let follower = try fixture.follow(fileSystem)
      try follower.catchUp()
      #expect(try DirectoryImage(base, at: path) == before)
      try fixture.writer.put(Self.key, [3])
      #expect(try fixture.isSame(follower))
      if path != "/db" { #expect(follower.engine.explain().contains("polls SHARED each millisecond")) }
      try follower.close()
      #expect(fileSystem.refused.isEmpty, "\(fileSystem.refused)")
      try fixture.writer.close()
    }
  }

  @Test func `files that a writer replaced since the opening are not faults, and a missing live table is one`() throws {
    let fixture = try FollowFixture(MemoryFileSystem(), at: "/db")
    try fixture.fill(0)
    try fixture.writer.flush()
    let engine = try Self.readOnly("/db", fixture.fileSystem)
    for round in 1...3 {
      let first = fixture.writer.core.pipeline.log.oldestNumber
      while fixture.writer.core.pipeline.log.oldestNumber == first { try fixture.fill(round) }
      try fixture.writer.flush()
      try fixture.writer.compact()
      #expect(try engine.verify().faults.isEmpty, "round \(round)")
    }
    let names = try fixture.fileSystem.list("/db").sorted()
    let old = try #require(engine.core.registry.all.first).state.retainView().version
    #expect(old.tableCount > 0 && fixture.writer.statistics.levels.map(\.fileCount).reduce(0, +) > 0)
    // A table that is still named is removed.
    let table = try #require(names.last { $0.hasSuffix(".sst") })
    let later = try Self.readOnly("/db", fixture.fileSystem)
    try fixture.fileSystem.remove("/db/" + table)
    #expect(try later.verify().faults.map(\.file) == ["/db/" + table])
    try later.close()
    try engine.close()
    try? fixture.writer.close()
  }

  @Test func `statistics of a read-only engine and of a follower have the extent of the writer's log`() throws {
    let fixture = try FollowFixture(MemoryFileSystem(), at: "/db")
    let follower = try fixture.follow()
    for round in 0..<3 {
      while fixture.writer.statistics.log.segmentCount < 2 + round { try fixture.fill(round) }
      let expected = fixture.writer.statistics.log
      try follower.catchUp()
      let engine = try Self.readOnly("/db", fixture.fileSystem)
      for log in [follower.engine.statistics.log, engine.statistics.log] {
        #expect(log.segmentCount == expected.segmentCount && log.bytes == expected.bytes)
      }
      #expect(engine.explain().contains("\(expected.bytes) bytes in \(expected.segmentCount) log segments"))
      try engine.close()
    }
    try fixture.writer.flush()
    try follower.catchUp()
    #expect(follower.engine.statistics.log.segmentCount == fixture.writer.statistics.log.segmentCount)
    try follower.close()
    try fixture.writer.close()
  }

  @Test func `a read-only engine stays at its snapshot while the writer continues`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let fixture = try FollowFixture(PosixFileSystem(), at: path)
    try fixture.fill(0)
    try fixture.writer.flush()
    try fixture.writer.put(Self.key, [1])
    let expected = try FollowFixture.content(fixture.writer)
    let engine = try Self.readOnly(path, PosixFileSystem())
    for round in 1..<5 {
      try fixture.fill(round)
      try fixture.writer.compact()
      try fixture.writer.waitForCompaction()
    }
    #expect(try FollowFixture.content(engine) == expected)
    try engine.close()
    try fixture.writer.close()
  }

  /// Returns whether the content is that of a prefix of the writer's commits: the keys up to one have the value of a
  /// round, and the others that of the round before.
  private static func isPrefix(_ content: [String: [[UInt8]: [UInt8]]]) -> Bool {
    let rows = content["default"] ?? [:]
    let rounds = (0..<300).compactMap { index in
      rows[Array("key\(1_000 + index)".utf8)]?.first.map { $0 &- UInt8(truncatingIfNeeded: index) }
    }
    guard let first = rounds.first, let last = rounds.last, rounds.count == 300 else { return false }
    return first - last <= 1 && zip(rounds, rounds.dropFirst()).allSatisfy { $0 >= $1 }
  }

  /// Runs `body`; at its call with number `index`, the writer flushes, compacts and reuses segments. Returns the
  /// number of calls.
  private static func interrupt(
    atCall index: Int, prepare: (FollowFixture, any FileSystem) throws -> Follower?,
    _ body: (FollowFixture, any FileSystem, Follower?) throws -> Follower
  ) throws -> Int {
    let fixture = try FollowFixture(seed: UInt64(index + 1))
    try fixture.fill(1)
    let faults = FaultInjectingFileSystem(fixture.fileSystem)
    let prepared = try prepare(fixture, faults)
    let callsBefore = faults.callCount
    let failure = Mutex<(any Error)?>(nil)
    faults.interrupt(afterCalls: index) {
      do {
        try fixture.fill(4)
        try fixture.writer.compact()
        try fixture.writer.waitForCompaction()
        try fixture.fill(5)
      } catch { failure.withLock { $0 = error } }
    }
    let follower = try body(fixture, faults, prepared)
    #expect(failure.withLock { $0 } == nil)
    #expect(Self.isPrefix(try FollowFixture.content(follower.engine)), "call \(index)")
    let calls = faults.callCount - callsBefore
    #expect(try fixture.isSame(follower), "call \(index)")
    try follower.close()
    try fixture.writer.close()
    return calls
  }

  @Test func `a follower opens while the writer removes and reuses files at any call`() throws {
    var calls = 1
    var index = 0
    while index < calls {
      calls = try Self.interrupt(
        atCall: index,
        prepare: { fixture, _ in
          for round in 2..<4 { try fixture.fill(round) }
          return nil
        },
        { fixture, fileSystem, _ in try fixture.follow(fileSystem) })
      index += 1
    }
    #expect(calls > 10)
  }

  @Test func `a follower's step succeeds while the writer removes and reuses files at any call`() throws {
    var calls = 1
    var index = 0
    while index < calls {
      calls = try Self.interrupt(
        atCall: index,
        prepare: { fixture, fileSystem in
          let follower = try fixture.follow(fileSystem)
          try fixture.fill(2)
          try fixture.writer.flush()
          try fixture.fill(3)
          return follower
        },
        { _, _, follower in
          let follower = try #require(follower)
          try follower.catchUp()
          return follower
        })
      index += 1
    }
    #expect(calls > 5)
  }
}
