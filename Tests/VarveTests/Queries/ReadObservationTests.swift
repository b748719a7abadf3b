import Dispatch
import EngineTestSupport
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of what wakes an observed closure: the keys that it has read, of rows and of the parts of extensions.
struct ReadObservationTests {
  private let database: Database
  private let volumes: Store<VolumeFormat>

  init() throws {
    database = try Database.inMemory { VolumeFormat.self }
    volumes = Store(in: database)
  }

  private func set(_ volumes: Volume...) async throws {
    try await self.volumes.persist(contentsOf: volumes)
  }

  /// Returns when every observer has received all commits.
  private func deliver() async {
    let core = database.core
    await core.observations.delivered(through: core.changes.last)
  }

  private static func scripted() -> Scripted {
    var scripted = Scripted(events: [])
    var values = PartDefinition("values")
    values.isIndependent = true
    scripted.configuration.parts = [values, PartDefinition("own"), PartDefinition("counts", .counters(.sum))]
    return scripted
  }

  /// Registers by the blocking form.
  private func registered<Definition: DatabaseExtension>(
    _ definition: Definition, as name: String
  ) throws -> ExtensionHandle<Definition> {
    try database.registerReady(definition, as: name)
  }

  // MARK: - Parts

  @Test func `a read of an index is repeated for the entries that it has read, and for no others`() async throws {
    try await set(Volume(id: 1, title: "a", year: 2001), Volume(id: 2, title: "b", year: 1900))
    let runs = Mutex(0)
    let recent = volumes.query.filter { $0.year >= 2000 && $0.year < 2010 }
    var counts = database.observe { tx in
      runs.withLock { $0 += 1 }
      return try recent.count(in: tx)
    }.makeAsyncIterator()
    #expect(try await counts.next() == 1)
    // The changes: outside of the range; within it, but without a change to an index entry; and of an index of other
    // fields.
    try await set(Volume(id: 2, title: "b", year: 1950), Volume(id: 3, title: "c", year: 2010))
    try await set(Volume(id: 1, title: "a", year: 2001, tags: ["new"]))
    try await volumes.delete(3)
    await deliver()
    #expect(runs.withLock { $0 } == 1)
    try await set(Volume(id: 2, title: "b", year: 2009))
    #expect(try await counts.next() == 2)
    try await set(Volume(id: 1, title: "a", year: 1900))
    #expect(try await counts.next() == 1)
    #expect(runs.withLock { $0 } == 3)
    try await volumes.delete(...)
    #expect(try await counts.next() == 0)
  }

  @Test func `a read of an index that is rebuilt in another family is repeated as before`() async throws {
    try await set(Volume(id: 1, title: "a", year: 2001))
    var counts = database.observe { [volumes] tx in try volumes.count(.value("a"), from: \.title, in: tx) }
      .makeAsyncIterator()
    #expect(try await counts.next() == 1)
    try await volumes.rebuild(\.title)
    try await set(Volume(id: 2, title: "a", year: 2001))
    #expect(try await counts.next() == 2)
    try await set(Volume(id: 3, title: "a", year: 2001))
    #expect(try await counts.next() == 3)
  }

  /// A commit for which an extension reports changes has a change set, with or without rows.
  @Test(arguments: [false, true])
  func `commits without changed rows wake readers of the part entries that they write`(
    reportsChanges: Bool
  ) async throws {
    var scripted = Self.scripted()
    if reportsChanges { scripted.takeChanges = { _ in "changed" } }
    let handle = try registered(scripted, as: "jobs")
    let runs = Mutex(0)
    var values = database.observe { tx in
      runs.withLock { $0 += 1 }
      let parts = try tx[handle].context
      return [
        UInt64(try tx[handle].part("values").get([1])?.first ?? 0),
        UInt64(try tx[handle].part("own").get([1])?.first ?? 0),
        UInt64(try tx[handle].part("counts").counter([1])), UInt64(try parts.setting("size") == nil ? 0 : 1),
      ]
    }.makeAsyncIterator()
    #expect(try await values.next() == [0, 0, 0, 0])
    try await database.write { tx in try tx[handle].part("own").put([1], [7]) }
    #expect(try await values.next() == [0, 7, 0, 0])
    try await database.commitIndependently { parts in try parts.part("values", of: handle).put([1], [8]) }
    #expect(try await values.next() == [8, 7, 0, 0])
    try await database.write { tx in try tx[handle].part("counts").add(5, to: [1]) }
    #expect(try await values.next() == [8, 7, 5, 0])
    try await database.write { tx in try tx[handle].context.set(.integer(3), for: "size") }
    #expect(try await values.next() == [8, 7, 5, 1])
    try await database.write { tx in try tx[handle].part("own").deleteRange(StorageRange(lower: [0], upper: [2])) }
    #expect(try await values.next() == [8, 0, 5, 1])
    let before = runs.withLock { $0 }
    // Changes of other keys must not wake the closure.
    try await database.write { tx in try tx[handle].part("own").put([2], [7]) }
    try await database.commitIndependently { parts in try parts.part("values", of: handle).put([0], [8]) }
    try await database.write { tx in try tx[handle].part("own").put([1], [9]) }
    #expect(try await values.next() == [8, 9, 5, 1])
    #expect(runs.withLock { $0 } == before + 1)
  }

  /// The transaction began before the observation, so it has not recorded what it writes.
  @Test(arguments: [false, true])
  func `a transaction that began before the observation wakes it`(changesRows: Bool) async throws {
    var scripted = Self.scripted()
    scripted.configuration.scope = .only(["volumes"])
    let handle = try registered(scripted, as: "jobs")
    try await self.database.write { tx in try tx[handle].part("own").put([2], []) }
    let database = database
    let (hasWritten, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let writer = Threads.start { _ in
      try database.core.write(WriteTerms()) { tx in
        // The rows are outside the extension's scope.
        if changesRows { try tx.set("a", key: 1, in: "others") }
        try tx[handle].part("own").put([1], [7])
        hasWritten.signal()
        mayEnd.wait()
      }
    }
    try await Threads.alone { hasWritten.wait() }
    var values = database.observe { tx in try tx[handle].part("own").get([1]) }.makeAsyncIterator()
    #expect(try await values.next() == .some(nil))
    mayEnd.signal()
    #expect(try await values.next() == [7])
    await writer.join()
    #expect(try await database.read { tx in try tx[handle].part("own").get([1]) } == [7])
  }

  @Test func `transactions record no keys while no part is observed`() async throws {
    let handle = try registered(Self.scripted(), as: "jobs")
    let notes: @Sendable () async throws -> Bool = { [database] in
      try await database.write { tx in tx.partWrites != nil }
    }
    try await database.write { tx in try tx[handle].part("own").put([2], []) }
    #expect(try await !notes())
    var values = Optional(database.observe { tx in try tx[handle].part("own").get([1]) }.makeAsyncIterator())
    #expect(try await values?.next() == .some(.some(nil)))
    #expect(try await notes())
    values = nil
    #expect(try await !notes())
  }

  @Test func `an iterator may outlive its database`() async throws {
    var database = Optional(try await Database.inMemory { VolumeFormat.self })
    var iterators: [ReadObservation<Int>.Iterator] = []
    for _ in 0..<3 {
      let volumes = Store<VolumeFormat>(in: try #require(database))
      var counts = volumes.query.filter { $0.title == "a" }.observeCount().makeAsyncIterator()
      #expect(try await counts.next() == 0)
      iterators.append(counts)
    }
    try await database?.close()
    database = nil
    for index in iterators.indices { #expect(try await iterators[index].next() == nil) }
    iterators = []
  }

  // MARK: - Rows

  @Test func `a read of the number of rows is repeated, even if the closure also reads one of them`() async throws {
    try await set(Volume(id: 1, title: "a"))
    var counts = database.observe { tx in
      _ = try tx.contains(key: 1, in: "volumes")
      return try tx.count(in: "volumes")
    }.makeAsyncIterator()
    #expect(try await counts.next() == 1)
    try await set(Volume(id: 2, title: "b"))
    #expect(try await counts.next() == 2)
  }

  // MARK: - Several observers

  @Test func `observers of equal queries share one read`() async throws {
    try await set(Volume(id: 1, title: "a"))
    let runs = Mutex(0)
    let core = database.core
    let observation = ReadObservation(core, sharedBy: "count", isSame: ==) { tx in
      runs.withLock { $0 += 1 }
      return try tx.count(in: "volumes")
    }
    var iterators = (0..<50).map { _ in observation.makeAsyncIterator() }
    for index in iterators.indices { #expect(try await iterators[index].next() == 1) }
    #expect(runs.withLock { $0 } == 1)
    try await set(Volume(id: 2, title: "b"))
    try await withThrowingTaskGroup(of: Int?.self) { group in
      for iterator in iterators {
        let held = Held(iterator)
        group.addTask { try await held.next() }
      }
      for try await count in group { #expect(count == 2) }
    }
    #expect(runs.withLock { $0 } == 2)
    // Two of the observations have equal queries, and one has another query.
    let query = volumes.query.filter { $0.year > 1900 }
    let shared = core.observations.sharedReads
    #expect(shared.read(query, of: Int.self) === shared.read(volumes.query.filter { $0.year > 1900 }, of: Int.self))
    #expect(shared.read(query, of: Int.self) !== shared.read(query, of: Bool.self))
  }

  /// A box that passes an iterator to one task.
  private final class Held: @unchecked Sendable {
    private var iterator: ReadObservation<Int>.Iterator
    init(_ iterator: ReadObservation<Int>.Iterator) { self.iterator = iterator }
    func next() async throws -> Int? { try await iterator.next() }
  }

  @Test func `an observer of a query that starts late sees what was committed before`() async throws {
    try await set(Volume(id: 1, title: "a"))
    var first = volumes.query.filter { $0.title == "a" }.observeCount().makeAsyncIterator()
    #expect(try await first.next() == 1)
    for count in 2..<40 {
      try await set(Volume(id: count, title: "a"))
      var late = volumes.query.filter { $0.title == "a" }.observeCount().makeAsyncIterator()
      #expect(try await late.next() == count)
    }
    while let count = try await first.next(), count < 39 {}
  }

  @Test func `an observer that joins a shared read late misses no commit`() async throws {
    try await set(Volume(id: 1, title: "one"), Volume(id: 2, title: "two"))
    // The rows that are read depend on the first row.
    let observation = ReadObservation(database.core, sharedBy: "both", isSame: ==) { [volumes] tx in
      let first = try volumes.load(1, in: tx)?.title
      return first == "both" ? try volumes.load(2, in: tx)?.title : first
    }
    var early = observation.makeAsyncIterator()
    var late = observation.makeAsyncIterator()
    #expect(try await early.next() == "one")
    #expect(try await late.next() == "one")
    try await set(Volume(id: 1, title: "both"))
    #expect(try await early.next() == "two")
    // The late observer has not read the second row yet.
    try await set(Volume(id: 2, title: "three"))
    await deliver()
    #expect(try await late.next() == "three")
    #expect(try await early.next() == "three")
  }

  @Test func `observers of queries outlive the rebuild of an index`() async throws {
    for id in 0..<600 { try await set(Volume(id: id, title: "title \(id % 10)")) }
    let query = volumes.query.filter { $0.title == "title 1" }.sorted(by: \.id)
    let sawLast = try await withThrowingTaskGroup(of: Bool.self) { group in
      for _ in 0..<2 {
        group.addTask {
          for try await ids in query.observeIDs() where ids.contains(1_000) { return true }
          return false
        }
        group.addTask {
          for try await change in query.limit(400).changes() where change.ids.contains(1_000) { return true }
          return false
        }
      }
      for round in 0..<15 {
        try await volumes.rebuild(\.title)
        try await set(Volume(id: 700 + round, title: "title 1"))
      }
      try await set(Volume(id: 1_000, title: "title 1"))
      return try await group.reduce(into: [Bool]()) { $0.append($1) }
    }
    #expect(sawLast == [true, true, true, true])
  }

  @Test func `observers of a closed database end`() async throws {
    let query = volumes.query
    var first = query.observeCount().makeAsyncIterator()
    #expect(try await first.next() == 0)
    try await database.close()
    #expect(try await first.next() == nil)
    for _ in 0..<20 {
      var counts = query.observeCount().makeAsyncIterator()
      #expect(try await counts.next() == nil)
      var values = database.observe { _ in 1 }.makeAsyncIterator()
      #expect(try await values.next() == nil)
    }
  }

  @Test func `the error of a shared read reaches each of its observers`() async throws {
    struct Failure: Error {}
    let observation = ReadObservation<Int>(database.core, sharedBy: "failing", isSame: ==) { _ in throw Failure() }
    try await withThrowingTaskGroup(of: Bool.self) { group in
      for _ in 0..<20 {
        group.addTask {
          var iterator = observation.makeAsyncIterator()
          do { _ = try await iterator.next() } catch is Failure { return true }
          return false
        }
      }
      for try await hasFailed in group { #expect(hasFailed) }
    }
  }

  // MARK: - Keys

  @Test func `ranges of keys intersect if they share a key`() {
    var random = SeededRandom(seed: 7)
    let all: [[UInt8]] = (0..<4).flatMap { first in [[first]] + (0..<3).map { [first, $0] } } + [[]]
    func draw() -> TouchedKeys {
      var ranges = TouchedKeys()
      for _ in 0..<random.below(3) {
        if random.oneIn(2) {
          ranges.add(all[random.below(all.count)])
        } else {
          let upper = random.oneIn(4) ? nil : all[random.below(all.count)]
          ranges.add(StorageRange(lower: all[random.below(all.count)], upper: upper))
        }
      }
      return ranges
    }
    var meeting = 0
    for _ in 0..<2_000 {
      let (one, two) = (draw(), draw())
      let isExpected = all.contains { one.contains($0) && two.contains($0) }
      // Two ranges can share a key that is not in `all`: then they overlap as well.
      if isExpected { #expect(one.intersects(two) && two.intersects(one)) }
      if !one.intersects(two) { #expect(!isExpected) }
      #expect(one.intersects(two) == two.intersects(one))
      if isExpected { meeting += 1 }
    }
    #expect(meeting > 200)
    var many = TouchedKeys()
    for number in 0...TouchedKeys.countMaximum { many.add([UInt8(number >> 8), UInt8(number & 255)]) }
    #expect(many.isAll && many.contains([9, 9, 9]) && many.keys.isEmpty)
  }
}
