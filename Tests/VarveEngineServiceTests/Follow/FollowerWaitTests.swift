import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of how followers wait, with real threads and the machine's clock.
struct FollowerWaitTests {
  private static let key: [UInt8] = Array("key".utf8)
  /// A time that no wait reaches.
  private static let day: UInt64 = 86_400_000_000_000

  /// Runs `body` with a writer and a follower: with a page that the follower may write, with one that it may only
  /// read, and without a page.
  private static func onEach(_ body: (Engine, Follower) throws -> Void) throws {
    let directory = try TemporaryDirectory()
    for (name, mapsFiles, isWritable) in [("a", true, true), ("b", true, false), ("c", false, true)] {
      let path = directory.path + "/" + name
      var environment = EngineEnvironment.system
      environment.fileSystem = PosixFileSystem(mapsFiles: mapsFiles)
      let writer = try Engine.open(at: path, environment: environment)
      if !isWritable { environment.fileSystem = UnwritableFileSystem(environment.fileSystem) }
      let follower = try Engine.follow(at: path, environment: environment)
      try body(writer, follower)
      try follower.close()
      try writer.close()
    }
  }

  @Test func `a wait ends with the next commit`() throws {
    try Self.onEach { writer, follower in
      var last = follower.engine.visibleSequence
      for round in 0..<20 {
        let thread = EngineThread(name: "writer") {
          for _ in 0..<3 { _ = try? writer.put(Self.key, [UInt8(round)]) }
        }
        let target = SequenceNumber(last.value + 3)
        while last < target {
          let next = try #require(try follower.waitForCommit(after: last, timeout: Self.day))
          #expect(next > last && next <= target)
          last = next
        }
        thread.join()
        #expect(try follower.engine.get(Self.key) == [UInt8(round)])
      }
    }
  }

  @Test func `a wait ends when its time has passed`() throws {
    try Self.onEach { _, follower in
      let last = follower.engine.visibleSequence
      let next = try follower.waitForCommit(after: last, timeout: 2_000_000)
      #expect(next == nil)
    }
  }

  @Test func `a wait ends when the follower closes`() throws {
    try Self.onEach { _, follower in
      let result = Mutex<Result<SequenceNumber?, any Error>?>(nil)
      let thread = EngineThread(name: "waiter") {
        let outcome = Result { try follower.waitForCommit(after: .maximum, timeout: Self.day) }
        result.withLock { $0 = outcome }
      }
      try follower.close()
      thread.join()
      #expect(try result.withLock { $0 }?.get() == .some(nil))
    }
  }

  @Test func `commits come as an asynchronous sequence`() async throws {
    let directory = try TemporaryDirectory()
    let writer = try Engine.open(at: directory.path + "/db")
    let follower = try Engine.follow(at: directory.path + "/db")
    let commits = follower.commits()
    var last = SequenceNumber.zero
    let end = SequenceNumber(writer.visibleSequence.value + 50)
    let thread = EngineThread(name: "writer") {
      for round in 0..<50 { _ = try? writer.put(Self.key, [UInt8(round)]) }
    }
    for try await commit in commits {
      #expect(commit > last)
      last = commit
      if commit == end { break }
    }
    thread.join()
    #expect(last == end)
    try follower.close()
    try writer.close()
  }

  @Test func `readers of a follower see whole batches while it continues`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let writer = try Engine.open(at: path, options: FollowFixture.options)
    let other = try writer.createFamily("other")
    let follower = try Engine.follow(at: path, options: FollowFixture.options)
    let isDone = Atomic<Bool>(false)
    let torn = Mutex<[String]>([])
    let readCount = Atomic<Int>(0)
    let pair = try follower.engine.family(named: "other")
    let readers = (0..<2).map { _ in
      EngineThread(name: "reader") {
        var last: [UInt8] = []
        while !isDone.load(ordering: .acquiring) {
          do throws(EngineError) {
            let snapshot = follower.engine.snapshot()
            let first = try follower.engine.get(Self.key, snapshot: snapshot) ?? []
            let second = try follower.engine.get(Self.key, in: pair, snapshot: snapshot) ?? []
            if first != second { torn.withLock { $0.append("\(first.prefix(8)) and \(second.prefix(8))") } }
            let now = try follower.engine.get(Self.key) ?? []
            if now.lexicographicallyPrecedes(first) || first.lexicographicallyPrecedes(last) {
              torn.withLock { $0.append("\(now.prefix(8)) after \(first.prefix(8)) after \(last.prefix(8))") }
            }
            last = now
          } catch { torn.withLock { $0.append("\(error)") } }
          readCount.add(1, ordering: .relaxed)
        }
      }
    }
    let count = 3_000
    let catching = EngineThread(name: "follower") {
      while !isDone.load(ordering: .acquiring) {
        do { _ = try follower.catchUp() } catch { torn.withLock { $0.append("\(error)") } }
      }
    }
    for round in 0..<count {
      var batch = WriteBatch()
      let value = [UInt8(round >> 8), UInt8(round & 255)] + [UInt8](repeating: 0, count: 300)
      try batch.put(Self.key, value)
      try batch.put(Self.key, value, in: other)
      try writer.write(batch)
    }
    while readCount.load(ordering: .relaxed) == 0 { CurrentProcess.yieldThread() }
    isDone.store(true, ordering: .releasing)
    for thread in readers + [catching] { thread.join() }
    let found = torn.withLock { $0 }
    #expect(found.isEmpty, "\(found.count) of \(readCount.load(ordering: .relaxed)) reads: \(found.prefix(3))")
    try follower.close()
    try writer.close()
  }
}
