import EngineTestSupport
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of what a row that can't be decoded does to observers: the lines of the table in the guide *Queries* that
/// observe. No observation ends for one row.
struct UndecodableObservationTests {
  private static let good = Lamp(id: 3, name: "lamp 3", watt: 30)

  private static func code<Value>(_ body: () async throws -> Value) async -> DatabaseError.Code? {
    do { _ = try await body() } catch { return (error as? DatabaseError)?.code }
    return nil
  }

  /// Opens a shop whose third lamp can be decoded.
  private func open<Format: LampFormat>(_ format: Format.Type) async throws -> (Database, Store<Format>) {
    let (database, lamps) = try await LampShop().open(format, .indexed)
    try await lamps.persist(Self.good)
    return (database, lamps)
  }

  @Test("an observer of a row gets nil or the stand-in, and continues")
  func row() async throws {
    let (database, lamps) = try await open(SkippingLamps.self)
    var seen = lamps.observe(3).makeAsyncIterator()
    #expect(try await seen.next() == .some(Self.good))
    try await LampShop.store(LampShop.violet, in: database)
    #expect(try await seen.next() == .some(nil))
    try await lamps.persist(Self.good)
    #expect(try await seen.next() == .some(Self.good))
    try await database.close()
    let (other, stands) = try await open(ReplacingLamps.self)
    var shown = stands.observe(3).makeAsyncIterator()
    #expect(try await shown.next() == .some(Self.good))
    try await LampShop.store(LampShop.violet, in: other)
    #expect(try await shown.next()??.name == "unknown")
    try await other.close()
  }

  @Test("an observer of a format that throws gets the error, and continues")
  func throwing() async throws {
    let (database, lamps) = try await open(ThrowingLamps.self)
    var row = lamps.observe(3).makeAsyncIterator()
    var all = lamps.query.observe().makeAsyncIterator()
    var changes = lamps.query.filter { $0.watt >= 30 }.changes().makeAsyncIterator()
    var window = lamps.query.sorted(by: \.name).limit(4).changes().makeAsyncIterator()
    #expect(try await row.next() == .some(Self.good))
    #expect(try await all.next()?.count == 6)
    #expect(try await changes.next()?.ids == [3, 4, 5, 6])
    #expect(try await window.next()?.ids == [1, 2, 3, 4])
    try await LampShop.store(LampShop.violet, in: database)
    #expect(await Self.code { try await row.next() } == .decodingFailed)
    #expect(await Self.code { try await all.next() } == .decodingFailed)
    #expect(await Self.code { try await window.next() } == .decodingFailed)
    try await lamps.persist(Lamp(id: 7, name: "lamp 7", watt: 70))
    #expect(await Self.code { try await all.next() } == .decodingFailed, "it still can't be answered")
    try await lamps.persist(Self.good)
    #expect(try await row.next() == .some(Self.good))
    #expect(try await all.next()?.count == 7)
    // What has happened in between is not known, so the observers of changes get a reload if they met the row.
    let next = try #require(try await window.next())
    #expect(next.isReload && next.ids == [1, 2, 3, 4])
    var ids: Set<Int> = [3, 4, 5, 6]
    while ids != [3, 4, 5, 6, 7] {
      guard let change = try await changes.next() else { break }
      if change.isReload { ids = Set(change.ids) }
      ids.subtract(change.removed)
      ids.formUnion(change.inserted)
    }
    try await database.close()
  }

  /// Checks that the observers of a query agree with the query while the row can be decoded, can't, and can again.
  private func check<Format: LampFormat>(_ format: Format.Type, without: [Int]) async throws {
    let (database, lamps) = try await open(format)
    let query = lamps.query.filter { $0.room == "hall" }
    var all = query.sorted(by: \.id).observe().makeAsyncIterator()
    var ids = query.sorted(by: \.id).observeIDs().makeAsyncIterator()
    var watts = query.sorted(by: \.id).observeValues(of: \.watt).makeAsyncIterator()
    var changes = query.changes().makeAsyncIterator()
    var window = query.sorted(by: \.id).limit(4).changes().makeAsyncIterator()
    #expect(try await all.next()?.map(\.id) == [1, 2, 3, 4, 5, 6])
    #expect(try await ids.next() == [1, 2, 3, 4, 5, 6])
    #expect(try await watts.next() == [10, 20, 30, 40, 50, 60])
    #expect(try await Set(changes.next()?.ids ?? []) == [1, 2, 3, 4, 5, 6])
    #expect(try await window.next()?.ids == [1, 2, 3, 4])
    try await LampShop.store(LampShop.violet, in: database)
    let isThere = without.contains(3)
    #expect(try await all.next()?.map(\.id) == without)
    if !isThere { #expect(try await ids.next() == without) }
    #expect(try await watts.next() == (isThere ? [10, 20, 1, 40, 50, 60] : [10, 20, 40, 50, 60]))
    let change = try #require(try await changes.next())
    #expect(isThere ? change.updated == [3] : change.removed == [3])
    let moved = try #require(try await window.next())
    #expect(isThere ? moved.updated == [3] : moved.ids == [1, 2, 4, 5])
    try await lamps.persist(Self.good)
    #expect(try await all.next()?.map(\.id) == [1, 2, 3, 4, 5, 6])
    let back = try #require(try await changes.next())
    #expect(isThere ? back.updated == [3] : back.inserted == [3])
    #expect(try await window.next()?.ids == [1, 2, 3, 4])
    try await database.close()
  }

  @Test("observers of a query lose and regain a row that is skipped")
  func skipping() async throws { try await check(SkippingLamps.self, without: [1, 2, 4, 5, 6]) }

  @Test("observers of a query see a stand-in as an update")
  func replacing() async throws { try await check(ReplacingLamps.self, without: [1, 2, 3, 4, 5, 6]) }

  // MARK: - On the main actor

  @MainActor private func until(_ condition: () -> Bool) async {
    while !condition() { await Task.yield() }
  }

  @Test("live values of a format that throws keep what they show, and continue")
  @MainActor func live() async throws {
    let (database, lamps) = try await open(ThrowingLamps.self)
    let list = LiveQuery(lamps.query.sorted(by: \.id).scan())
    let item = LiveItem(3, of: lamps)
    await until { list.isLoaded && item.isLoaded }
    try await LampShop.store(LampShop.violet, in: database)
    await until { list.error != nil && item.error != nil }
    #expect(list.instances.count == 6 && item.instance == Self.good)
    try await lamps.persist(Lamp(id: 3, name: "again", watt: 30))
    await until { list.error == nil && item.error == nil }
    #expect(list.instances.map(\.name).contains("again") && item.instance?.name == "again")
    try await database.close()
  }

  @Test("a live query of a format that skips says what it lacks, and one with stand-ins shows them")
  @MainActor func liveSkips() async throws {
    let (database, lamps) = try await open(SkippingLamps.self)
    let list = LiveQuery(lamps.query.sorted(by: \.name))
    await until { list.isLoaded }
    #expect(list.instances.count == 6 && list.skippedRows.count == 0)
    try await LampShop.store(LampShop.violet, in: database)
    await until { list.instances.count == 5 }
    #expect(list.skippedRows.count == 1 && list.skippedRows.first.first?.key.text == "3" && list.error == nil)
    try await database.close()
    let (other, stands) = try await LampShop().open(ReplacingLamps.self, .indexed)
    let shown = LiveQuery(stands.query.sorted(by: \.name))
    await until { shown.isLoaded }
    #expect(shown.instances.map(\.name) == ["lamp 1", "lamp 2", "unknown", "lamp 4", "lamp 5", "lamp 6"])
    try await other.close()
  }
}
