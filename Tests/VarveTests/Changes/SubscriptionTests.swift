import Dispatch
import EngineTestSupport
import Foundation
import Synchronization
import Testing
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of sequences of changes.
struct SubscriptionTests {
  // MARK: - Order and pace

  @Test func `the commits of eight writers are received in order, each once`() async throws {
    let database = try await Database.inMemory()
    let sequence = database.changes(buffer: 4)
    let count = 8 * 50
    DispatchQueue.concurrentPerform(iterations: 8) { writer in
      for number in 0..<50 {
        // Each writer increments the value that the previous one left.
        try? database.change { tx throws in
          let next = (try tx.object(Int.self, key: "next", in: "counters") ?? 0) + 1
          try tx.set(next, key: "next", in: "counters")
          try tx.set(ChangedNote(""), key: "\(writer) \(number)", in: "notes")
          try tx.setCustomObject(next)
        }
      }
    }
    var versions: [CommitVersion] = []
    var numbers: [Int] = []
    var iterator = sequence.makeAsyncIterator()
    while numbers.count < count {
      let changes = try await iterator.nextChanges()
      versions.append(changes.version)
      numbers.append(try #require(try changes.customObject(as: Int.self)))
    }
    #expect(numbers == Array(1...count))
    #expect(versions == versions.sorted() && Set(versions).count == count)
  }

  @Test func `a slow consumer with a buffer of two misses nothing and delays no other`() async throws {
    let database = try await Database.inMemory()
    var slow = database.changes(buffer: 2).makeAsyncIterator()
    var fast = database.changes(buffer: 2).makeAsyncIterator()
    var expected: [String] = []
    for number in 0..<200 {
      try database.put("k\(number)")
      expected.append("+k\(number)")
      #expect(try await fast.next(1) == [expected[number]])
      // Reads a few events at a time, so that it alternates between the buffer and the feed.
      if number % 50 == 49 { #expect(try await slow.next(7).count == 7) }
    }
    #expect(try await slow.next(200 - 28) == Array(expected[28...]))
    try database.put("last")
    #expect(try await slow.next(1) == ["+last"])
    #expect(try await fast.next(1) == ["+last"])
  }

  @Test func `a waiting consumer is woken by a commit`() async throws {
    let database = try await Database.inMemory()
    let sequence = database.changes()
    async let heard = Self.first(of: sequence)
    try database.put("a")
    #expect(try await heard == "+a")
  }

  private static func first(of sequence: ChangeSequence) async throws -> String? {
    for try await event in sequence { return event.text }
    return nil
  }

  // MARK: - Start

  @Test func `a sequence starts at the version at which it was created, however late and often it is iterated`()
    async throws
  {
    for feed in [FeedOptions(), nil] {
      var options = DatabaseOptions()
      options.feed = feed
      let database = try await Database.inMemory(options: options)
      try database.put("before")
      let sequence = database.changes()
      try database.put("a")
      try database.put("b")
      var first = sequence.makeAsyncIterator()
      #expect(try await first.next(2) == ["+a", "+b"])
      // The second consumer begins when the events are no longer in memory.
      var second = sequence.makeAsyncIterator()
      let again = feed == nil ? ["gap"] : ["+a", "+b"]
      #expect(try await second.next(again.count) == again)
      try database.put("c")
      #expect(try await second.next(1) == ["+c"])
      #expect(try await first.next(1) == ["+c"])
    }
  }

  @Test func `a subscription after a version receives only later commits`() async throws {
    let database = try await Database.inMemory()
    try database.put("a")
    let seen = try database.lastVersion()
    try database.put("b")
    try database.put("c")
    var iterator = database.changes(after: seen).makeAsyncIterator()
    #expect(try await iterator.next(2) == ["+b", "+c"])
    try database.put("d")
    #expect(try await iterator.next(1) == ["+d"])
    var all = database.changes(after: .zero).makeAsyncIterator()
    #expect(try await all.next(4) == ["+a", "+b", "+c", "+d"])
  }

  @Test func `a read and the commits after its version contain each change once`() async throws {
    let database = try await Database.inMemory()
    DispatchQueue.concurrentPerform(iterations: 4) { writer in
      for number in 0..<25 { _ = try? database.put("\(writer) \(number)") }
    }
    for writer in 0..<4 {
      Thread.detachNewThread {
        for number in 25..<50 { _ = try? database.put("\(writer) \(number)") }
      }
    }
    let (version, keys) = try database.look { tx throws in (tx.version, try tx.keys(String.self, in: "notes")) }
    var known = Set(keys)
    var events = database.changes(after: version, buffer: 3).makeAsyncIterator()
    // The writers may have ended before the read.
    while known.count < 200, let event = try await events.next() {
      for key in event.changes?.keys(in: "notes") ?? [] { #expect(known.insert(key.string).inserted) }
    }
    #expect(known.count == 200)
  }

  @Test func `a sequence made inside a transaction receives all of it`() async throws {
    let database = try await Database.inMemory()
    try database.put("a")
    var sequence: ChangeSequence?
    var later: ChangeSequence?
    try database.change { tx throws in
      try tx.set(ChangedNote(""), key: "b", in: "notes")
      sequence = database.changes()
      later = database.changes(after: tx.version)
      try tx.set(ChangedNote(""), key: "c", in: "notes")
    }
    for made in [sequence, later] {
      var iterator = try #require(made).makeAsyncIterator()
      #expect(try await iterator.next(1) == ["+b +c"])
    }
  }

  // MARK: - Resuming

  @Test func `a resume point is a number in JSON, and works after a restart`() async throws {
    let kept = KeptDatabase()
    var database = try kept.open()
    try database.put("a")
    var iterator = database.changes(after: .zero).makeAsyncIterator()
    let stored = try Codec.json(try await iterator.nextChanges().version)
    try database.put("b")
    try database.change("last") { tx throws in
      try tx.setCustomObject(7)
      try tx.removeAll(in: "notes")
    }
    try database.endNow()
    database = try kept.open()
    let point = try Codec.version(stored)
    #expect(stored == "\(point)")
    var resumed = database.changes(after: point).makeAsyncIterator()
    #expect(try await resumed.next(1) == ["+b"])
    let last = try await resumed.nextChanges()
    #expect(last.text == "!notes")
    #expect(last.label == "last")
    #expect(try last.customObject(as: Int.self) == 7)
    try database.put("c")
    #expect(try await resumed.next(1) == ["+c"])
  }

  @Test func `a resume point that the database has not reached is a gap back to its current version`() async throws {
    for feed in [FeedOptions(), nil] {
      var options = DatabaseOptions()
      options.feed = feed
      let database = try await Database.inMemory(options: options)
      try database.put("a")
      let last = try database.lastVersion()
      let sequence = database.changes(after: CommitVersion(last.number + 1_000))
      try database.put("b")
      var iterator = sequence.makeAsyncIterator()
      guard case .gap(let from, let to) = try await iterator.next() else {
        Issue.record("no gap")
        return
      }
      #expect(from.number == last.number + 1_000)
      #expect(to == (try database.lastVersion()))
      try database.put("c")
      #expect(try await iterator.next(1) == ["+c"])
    }
  }

  @Test func `without a feed an overflow is one gap, and then the sequence continues`() async throws {
    var options = DatabaseOptions()
    options.feed = nil
    let database = try await Database.inMemory(options: options)
    var iterator = database.changes(buffer: 2).makeAsyncIterator()
    for number in 0..<5 { try database.put("k\(number)") }
    #expect(try await iterator.next(3) == ["+k0", "+k1", "gap"])
    try database.put("k5")
    #expect(try await iterator.next(1) == ["+k5"])
    #expect(try database.feedEvents().map(\.text) == ["gap"])
  }

  @Test func `touches alone are reported without a feed too`() async throws {
    var options = DatabaseOptions()
    options.feed = nil
    let database = try await Database.inMemory(options: options)
    try database.put("a")
    var iterator = database.changes().makeAsyncIterator()
    for _ in 0..<3 { try database.change { try $0.touchRow(key: "a", in: "notes") } }
    #expect(try await iterator.next(3) == ["~a", "~a", "~a"])
  }

  @Test func `a transaction's object is reported and stored even if nothing else was changed`() async throws {
    for feed in [FeedOptions(), nil] {
      var options = DatabaseOptions()
      options.feed = feed
      let database = try await Database.inMemory(options: options)
      var iterator = database.changes().makeAsyncIterator()
      try database.change("first") { try $0.setCustomObject(1) }
      try database.besides { try $0.setCustomObject(2) }
      try await database.perform { try await database.write { try $0.setCustomObject(3) } }
      // Neither of these must report anything.
      try database.change { tx in
        try? tx.savepoint {
          try tx.setCustomObject(4)
          throw Stop()
        }
      }
      #expect(throws: DatabaseError.self) {
        try database.change { tx in
          try tx.setCustomObject(5)
          try tx.rollBack()
        }
      }
      try database.besides { _ in }
      try database.change { tx throws in
        try tx.setCustomObject(6)
        try tx.set(ChangedNote(""), key: "last", in: "notes")
      }
      var heard: [Int?] = []
      var versions: [CommitVersion] = []
      while heard.last != 6 {
        let changes = try await iterator.nextChanges()
        heard.append(try changes.customObject(as: Int.self))
        versions.append(changes.version)
        if heard.count == 1 { #expect(changes.label == "first" && changes.changedCollections.isEmpty) }
      }
      #expect(heard == [1, 2, 3, 6])
      #expect(Set(versions).count == 4 && versions == versions.sorted())
      guard feed != nil else { continue }
      let stored = try database.feedEvents().map { try $0.changes?.customObject(as: Int.self) }
      #expect(stored == [1, 2, 3, 6])
    }
  }

  @Test func `a commit that is not acknowledged is not reported`() async throws {
    let gate = Gate()
    let engine = try Engine.open(at: "/gated", environment: .inMemory())
    let database = try await Database.open(HeldBackend(try EngineBackend(engine), gate), path: "/gated")
    try database.put("a")
    let sequence = database.changes()
    gate.shut()
    // The writers run on separate threads, because they wait at the gate.
    Thread.detachNewThread {
      try? database.change(durability: .power) { try $0.set(ChangedNote(""), key: "b", in: "notes") }
    }
    await gate.waitUntilHeld()
    // The commit is applied: the next writer reads it, and other readers do not.
    #expect(try database.feedEvents().map(\.text) == ["+a"])
    #expect(try database.look { try $0.contains(key: "b", in: "notes") } == false)
    Thread.detachNewThread {
      try? database.change(durability: .power) { tx throws in
        #expect(try tx.contains(key: "b", in: "notes"))
        try tx.set(ChangedNote(""), key: "c", in: "notes")
      }
    }
    await gate.waitUntilHeld(2)
    #expect(try database.feedEvents().map(\.text) == ["+a"])
    gate.open()
    var iterator = sequence.makeAsyncIterator()
    #expect(try await iterator.next(2) == ["+b", "+c"])
  }

  // MARK: - End

  @Test func `a canceled task returns at once, and its subscription is removed`() async throws {
    let database = try await Database.inMemory()
    let sequence = database.changes()
    #expect(database.core.changes.subscriptionCount == 1)
    let task = Task {
      for try await _ in sequence {}
      Issue.record("the iteration ended without an error")
    }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
  }

  @Test func `a dropped sequence leaves nothing allocated`() async throws {
    let database = try await Database.inMemory()
    weak var buffered: Canary?
    do {
      let sequence = database.changes()
      var iterator: ChangeSequence.Iterator? = sequence.makeAsyncIterator()
      var second: ChangeSequence.Iterator? = sequence.makeAsyncIterator()
      #expect(database.core.changes.subscriptionCount == 2)
      second = nil
      #expect(database.core.changes.subscriptionCount == 1)
      let _: ExtensionHandle<CanaryExtension> = try Self.register(database)
      try database.put("a")
      buffered = Canary.newest.withLock { $0.canary }
      #expect(buffered != nil)
      withExtendedLifetime((iterator, second)) {}
      iterator = nil
    }
    #expect(database.core.changes.subscriptionCount == 0)
    #expect(buffered == nil)
    try database.put("b")
  }

  private static func register(_ database: Database) throws -> ExtensionHandle<CanaryExtension> {
    try database.registerReady(CanaryExtension(), as: "canary")
  }

  @Test func `closing ends waiting consumers and later ones, after they have received what is buffered`() async throws {
    let database = try await Database.inMemory()
    let waiting = database.changes()
    let kept = database.changes()
    let task = Task {
      var events: [String] = []
      for try await event in waiting { events.append(event.text) }
      return events
    }
    try database.put("a")
    try database.endNow()
    #expect(try await task.value == ["+a"])
    var iterator = kept.makeAsyncIterator()
    #expect(try await iterator.next(2) == ["+a"])
    var late = database.changes().makeAsyncIterator()
    #expect(try await late.next() == nil)
    var resumed = database.changes(after: .zero).makeAsyncIterator()
    #expect(try await resumed.next() == nil)
    #expect(throws: DatabaseError.self) { try database.feedEvents() }
  }

  @Test func `closing while many read from the feed neither hangs nor stops the program`() async throws {
    for round in 0..<20 {
      let database = try await Database.inMemory()
      for number in 0..<100 { try database.put("k\(number)") }
      let tasks = (0..<4).map { _ in
        Task {
          var count = 0
          for try await _ in database.changes(after: .zero, buffer: 1) { count += 1 }
          return count
        }
      }
      if round % 2 == 1 { await Task.yield() }
      try database.endNow()
      for task in tasks { #expect(try await task.value <= 100) }
    }
  }

  @Test func `a limit on the feed counts events, the oldest first`() throws {
    let database = try Database.inMemory()
    for number in 0..<5 { try database.put("k\(number)") }
    let two = try database.feedEvents(limit: 2)
    #expect(two.map(\.text) == ["+k0", "+k1"])
    #expect(try database.feedEvents(after: two[1].version, limit: 2).map(\.text) == ["+k2", "+k3"])
    #expect(throws: DatabaseError.self) { try database.feedEvents(limit: 0) }
  }

  @Test func `changes of concurrent writers are reported and stored, and their conflicts are not`() async throws {
    let database = try await Database.inMemory()
    try database.change { try $0.set(0, key: "n", in: "counters") }
    let sequence = database.changes(buffer: 2)
    DispatchQueue.concurrentPerform(iterations: 4) { _ in
      for _ in 0..<20 {
        try? database.besides { tx in
          let number = try tx.object(Int.self, key: "n", in: "counters") ?? 0
          try tx.set(number + 1, key: "n", in: "counters")
          try tx.setCustomObject(number + 1)
        }
      }
    }
    var iterator = sequence.makeAsyncIterator()
    for number in 1...80 { #expect(try await iterator.nextChanges().customObject(as: Int.self) == number) }
    #expect(try database.feedEvents(limit: 200).count == 81)
  }
}
