import EngineTestSupport
import Synchronization
import Testing
import VarveEngine

@testable import ObjectFixtures
@testable import Varve

/// Tests of observations of rows and collections.
struct ObservationTests {
  private let database: Database
  init() throws { database = try Database.inMemory() }

  private func observe(_ key: String) -> ObjectObservation<ChangedNote>.Iterator {
    database.observe(ChangedNote.self, key: key, in: "notes").makeAsyncIterator()
  }

  // MARK: - Rows

  @Test func `a row is observed from its present value on, through every change`() async throws {
    try database.put("a", "1")
    var notes = observe("a")
    #expect(try await notes.next() == .some(ChangedNote("1")))
    try database.put("a", "2")
    #expect(try await notes.next() == .some(ChangedNote("2")))
    try database.change { try $0.replaceObject(ChangedNote("3"), key: "a", in: "notes") }
    #expect(try await notes.next() == .some(ChangedNote("3")))
    try database.change { try $0.touchRow(key: "a", in: "notes") }
    #expect(try await notes.next() == .some(ChangedNote("3")))
    try database.change { try $0.remove(key: "a", in: "notes") }
    #expect(try await notes.next() == .some(nil))
    try database.put("a", "4")
    #expect(try await notes.next() == .some(ChangedNote("4")))
    try database.change { try $0.removeAll(in: "notes") }
    #expect(try await notes.next() == .some(nil))
    try database.put("a", "5")
    #expect(try await notes.next() == .some(ChangedNote("5")))
    try database.change { try $0.removeAll() }
    #expect(try await notes.next() == .some(nil))
  }

  @Test func `a missing row is nil once, until it exists`() async throws {
    var notes = observe("a")
    #expect(try await notes.next() == .some(nil))
    try database.put("b")
    try database.change { try $0.removeAll(in: "notes") }
    try database.change { tx in
      try tx.set(ChangedNote("gone"), key: "a", in: "notes")
      try tx.remove(key: "a", in: "notes")
    }
    try database.put("a", "there")
    #expect(try await notes.next() == .some(ChangedNote("there")))
  }

  @Test func `a consumer slower than the commits gets the newest value, and not those in between`() async throws {
    var notes = observe("a")
    for number in 0..<1_000 { try database.put("a", "\(number)") }
    #expect(try await notes.next() == .some(ChangedNote("999")))
    try database.put("b")
    try database.put("a", "last")
    #expect(try await notes.next() == .some(ChangedNote("last")))
  }

  @Test func `every consumer sees the last value, and never an older one than before`() async throws {
    try database.change { try $0.set(0, key: "n", in: "counters") }
    let observation = database.observe(Int.self, key: "n", in: "counters")
    await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<6 {
        group.addTask {
          var newest = -1
          for try await number in observation {
            #expect(try #require(number) > newest)
            newest = number ?? newest
            if newest == 300 { return }
          }
        }
      }
      group.addTask {
        for number in 1...300 { try database.change { try $0.set(number, key: "n", in: "counters") } }
      }
    }
  }

  @Test func `changes of other rows wake no consumer`() async throws {
    for number in 0..<1_000 { try database.put("k\(number)", "0") }
    var observers = (0..<1_000).map { observe("k\($0)") }
    for index in observers.indices { #expect(try await observers[index].next() == .some(ChangedNote("0"))) }
    var announced = database.changes().makeAsyncIterator()
    try database.put("k7", "1")
    #expect(try await announced.next(1) == ["~k7"])
    #expect(try await observers[7].next() == .some(ChangedNote("1")))
    #expect(observers.indices.filter { observers[$0].isDue } == [])
    // All of the observations share one subscription.
    #expect(database.core.changes.subscriptionCount == 2)
  }

  @Test func `a row that can't be decoded is thrown, and its observation continues`() async throws {
    try database.put("a")
    let observation = database.observe(ChangedNote.self, key: "a", in: "notes")
    var notes = observation.makeAsyncIterator()
    #expect(try await notes.next() == .some(ChangedNote("")))
    try database.change { try $0.set(["no": "note"], key: "a", in: "notes") }
    let thrown = await #expect(throws: DatabaseError.self) { try await notes.next() }
    #expect(thrown?.code == .decodingFailed)
    #expect(thrown?.key == #""a""#)
    try database.put("a", "again")
    #expect(try await notes.next() == .some(ChangedNote("again")))
    var fresh = observation.makeAsyncIterator()
    #expect(try await fresh.next() == .some(ChangedNote("again")))
  }

  @Test func `an invalid key, or one of another type, is thrown`() async throws {
    try database.put("a")
    var nan = database.observe(ChangedNote.self, key: Double.nan, in: "notes").makeAsyncIterator()
    let invalid = await #expect(throws: DatabaseError.self) { try await nan.next() }
    #expect(invalid?.code == .invalidKey)
    var number = database.observe(ChangedNote.self, key: 7, in: "notes").makeAsyncIterator()
    let other = await #expect(throws: DatabaseError.self) { try await number.next() }
    #expect(other?.code == .keyTypeDiffers)
  }

  @Test func `an observation that begins inside a transaction sees its result after the commit`() async throws {
    try database.put("a", "before")
    var notes: ObjectObservation<ChangedNote>.Iterator?
    try database.change { tx in
      try tx.set(ChangedNote("after"), key: "a", in: "notes")
      notes = observe("a")
    }
    #expect(try await notes?.next() == .some(ChangedNote("after")))
  }

  // MARK: - Ends

  @Test func `observations that are dropped are released, and closing ends the rest`() async throws {
    do {
      let row = observe("a")
      let collection = database.observe(in: "notes").makeAsyncIterator()
      #expect(database.core.changes.subscriptionCount == 1)
      withExtendedLifetime((row, collection)) {}
    }
    // The task that notified them releases its subscription as soon as it runs.
    while database.core.changes.subscriptionCount > 0 { await Task.yield() }
    var notes = observe("a")
    var changes = database.observe(in: "notes").makeAsyncIterator()
    #expect(try await notes.next() == .some(nil))
    #expect(try await changes.next()?.isReload == true)
    let waiting = observe("a")
    let task = Task {
      var waiting = waiting
      var count = 0
      while try await waiting.next() != nil { count += 1 }
      return count
    }
    try database.endNow()
    #expect(try await notes.next() == nil)
    #expect(try await changes.next() == nil)
    #expect(try await task.value <= 1)
    var late = observe("a")
    #expect(try await late.next() == nil)
  }

  @Test func `a canceled task returns at once, and another continues`() async throws {
    let observation = database.observe(ChangedNote.self, key: "a", in: "notes")
    let task = Task { for try await _ in observation {} }
    var other = observe("a")
    #expect(try await other.next() == .some(nil))
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    try database.put("a", "1")
    #expect(try await other.next() == .some(ChangedNote("1")))
  }

  @Test func `closing from the decoding of an observed object is refused`() async throws {
    try database.put("a")
    Closing.database.withLock { $0 = database }
    defer { Closing.database.withLock { $0 = nil } }
    var iterator = database.observe(Closing.self, key: "a", in: "notes").makeAsyncIterator()
    let thrown = await #expect(throws: DatabaseError.self) { try await iterator.next() }
    #expect((thrown?.cause as? DatabaseError ?? thrown)?.code == .writerBusy)
  }

  // MARK: - Collections

  @Test func `a collection is observed from a reload on, with the keys that changed`() async throws {
    try database.put("a")
    var changes = database.observe(in: "notes").makeAsyncIterator()
    let first = try #require(try await changes.next())
    #expect(first.isReload && first.changedKeys.isEmpty && first.removedKeys.isEmpty)
    #expect(first.version == (try database.lastVersion()))
    try database.put("x", in: "others")
    try database.change { tx in
      try tx.set(ChangedNote(""), key: "c", in: "notes")
      try tx.set(ChangedNote(""), key: "b", in: "notes")
      try tx.remove(key: "a", in: "notes")
    }
    let second = try #require(try await changes.next())
    #expect(!second.isReload)
    #expect(second.changedKeys.map(\.string) == ["b", "c"])
    #expect(second.removedKeys.map(\.string) == ["a"])
    #expect(second.version == (try database.lastVersion()))
  }

  @Test func `several commits are one change, in which the last state of a row counts`() async throws {
    let sequence = database.observe(in: "notes")
    var changes = sequence.makeAsyncIterator()
    #expect(try await changes.next()?.isReload == true)
    var announced = database.changes().makeAsyncIterator()
    for key in ["a", "b", "c"] { try database.put(key) }
    try database.change { try $0.remove(key: "b", in: "notes") }
    // This subscriber is notified after the observations: once it has all four commits, so do they.
    #expect(try await announced.next(4).count == 4)
    var seen: [String: Bool] = [:]
    while seen != ["a": false, "b": true, "c": false] {
      let change = try #require(try await changes.next())
      for key in change.changedKeys { seen[key.string] = false }
      for key in change.removedKeys { seen[key.string] = true }
    }
  }

  @Test func `a change combines all of several commits`() {
    typealias Row = ObservedChange.Row
    let (gone, here) = (Row(isRemoved: true), Row(isRemoved: false))
    let first: [[UInt8]: Row] = [[1]: here, [2]: Row(isRemoved: false, before: [7])]
    var change = ObservedChange(version: CommitVersion(1), rows: first)
    let next: [[UInt8]: Row] = [
      [1]: Row(isRemoved: false, before: [9]), [2]: Row(isRemoved: true, before: [8]), [3]: here,
    ]
    change.merge(ObservedChange(version: CommitVersion(5), rows: next))
    // A row's former value is the one before the first change, and unknown if that one is unknown.
    #expect(change.rows == [[1]: here, [2]: Row(isRemoved: true, before: [7]), [3]: here])
    #expect(change.version == CommitVersion(5) && !change.isReload)
    let many = Dictionary(uniqueKeysWithValues: (0..<4_095).map { (BigEndian.bytes(UInt16($0 + 1_000)), here) })
    change.merge(ObservedChange(version: CommitVersion(6), rows: many))
    #expect(change.isReload && change.rows.isEmpty)
    change.merge(ObservedChange(version: CommitVersion(7), rows: [[9]: gone]))
    #expect(change.isReload && change.rows.isEmpty && change.version == CommitVersion(7))
  }

  @Test func `changes merged with later commits are compared with what the consumer has seen`() throws {
    var state = ObservationState(.zero)
    _ = state.takeAll()
    for version in 1...40 {
      let row = ObservedChange.Row(isRemoved: false, before: [UInt8(version - 1)])
      state.add(ObservedChange(version: CommitVersion(UInt64(version)), rows: [[1]: row, [2]: row]))
    }
    #expect(state.due(through: CommitVersion(5))?.rows[[1]]?.before == [0])
    state.didSee(CommitVersion(5), [[1]: [5], [2]: [5]])
    #expect(state.due(through: CommitVersion(30))?.rows[[1]]?.before == [5])
    // More than the last sixteen commits are merged by now; the consumer has seen a part of them.
    state.didSee(CommitVersion(30), [[1]: [30]])
    let rest = try #require(state.due(through: CommitVersion(40)))
    #expect(rest.rows[[1]]?.before == [30] && rest.rows[[2]] == ObservedChange.Row(isRemoved: false))
    state.didSee(CommitVersion(40))
    #expect(state.due(through: CommitVersion(99)) == nil)
  }

  @Test func `clearing, or more changed rows than are worth listing, is a reload`() async throws {
    try database.put("a")
    var changes = database.observe(in: "notes").makeAsyncIterator()
    #expect(try await changes.next()?.isReload == true)
    try database.change { tx in
      try tx.removeAll(in: "notes")
      try tx.set(ChangedNote(""), key: "b", in: "notes")
    }
    let cleared = try #require(try await changes.next())
    #expect(cleared.isReload && cleared.changedKeys.isEmpty)
    try database.change { tx in for number in 0..<5_000 { try tx.set(ChangedNote(""), key: "k\(number)", in: "notes") }
    }
    #expect(try await changes.next()?.isReload == true)
    try database.put("c")
    #expect(try await changes.next()?.changedKeys.map(\.string) == ["c"])
    try database.change { try $0.removeAll() }
    #expect(try await changes.next()?.isReload == true)
  }

  @Test func `a consumer that applies the changes of a collection ends with its rows`() async throws {
    let database = database
    let sequence = database.observe(in: "notes")
    let task = Task {
      var rows: [String: String] = [:]
      for try await change in sequence {
        if change.isReload { rows = [:] }
        let keys =
          try change.isReload
          ? database.look { try $0.keys(String.self, in: "notes") } : change.changedKeys.map(\.string)
        for key in keys {
          rows[key] = try database.look { try $0.object(ChangedNote.self, key: key, in: "notes")?.text }
        }
        for key in change.removedKeys { rows[key.string] = nil }
        if rows["end"] != nil { return rows }
      }
      return rows
    }
    var random = seededRandom("following a collection", 0x5EED_0004)
    for number in 0..<500 {
      let key = "k\(random.below(20))"
      try database.change { tx in
        switch random.below(10) {
        case 0: try tx.removeAll(in: "notes")
        case 1, 2, 3: try tx.remove(key: key, in: "notes")
        default: try tx.set(ChangedNote("\(number)"), key: key, in: "notes")
        }
      }
      if number % 10 == 0 { await Task.yield() }
    }
    try database.put("end", "end")
    let expected = try database.look { tx in
      try tx.keys(String.self, in: "notes").map {
        ($0, try tx.object(ChangedNote.self, key: $0, in: "notes")?.text ?? "")
      }
    }
    #expect(try await task.value == Dictionary(uniqueKeysWithValues: expected))
  }
}

extension ObjectObservation.Iterator {
  /// Whether the consumer has a change to read.
  fileprivate var isDue: Bool { (try? source?.get())?.observation.isDue ?? false }
}
