import EngineTestSupport
import Testing
import VarveEngine

@testable import ObjectFixtures
@testable import Varve

/// Tests of changes that another process makes: two databases on one directory, one of which follows.
struct FollowTests {
  private let directory: TemporaryDirectory
  private let writer: Database
  private let follower: Database

  init() throws {
    directory = try TemporaryDirectory()
    let path = "\(directory.path)/followed.varve"
    writer = try Self.open(path)
    try writer.put("first")
    follower = try Self.open(path, follows: true)
  }

  private static func open(
    _ path: String, follows: Bool = false, feed: FeedOptions? = FeedOptions()
  ) throws -> Database {
    var options = DatabaseOptions()
    options.follows = follows
    options.feed = feed
    return try Database.open(at: path, options: options)
  }

  private func end() throws {
    try follower.endNow()
    try writer.endNow()
  }

  @Test func `a follower receives each commit, in order, with all that the feed has of it`() async throws {
    var changes = follower.changes().makeAsyncIterator()
    for number in 0..<20 {
      try writer.change("commit \(number)") { tx in
        try tx.setCustomObject(number)
        try tx.set(ChangedNote(""), key: "k\(number)", in: "notes")
      }
      let announced = try await changes.nextChanges()
      #expect(announced.text == "+k\(number)")
      #expect(announced.label == "commit \(number)")
      #expect(try announced.customObject(as: Int.self) == number)
      #expect(announced.isFromFeed)
      // Changes that were reported can be read.
      #expect(try follower.look { try $0.contains(key: "k\(number)", in: "notes") })
    }
    try end()
  }

  @Test func `a burst is received by several consumers, each at its own pace`() async throws {
    var iterators = (0..<3).map { _ in follower.changes(buffer: 3).makeAsyncIterator() }
    var expected: [String] = []
    for number in 0..<300 {
      expected.append("+k\(number)")
      try writer.put("k\(number)")
      if number % 3 == 0 { #expect(try await iterators[0].next(1) == [expected[number / 3]]) }
    }
    #expect(try await iterators[0].next(200) == Array(expected[100...]))
    #expect(try await iterators[1].next(300) == expected)
    try writer.put("last")
    #expect(try await iterators[2].next(301) == expected + ["+last"])
    iterators = []
    #expect(follower.core.changes.subscriptionCount == 0)
    // A later consumer receives the commits again.
    var late = follower.changes().makeAsyncIterator()
    try writer.put("later")
    #expect(try await late.next(1) == ["+later"])
    try end()
  }

  @Test func `a collection that is created while followed is known when it is reported`() async throws {
    var changes = follower.changes().makeAsyncIterator()
    var row = follower.observe(ChangedNote.self, key: "a", in: "later").makeAsyncIterator()
    #expect(try await row.next() == .some(nil))
    try writer.put("a", "text", in: "later")
    let announced = try await changes.nextChanges()
    #expect(announced.changedCollections == ["later"])
    #expect(try await row.next() == .some(ChangedNote("text")))
    try end()
  }

  @Test func `rows and collections are observed across processes`() async throws {
    var row = follower.observe(ChangedNote.self, key: "a", in: "notes").makeAsyncIterator()
    var collection = follower.observe(in: "notes").makeAsyncIterator()
    #expect(try await row.next() == .some(nil))
    #expect(try await collection.next()?.isReload == true)
    for number in 0..<10 {
      try writer.put("a", "\(number)")
      #expect(try await row.next() == .some(ChangedNote("\(number)")))
      let change = try #require(try await collection.next())
      #expect(change.changedKeys.map(\.string) == ["a"])
    }
    try writer.change { try $0.remove(key: "a", in: "notes") }
    #expect(try await row.next() == .some(nil))
    #expect(try await collection.next()?.removedKeys.map(\.string) == ["a"])
    try end()
  }

  @Test func `a resume point of one process works in the other`() async throws {
    var written = writer.changes(after: .zero).makeAsyncIterator()
    let point = try await written.nextChanges().version
    try writer.put("b")
    var read = follower.changes(after: point).makeAsyncIterator()
    #expect(try await read.next(1) == ["+b"])
    try writer.put("c")
    let last = try await read.nextChanges()
    #expect(last.text == "+c")
    try writer.put("d")
    var back = writer.changes(after: last.version).makeAsyncIterator()
    #expect(try await back.next(1) == ["+d"])
    #expect(try follower.feedEvents(after: last.version).map(\.text) == ["+d"])
    try end()
  }

  @Test func `a read of the follower in between does not consume changes`() async throws {
    var changes = follower.changes().makeAsyncIterator()
    for number in 0..<50 {
      try writer.put("k\(number)")
      // The read refreshes the follower, perhaps before the waiting consumer does.
      #expect(try follower.look { try $0.contains(key: "k\(number)", in: "notes") })
      #expect(try await changes.next(1) == ["+k\(number)"])
    }
    try end()
  }

  @Test func `closing the follower ends its sequences, whatever they wait for`() async throws {
    let sequences = (0..<3).map { _ in follower.changes() }
    let row = follower.observe(ChangedNote.self, key: "a", in: "notes")
    let tasks = sequences.map { sequence in
      Task {
        var count = 0
        for try await _ in sequence { count += 1 }
        return count
      }
    }
    let observing = Task {
      var count = 0
      for try await _ in row { count += 1 }
      return count
    }
    try writer.put("a")
    var heard = follower.changes(after: .zero).makeAsyncIterator()
    #expect(try await heard.next(2) == ["+first", "+a"])
    try follower.endNow()
    for task in tasks { #expect(try await task.value <= 1) }
    #expect(try await observing.value <= 2)
    #expect(try await heard.next() == nil)
    var late = follower.changes().makeAsyncIterator()
    #expect(try await late.next() == nil)
    try writer.put("b")
    try writer.endNow()
  }

  @Test func `a follower continues with the next process that writes`() async throws {
    var changes = follower.changes().makeAsyncIterator()
    try writer.put("a")
    #expect(try await changes.next(1) == ["+a"])
    try writer.endNow()
    let next = try Self.open("\(directory.path)/followed.varve")
    try next.put("b")
    #expect(try await changes.next(1) == ["+b"])
    try follower.endNow()
    try next.endNow()
  }

  @Test func `commits of a process that writes no feed are received as gaps`() async throws {
    try writer.endNow()
    let silent = try Self.open("\(directory.path)/followed.varve", feed: nil)
    var row = follower.observe(ChangedNote.self, key: "a", in: "notes").makeAsyncIterator()
    #expect(try await row.next() == .some(nil))
    var changes = follower.changes().makeAsyncIterator()
    try silent.put("a", "1")
    #expect(try await changes.next(1) == ["gap"])
    #expect(try await row.next() == .some(ChangedNote("1")))
    try follower.endNow()
    try silent.endNow()
  }

  @Test func `a read-only database without a writer reports nothing, and can be closed`() async throws {
    try writer.endNow()
    try follower.endNow()
    var options = DatabaseOptions()
    options.isReadOnly = true
    let database = try Self.openHere("\(directory.path)/followed.varve", options)
    #expect(try database.feedEvents().map(\.text) == ["+first"])
    var all = database.changes(after: .zero).makeAsyncIterator()
    #expect(try await all.next(1) == ["+first"])
    let waiting = all
    let task = Task {
      var waiting = waiting
      return try await waiting.next()
    }
    try database.endNow()
    #expect(try await task.value == nil)
  }

  private static func openHere(_ path: String, _ options: DatabaseOptions) throws -> Database {
    try Database.open(at: path, options: options)
  }
}
