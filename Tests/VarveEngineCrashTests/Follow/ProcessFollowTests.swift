import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of real processes on the real disk: one writes, and others follow.
struct ProcessFollowTests {
  private static let scale = UInt64(TestScale.value)
  /// A time that no wait reaches.
  private static let day: UInt64 = 86_400_000_000_000

  private static func target(_ arguments: String...) throws -> ChildProcess {
    try ChildProcess(ChildProcess.built("varve-follow-target"), arguments)
  }

  /// Families are created and dropped, memtables of 64 KiB are flushed and compacted, and segments of 64 KiB are
  /// reused.
  @Test func `two following processes see every commit of the writing process, whole and in order`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let last = 8_000 * Self.scale
    let writer = try Self.target("write", path, "1", "\(last)")
    // The database exists from here on.
    #expect(writer.nextNumber() == 1)
    let followers = try (0..<2).map { _ in try Self.target("follow", path, "\(last)") }
    var number: UInt64 = 1
    while let next = writer.nextNumber() { number = next }
    #expect(number == last)
    #expect(writer.succeeds())
    for (index, follower) in followers.enumerated() { #expect(follower.succeeds(), "follower \(index)") }
  }

  @Test func `once the writer is killed readers see the commit that waited for its sync, and the commits after it`()
    throws
  {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let writer = try ChildProcess(ChildProcess.built("varve-kill-target"), ["scenario", "pendingSync", directory.path])
    #expect(writer.nextNumber() == 100)
    func count(_ engine: Engine) throws -> Int {
      try (1...100).count { try engine.get(Array("key \($0)".utf8)) == [UInt8($0)] }
    }
    func countReopened() throws -> Int {
      let engine = try Engine.open(at: path, options: Self.readOnly)
      defer { try? engine.close() }
      return try count(engine)
    }
    let follower = try Engine.follow(at: path)
    let first = follower.engine.visibleSequence
    #expect(try count(follower.engine) == 1)
    #expect(try countReopened() == 1)
    #expect(writer.killAndWait())
    #expect(try countReopened() == 100)
    #expect(try follower.waitForCommit(after: first, timeout: Self.day) != nil)
    #expect(try count(follower.engine) == 100)
    let last = follower.engine.visibleSequence
    let next = try Engine.open(at: path)
    #expect(try count(next) == 100)
    try next.put(Array("key 101".utf8), [101])
    #expect(try #require(try follower.waitForCommit(after: last, timeout: Self.day)) > last)
    #expect(try follower.engine.get(Array("key 101".utf8)) == [101])
    try next.close()
    try follower.close()
  }

  @Test func `a follower continues from one writer to the next when each is killed`() throws {
    let rounds = TestScale.value >= 4 ? 60 : 12
    let seed: UInt64 = 90_210
    var random = SeededRandom(seed: seed)
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let first = try Self.target("write", path, "1", "1")
    #expect(first.nextNumber() == 1)
    #expect(first.succeeds())
    let follower = try Engine.follow(at: path, options: Self.options)
    var last: UInt64 = 1
    for round in 0..<rounds {
      let location = "round \(round) of seed \(seed)"
      let writer = try Self.target("write", path, "\(last + 1)", "0")
      var acknowledged = last
      for _ in 0..<random.below(1_500) {
        guard let number = writer.nextNumber() else { break }
        acknowledged = number
        guard random.below(50) == 0 else { continue }
        try follower.catchUp()
        let seen = try check(follower.engine, location)
        #expect(seen >= number, "\(location): \(number) was acknowledged, and the follower is at \(seen)")
      }
      #expect(writer.killAndWait(), "\(location): the writer ended by itself")
      while let number = writer.nextNumber() { acknowledged = number }
      try follower.catchUp()
      last = try check(follower.engine, location)
      #expect(last >= acknowledged, "\(location): \(acknowledged) was acknowledged, and the follower is at \(last)")
      // A commit during which the writer was killed may or may not be found by the next reader.
      let reader = try Engine.open(at: path, options: Self.readOnly)
      #expect(try check(reader, location) == last)
      try reader.close()
    }
    #expect(last > UInt64(rounds) * 100)
    try follower.close()
  }

  @Test(arguments: 0..<TestScale.value)
  func `readers of other processes see whole batches of families whose memtables are logged again`(round: Int) throws {
    let last: UInt64 = 24_000
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let first = try Self.target("write-cold", path, "\(last)")
    // The database exists from here on.
    #expect(first.nextNumber() == 1)
    let readers = try (0..<2).map { _ in try Self.target("read-cold", path, "\(last)") }
    // The segments with copies are freed in their turn, so the log need not have any at the moment of the death.
    var hadCopies = false
    while let number = first.nextNumber(), number < last / 2 {
      if !hadCopies, number % 64 == 0 { hadCopies = try hasCopies(path) }
    }
    #expect(first.killAndWait(), "the first writer ended by itself")
    #expect(try hadCopies || hasCopies(path), "no memtable was logged again")
    // The second writer takes over.
    let second = try Self.target("write-cold", path, "\(last)")
    var numbers: [UInt64] = []
    while let number = second.nextNumber() { numbers.append(number) }
    #expect(second.succeeds())
    #expect(numbers.count > 1 && numbers[0] > last / 2 && numbers.last == last)
    for (index, reader) in readers.enumerated() {
      let states = reader.nextNumber()
      let busy = reader.nextNumber()
      #expect(reader.succeeds(), "reader \(index)")
      print("reader \(index): \(states ?? 0) states, \(busy ?? 0) times busy")
    }
  }

  /// Returns whether a segment of the log has entries that were logged again, as far as it can be read.
  private func hasCopies(_ path: String) throws -> Bool {
    let fileSystem = EngineEnvironment.system.fileSystem
    for number in try fileSystem.list(path).compactMap({ FileName($0)?.logNumber }) {
      let name = path + "/" + FileName.log(number).name
      // A running writer may have freed the segment, or may be creating it.
      guard let file = try? fileSystem.openFile(name, writable: false) else { continue }
      defer { file.close() }
      guard var reader = try? LogReader.open(file, number: number, name: name) else { continue }
      while let record = reader.next() {
        if record.header.kind == .entries { return true }
      }
    }
    return false
  }

  private static var options: EngineOptions {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    return options
  }

  private static var readOnly: EngineOptions {
    var options = options
    options.readOnly = true
    return options
  }

  /// Checks the content that `FollowTarget` wrote, and returns the last number.
  private func check(_ engine: Engine, _ location: String) throws -> UInt64 {
    let snapshot = engine.snapshot()
    let pair = try engine.family(named: "pair")
    let head = try engine.get(Array("head".utf8), snapshot: snapshot)
    #expect(try engine.get(Array("head".utf8), in: pair, snapshot: snapshot) == head, "\(location): half of a batch")
    let last = head?.reduce(UInt64(0)) { $0 << 8 | UInt64($1) } ?? 0
    for family in [engine.defaultFamily, pair] {
      var expected = last > 1_000 ? last - 999 : 1
      var cursor = try engine.cursor(in: family, bounds: CursorBounds(upper: [1]), snapshot: snapshot)
      try cursor.seekToFirst()
      while cursor.isValid {
        #expect(
          cursor.keyBytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) } == expected, "\(location): \(last) is the last")
        expected += 1
        try cursor.next()
      }
      #expect(expected == last + 1, "\(location): the numbers end at \(expected), and \(last) is the last")
    }
    return last
  }
}
