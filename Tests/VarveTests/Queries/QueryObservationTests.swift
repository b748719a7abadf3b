import EngineTestSupport
import Foundation
import Observation
import Synchronization
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of observations of queries and reads.
struct QueryObservationTests {
  private let database: Database
  private let volumes: Store<VolumeFormat>

  init() throws {
    database = try Database.inMemory { VolumeFormat.self }
    volumes = Store(in: database)
  }

  private func set(_ volumes: Volume...) async throws {
    try await self.volumes.persist(contentsOf: volumes)
  }

  // MARK: - Changes of a query

  @Test func `changes start with the result, and then report insertions, removals and updates`() async throws {
    try await set(Volume(id: 1, title: "a", year: 1990), Volume(id: 2, title: "b", year: 2005))
    var changes = volumes.query.filter { $0.year >= 2000 }.changes().makeAsyncIterator()
    let first = try #require(try await changes.next())
    #expect(first.isReload && first.ids == [2] && first.positions == nil)
    // One volume is inserted, one changes, and one is not matched by the query.
    try await set(
      Volume(id: 1, title: "a", year: 2001), Volume(id: 2, title: "c", year: 2005), Volume(id: 3, title: "x"))
    let second = try #require(try await changes.next())
    #expect(second.inserted == [1, 3] && second.updated == [2] && second.removed.isEmpty && !second.isReload)
    try await set(Volume(id: 2, title: "c", year: 1999))
    try await volumes.delete(3)
    // Commits that were not read yet are combined into one difference.
    let third = try #require(try await changes.next())
    #expect(third.inserted.isEmpty && third.updated.isEmpty)
    let last = third.removed == [2, 3] ? third : try #require(try await changes.next())
    #expect(last.removed.last == 3 && last.version > second.version)
    try await volumes.delete(...)
    var cleared = try #require(try await changes.next())
    while !cleared.isReload { cleared = try #require(try await changes.next()) }
    #expect(cleared.ids.isEmpty)
  }

  /// Queries whose changes are determined in different ways.
  enum Observed: String, CaseIterable {
    case all
    case windowThatIsSorted
    case windowInOrder
    case limitWithoutOrder

    var hasPositions: Bool { self != .all }

    func query(_ volumes: Store<VolumeFormat>) -> StoreQuery<VolumeFormat> {
      let some = volumes.query.filter { $0.year >= 2000 || $0.tags.contains("x") }
      return switch self {
      case .all: some
      case .windowThatIsSorted: some.sorted(by: \.title, descending: true).sorted(by: \.id).limit(6)
      case .windowInOrder: volumes.query.filter { $0.title >= "t1" }.sorted(by: \.title).limit(5)
      case .limitWithoutOrder: volumes.query.filter { $0.title >= "t1" }.limit(5)
      }
    }
  }

  @Test(arguments: Observed.allCases)
  func `differences lead from one result to the next`(observed: Observed) async throws {
    var random = SeededRandom(seed: UInt64(11 + Observed.allCases.firstIndex(of: observed)!))
    let query = observed.query(volumes)
    var changes = query.changes().makeAsyncIterator()
    var shown: [Int] = []
    // The content that the observer has seen.
    var seen: [Int: Volume] = [:]
    var isFirst = true
    for step in 0..<300 {
      let before = try await query.ids()
      var touched: Set<Int> = []
      let volumesNow: [Volume] = (0..<(1 + random.below(3))).map { _ in
        let id = random.below(20)
        touched.insert(id)
        return Volume(
          id: id, title: "t\(random.below(5))", year: 1998 + random.below(4), tags: random.oneIn(3) ? ["x"] : [])
      }
      let removed = random.oneIn(3) ? random.below(20) : nil
      if let removed { touched.insert(removed) }
      if !isFirst {
        try await database.write { [volumes] tx in
          try volumes.persist(contentsOf: volumesNow, in: tx)
          if let removed { _ = try volumes.deleteIfPresent(removed, in: tx) }
        }
      }
      let after = try await query.ids()
      // If nothing in the result has changed, no difference is sent.
      let isOther = observed.hasPositions ? before != after : Set(before) != Set(after)
      let isChanged = isOther || !touched.isDisjoint(with: before) && !touched.isDisjoint(with: after)
      guard isFirst || isChanged else { continue }
      let now = try await volumes.query.fetch()
      defer { seen = Dictionary(uniqueKeysWithValues: now.map { ($0.id, $0) }) }
      isFirst = false
      let change = try #require(try await changes.next())
      if change.isReload {
        shown = change.ids
      } else if observed.hasPositions {
        let positions = try #require(change.positions)
        for offset in positions.removals { shown.remove(at: offset) }
        for offset in positions.insertions { shown.insert(change.ids[offset], at: offset) }
        #expect(positions.changes.map { change.ids[$0] }.sorted() == change.updated)
        #expect(change.updated.allSatisfy { touched.contains($0) && before.contains($0) && after.contains($0) })
      } else {
        shown.removeAll { change.removed.contains($0) }
        shown += change.inserted
        #expect(Set(change.updated).isSubset(of: touched))
      }
      for id in change.updated {
        let (old, new) = (try #require(seen[id]), try #require(now.first { $0.id == id }))
        #expect(change.changedFields[id] == old.fieldsThatDiffer(from: new), "step \(step)")
      }
      if observed.hasPositions {
        #expect(shown == after, "step \(step)")
      } else {
        #expect(Set(shown) == Set(after), "step \(step)")
      }
    }
  }

  @Test func `changed fields are those that differ from what the observer has seen`() async throws {
    try await set(Volume(id: 1, title: "a", year: 2000), Volume(id: 2, title: "b", year: 2000))
    var changes = volumes.query.filter { $0.year >= 2000 }.changes().makeAsyncIterator()
    _ = try await changes.next()
    func fields(
      of id: Int = 1, _ body: @escaping @Sendable (WriteTransaction) throws -> Void
    ) async throws -> Set<String>? {
      try await database.write { tx in try body(tx) }
      let change = try #require(try await changes.next())
      #expect(change.updated == [id])
      return change.changedFields[id]
    }
    let (database, volumes) = (database, volumes)
    // The row is changed twice in one transaction, back to the first value.
    #expect(
      try await fields { tx in
        try volumes.persist(Volume(id: 1, title: "x", year: 2000), in: tx)
        try volumes.persist(Volume(id: 1, title: "y", year: 2000), in: tx)
      } == ["title"])
    #expect(
      try await fields { tx in
        try volumes.persist(Volume(id: 1, title: "z", year: 2001), in: tx)
        try volumes.persist(Volume(id: 1, title: "y", year: 2000), in: tx)
      } == [])
    // The row is removed, and inserted again.
    #expect(
      try await fields { tx in
        _ = try volumes.delete(1, in: tx)
        try volumes.insert(Volume(id: 1, title: "y", year: 2000, tags: ["t"]), in: tx)
      } == ["tags"])
    #expect(try await fields { tx in try tx.touchObject(key: 1, in: "volumes") } == [])
    // Changes that a nested write undoes do not count.
    #expect(
      try await fields { tx in
        try? database.write { inner in
          try volumes.persist(Volume(id: 1, title: "undone", year: 2005), in: inner)
          try inner.rollBack()
        }
        try volumes.persist(Volume(id: 1, title: "y", year: 2006, tags: ["t"]), in: tx)
      } == ["year"])
    #expect(try await fields(of: 2) { tx in try volumes.modify(2, in: tx) { $0.isbn = "1" } } == ["isbn"])
    #expect(try await fields(of: 2) { tx in try volumes.modify(2, in: tx) { $0.isbn = nil } } == ["isbn"])
    // Commits that the consumer has not read are one difference.
    try await set(Volume(id: 2, title: "c", year: 2000))
    try await set(Volume(id: 2, title: "d", year: 2001))
    try await set(Volume(id: 2, title: "b", year: 2001))
    await database.core.observations.delivered(through: database.core.changes.last)
    let change = try #require(try await changes.next())
    #expect(change.updated == [2] && change.changedFields[2] == ["year"])
  }

  @Test func `fields changed past a transaction's limit are unknown`() async throws {
    let text = String(repeating: "x", count: 1_000)
    try await volumes.persist(contentsOf: (0..<400).map { Volume(id: $0, title: text) })
    var changes = volumes.query.changes().makeAsyncIterator()
    _ = try await changes.next()
    try await volumes.persist(contentsOf: (0..<400).map { Volume(id: $0, title: text, year: 1) })
    let change = try #require(try await changes.next())
    let known = ChangeLimits.replacedBytes / 1_000
    #expect(change.updated.count == 400)
    #expect((known / 2...known).contains(change.changedFields.count))
    #expect(change.changedFields.values.allSatisfy { $0 == ["year"] })
  }

  @Test func `changed fields are unknown for rows that another coder has written`() async throws {
    struct Page: Codable, Identifiable, Sendable { var id: Int, text: String }
    struct PageFormat: StoreFormat {
      typealias Instance = Page
      static let collection = "pages"
      static let coder = CoderKind.json
    }
    let database = try await Database.inMemory { PageFormat.self }
    let pages = Store<PageFormat>(in: database)
    try await pages.persist(Page(id: 1, text: "a"))
    var changes = pages.query.changes().makeAsyncIterator()
    _ = try await changes.next()
    try await pages.persist(Page(id: 1, text: "b"))
    let change = try #require(try await changes.next())
    #expect(change.updated == [1] && change.changedFields.isEmpty)
  }

  @Test(arguments: [true, false])
  func `an observer concurrent with a writer that does not wait receives every change in the end`(hasWindow: Bool)
    async throws
  {
    let end = 1_000
    var query = volumes.query.filter { $0.year >= 2000 || $0.id == end }
    if hasWindow { query = query.sorted(by: \.title).sorted(by: \.id).limit(2_000) }
    var changes = query.changes().makeAsyncIterator()
    var shown = Set(try #require(try await changes.next()).ids)
    let writing = Task { [database, volumes] in
      var random = SeededRandom(seed: 13)
      for _ in 0..<3_000 {
        let volume = Volume(id: random.below(40), title: "t\(random.below(5))", year: 1998 + random.below(4))
        let isRemoval = random.oneIn(4)
        try await database.write { tx in
          if isRemoval {
            _ = try volumes.deleteIfPresent(volume.id, in: tx)
          } else {
            try volumes.persist(volume, in: tx)
          }
        }
      }
      try await database.write { tx in try volumes.persist(Volume(id: end, title: "end", year: 1990), in: tx) }
    }
    var version = CommitVersion.zero
    while !shown.contains(end) {
      let change = try #require(try await changes.next())
      #expect(change.version > version)
      version = change.version
      if change.isReload { shown = Set(change.ids) }
      #expect(Set(change.removed).isSubset(of: shown) && shown.isDisjoint(with: change.inserted))
      shown.subtract(change.removed)
      shown.formUnion(change.inserted)
    }
    try await writing.value
    #expect(shown == Set(try await query.ids()))
  }

  @Test func `observers in a following program have every change of the writer in the end`() async throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let writer = try await Database.open(at: path) { VolumeFormat.self }
    let written = Store<VolumeFormat>(in: writer)
    try await written.persist(contentsOf: (0..<200).map { Volume(id: $0, title: "", year: 1998 + $0 % 4) })
    var options = DatabaseOptions()
    options.follows = true
    let follower = try await Database.open(at: path, options: options) { VolumeFormat.self }
    let query = Store<VolumeFormat>(in: follower).query.filter { $0.year >= 2000 }
    try await withThrowingTaskGroup(of: Set<Int>.self) { group in
      for _ in 0..<12 {
        group.addTask {
          var shown: Set<Int> = []
          for try await change in query.changes() {
            if change.isReload { shown = Set(change.ids) }
            shown.subtract(change.removed)
            shown.formUnion(change.inserted)
            if shown.contains(-1) { break }
          }
          return shown
        }
      }
      var random = SeededRandom(seed: 14)
      for number in 0..<1_500 {
        // A few commits change many rows, so that their reads take long.
        let volumes = (0..<(number % 50 == 0 ? 150 : 2)).map { _ in
          Volume(id: random.below(200), title: "\(number)", year: 1998 + random.below(4))
        }
        try await written.persist(contentsOf: volumes)
      }
      try await written.persist(Volume(id: -1, title: "end"))
      let last = Set(try await written.query.filter { $0.year >= 2000 }.ids())
      for try await shown in group { #expect(shown == last) }
    }
    try await follower.close()
    try await writer.close()
  }

  @Test func `a query that can't be answered ends its observation with the error, and closing ends all`() async throws {
    var refused = volumes.query.filter { $0.title.contains("x") }.limit(3).changes().makeAsyncIterator()
    try await set(Volume(id: 1, title: "x"))
    var code: DatabaseError.Code?
    do { _ = try await refused.next() } catch let error as DatabaseError { code = error.code }
    #expect(code == .notIndexed)
    #expect(try await refused.next() == nil)
    var changes = volumes.query.changes().makeAsyncIterator()
    var counts = volumes.query.observeCount().makeAsyncIterator()
    #expect(try await changes.next()?.ids == [1])
    #expect(try await counts.next() == 1)
    try await database.close()
    #expect(try await changes.next() == nil)
    #expect(try await counts.next() == nil)
    #expect(database.core.observations.isEmpty)
  }

  // MARK: - Reads

  @Test func `a read is repeated when something it has read has changed, and equal values are left out`() async throws {
    try await set(Volume(id: 1, title: "a"), Volume(id: 2, title: "b"))
    let runs = Mutex(0)
    let reads = database.observe { [volumes] tx in
      runs.withLock { $0 += 1 }
      return try volumes.load(1, in: tx)?.title
    }
    var titles = reads.makeAsyncIterator()
    #expect(try await titles.next() == "a")
    // Changes of another row and of another collection do not count.
    try await set(Volume(id: 2, title: "c"))
    try await database.write { tx in try tx.set("note", key: 1, in: "notes") }
    // The title of this row does not change.
    try await set(Volume(id: 1, title: "a", year: 1800))
    try await set(Volume(id: 1, title: "d"))
    #expect(try await titles.next() == "d")
    #expect(runs.withLock { $0 } <= 3)
    try await volumes.delete(1)
    #expect(try await titles.next() == .some(nil))
  }

  @Test func `a read of a missing row, of a range, and of an index is repeated when it changes`() async throws {
    var notes = database.observe { tx in try tx.object(String.self, key: 1, in: "notes") }.makeAsyncIterator()
    var early = database.observe { [volumes] tx in try volumes.load(..<10, in: tx).count() }.makeAsyncIterator()
    var named = database.observe { [volumes] tx in try volumes.count(.value("x"), from: \.title, in: tx) }
      .makeAsyncIterator()
    #expect(try await notes.next() == .some(nil))
    #expect(try await early.next() == 0)
    #expect(try await named.next() == 0)
    try await set(Volume(id: 50, title: "x"))
    #expect(try await named.next() == 1)
    try await set(Volume(id: 5, title: "y"))
    #expect(try await early.next() == 1)
    try await database.write { tx in try tx.set("note", key: 1, in: "notes") }
    #expect(try await notes.next() == "note")
  }

  @Test func `a read of an extension is repeated when rows of its scope change`() async throws {
    let database = try await Database.inMemory()
    let words = try registered(WordCount(), in: database)
    var counts = database.observe { tx in try tx[words].count(of: "sea") }.makeAsyncIterator()
    #expect(try await counts.next() == 0)
    try await database.write { tx in try tx.set("sea", key: 1, in: "notes") }
    #expect(try await counts.next() == 1)
  }

  /// Registers by the blocking form.
  private func registered(_ words: WordCount, in database: Database) throws -> ExtensionHandle<WordCount> {
    try database.registerReady(words, as: "words")
  }

  @Test func `an error of the read ends the iteration`() async throws {
    struct Failure: Error {}
    var reads = database.observe { [volumes] tx -> Int in
      let count = try volumes.count(in: tx)
      if count > 0 { throw Failure() }
      return count
    }.makeAsyncIterator()
    #expect(try await reads.next() == 0)
    try await set(Volume(id: 1, title: ""))
    await #expect(throws: Failure.self) { _ = try await reads.next() }
  }

  // MARK: - For user interfaces

  @MainActor private func next(_ read: () -> Void) async {
    await withCheckedContinuation { continuation in
      withObservationTracking(read) { continuation.resume() }
    }
    // The change is announced before it is made: it is visible in the next turn.
    await Task.yield()
  }

  @MainActor @Test func `a live query and a live item show the results of commits`() async throws {
    let live = LiveQuery(volumes.query.filter { $0.year >= 2000 }.sorted(by: \.title))
    let item = LiveItem(2, of: volumes)
    #expect(!live.isLoaded && live.instances.isEmpty && !item.isLoaded)
    while !live.isLoaded { await next { _ = live.isLoaded } }
    while !item.isLoaded { await next { _ = item.isLoaded } }
    #expect(item.instance == nil && live.error == nil)
    try await set(Volume(id: 2, title: "b", year: 2001), Volume(id: 3, title: "a", year: 2001))
    while live.instances.isEmpty { await next { _ = live.instances } }
    while item.instance == nil { await next { _ = item.instance } }
    #expect(live.instances.map(\.id) == [3, 2] && item.instance?.title == "b")
    let refused = LiveQuery(volumes.query.filter { $0.title.contains("b") })
    while refused.error == nil { await next { _ = refused.error } }
    #expect((refused.error as? DatabaseError)?.code == .notIndexed)
  }

  @MainActor @Test func `the members of a scope show one commit`() async throws {
    let scope = LiveScope(database)
    let one = LiveItem(1, of: volumes, in: scope)
    let two = LiveItem(2, of: volumes, in: scope)
    let count = LiveQuery(volumes.query.filter { $0.year == 7 }, in: scope)
    let last = 60
    let writer = Task { [volumes, database] in
      for number in 1...last {
        try await database.write { tx in
          try volumes.persist(Volume(id: 1, title: "\(number)"), in: tx)
          try volumes.persist(Volume(id: 2, title: "\(number)"), in: tx)
          if number % 2 == 0 { try volumes.persist(Volume(id: 100 + number, title: "", year: 7), in: tx) }
        }
      }
    }
    while one.instance?.title != "\(last)" {
      await next { _ = one.instance }
      #expect(one.instance?.title == two.instance?.title)
      if let number = one.instance.flatMap({ Int($0.title) }) { #expect(count.instances.count == number / 2) }
    }
    try await writer.value
  }

  @Test func `many observers that a commit does not concern are not woken`() async throws {
    try await set(Volume(id: 0, title: "mine"))
    let iterators = (1...200).map { number in
      volumes.query.filter { $0.title == "title \(number)" }.changes().makeAsyncIterator()
    }
    for var iterator in iterators { #expect(try await iterator.next()?.ids == []) }
    var mine = volumes.query.filter { $0.title == "title 7" }.changes().makeAsyncIterator()
    #expect(try await mine.next()?.ids == [])
    try await set(Volume(id: 0, title: "yours"), Volume(id: 9, title: "title 7"))
    #expect(try await mine.next()?.inserted == [9])
  }
}

extension Volume {
  /// Returns the coding keys of the fields that these tests set.
  fileprivate func fieldsThatDiffer(from other: Volume) -> Set<String> {
    var fields: Set<String> = []
    if title != other.title { fields.insert("title") }
    if year != other.year { fields.insert("year") }
    if tags != other.tags { fields.insert("tags") }
    return fields
  }
}
