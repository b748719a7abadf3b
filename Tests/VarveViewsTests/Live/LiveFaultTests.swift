import EngineTestSupport
import Testing
import Varve
import VarveTestSupport
import VarveViews

/// Tests of what lists for user interfaces got wrong once.
@MainActor
struct LiveFaultTests {
  private let shelf: ShelfCase

  init() throws { shelf = try ShelfCase() }

  @Test func `a condition that is set during the first read neither waits for it nor is lost`() async throws {
    try shelf.fill([("a", 0..<10)])
    let gate = ReadGate()
    shelf.source.probe.refuse { _ in
      gate.pass()
      return nil
    }
    let list = LiveList(shelf.source)
    await gate.reached()
    // The read is held until the gate opens, so these calls would not return.
    list.filter { $0.id == 5 }
    list.filter { $0.id > 7 }
    list.grow(at: .end)
    list.prefetch([ListIndex(section: 0, offset: 3)])
    gate.open()
    try await list.catchUp()
    #expect(list.text == "a:8,9")
  }

  @Test func `conditions beside commits show the newest rows, and the right changes`() async throws {
    try shelf.fill([("a", 0..<20)])
    let list = LiveList(shelf.source, window: .all)
    let table = Table(list)
    var random = SeededRandom(seed: 7)
    for round in 0..<60 {
      let divisor = 1 + random.below(4)
      list.filter { $0.id % divisor == 0 }
      try shelf.set(Item(id: random.below(30), group: ["a", "b"][random.below(2)], rank: random.below(9)))
      try shelf.remove(random.below(30))
      // Some of the steps take several commits and conditions together.
      if random.oneIn(2) { continue }
      try await list.catchUp()
      let mapping = try present { $0.id % divisor == 0 }
      #expect(list.shown == mapping, "round \(round)")
      #expect(table.shown == mapping)
    }
  }

  private func present(_ keeps: @escaping @Sendable (Item) -> Bool) throws -> ShownList {
    var mapping = ListMapping(shelf.source, where: keeps)
    _ = try mapping.advance(to: shelf.database.holdSnapshot(), after: [])
    return try ShownList(mapping)
  }

  @Test func `a list whose old snapshot can't be read is shown again`() async throws {
    try shelf.fill([("a", 0..<3)])
    let list = LiveList(shelf.source)
    let table = Table(list)
    try await list.catchUp()
    for code in [DatabaseError.Code.snapshotTooOld, .notFound] {
      let old = try #require(list.version)
      shelf.source.probe.refuse { $0 == old ? DatabaseError(code, "gone") : nil }
      try shelf.set(Item(id: 1, group: "a", rank: 1, text: "\(code)"))
      try await list.catchUp()
      #expect(table.log.last == "reload" && list.rows[1].element?.text == "\(code)")
    }
  }

  @Test func `growing beyond all bounds loads all rows`() async throws {
    try shelf.fill([("a", 0..<30)])
    let list = LiveList(shelf.source, window: .first(5))
    try await list.catchUp()
    list.grow(at: .end, by: .max)
    list.grow(at: .end, by: .max)
    list.grow(at: .start, by: .max)
    list.grow(at: .start, by: .min)
    await waitUntil { list.rows.count == 30 }
    let all = LiveList(shelf.source, window: .last(.max))
    try await all.catchUp()
    #expect(all.rows.count == 30)
    let one = LiveList(shelf.source, window: .first(.min))
    try await one.catchUp()
    #expect(one.rows.count == 1)
  }

  @Test func `a scope holds a snapshot only while it has a list`() async throws {
    try shelf.fill([("a", 0..<3)])
    let scope = LiveScope(shelf.database)
    let groups = LiveGroups(shelf.source, in: scope)
    await waitUntil { groups.state.isLoaded }
    #expect(shelf.database.longLivedReads.isEmpty)
    var list: LiveList<ShelfSource>? = LiveList(shelf.source, in: scope)
    try await list?.catchUp()
    #expect(shelf.database.longLivedReads.count == 1)
    list = nil
    await VarveTestSupport.waitUntil { shelf.database.longLivedReads.isEmpty }
    try shelf.remove(1)
    await waitUntil { groups.count(of: "a") == 2 }
    #expect(shelf.database.longLivedReads.isEmpty)
  }

  @Test func `an idle list moves its snapshot with every commit`() async throws {
    try shelf.fill([("a", 0..<3)])
    let list = LiveList(shelf.source)
    let table = Table(list)
    try await list.catchUp()
    for number in 0..<3 {
      try shelf.write { tx in try tx.set("x", key: number, in: "others") }
      try await list.catchUp()
      let present = try shelf.database.holdSnapshot().version
      await VarveTestSupport.waitUntil { shelf.database.longLivedReads.allSatisfy { $0.version == present } }
    }
    // Nothing that is shown has changed.
    #expect(table.log == ["reload"])
  }

  @Test func `commits beyond what is known are not lost`() async throws {
    let unfed = try ShelfCase(feed: nil)
    try unfed.fill([("a", 0..<3)])
    let list = LiveList(unfed.source)
    let table = Table(list)
    try await list.catchUp()
    let gate = ReadGate()
    unfed.source.probe.refuse { _ in
      gate.pass()
      return nil
    }
    try unfed.remove(0)
    await gate.reached()
    // More than a connection keeps, and without a feed.
    for number in 0..<300 { try unfed.set(Item(id: 1000 + number % 2, group: "b", rank: number)) }
    try unfed.remove(1)
    gate.open()
    try await list.catchUp()
    #expect(list.text == "a:2 b:1000,1001" && table.shown == list.shown)
  }

  @Test func `a window whose first row is deleted keeps its place`() async throws {
    try shelf.fill([("a", 0..<100)])
    let list = LiveList(shelf.source, window: .first(5))
    try await list.catchUp()
    list.jump(to: 50)
    await waitUntil { list.rows.first?.id == 48 }
    try shelf.remove(48)
    try await list.catchUp()
    #expect(list.rows.map(\.id) == [49, 50, 51, 52, 53])
    // Nor does a first row that moves away take the window with it.
    try shelf.set(Item(id: 49, group: "a", rank: 1))
    try await list.catchUp()
    #expect(list.rows.map(\.id) == [50, 51, 52, 53, 54])
    try shelf.remove(50, 51, 52, 53, 54)
    try await list.catchUp()
    #expect(list.rows.map(\.id) == [55, 56, 57, 58, 59] || list.rows.map(\.id) == [56, 57, 58, 59, 60])
  }

  @Test func `the steps of a mapping include the end of a build`() async throws {
    let database = try Database.open(inMemory: ())
    try database.put((0..<5).map { Item(id: $0, group: "a", rank: $0) })
    let gate = ReadGate()
    let handle = try database.registerNow(Shelf(gate: { _ in gate.pass() }), as: "shelf")
    var steps = ListMapping(ShelfSource(database: database, shelf: handle)).updates().makeAsyncIterator()
    let first = try await steps.next()
    #expect(first?.changes.isBuilding == true && first?.mapping.isEmpty == true)
    gate.open()
    var last = first
    while last?.changes.isBuilding == true { last = try await steps.next() }
    #expect(last?.changes.isReload == true && last?.mapping.count == 5)
    try database.put([Item(id: 9, group: "a", rank: 9)])
    last = try await steps.next()
    while last?.changes.isEmpty == true { last = try await steps.next() }
    #expect(last?.changes.text == "+0.5")
    try await database.close()
    #expect(try await steps.next() == nil)
  }

  @Test func `a list in a program that follows another one moves with it`() async throws {
    let directory = try TemporaryDirectory()
    let path = "\(directory.path)/followed.varve"
    let writer = try Self.open(path, follows: false)
    let written = try ShelfCase(writer)
    try written.fill([("a", 0..<3)])
    let follower = try Self.open(path, follows: true)
    let source = ShelfSource(database: follower, shelf: try follower.registerNow(Shelf(), as: "shelf"))
    let list = LiveList(source)
    let table = Table(list)
    await waitUntil { list.state.isLoaded }
    #expect(list.text == "a:0,1,2")
    try written.remove(1)
    await waitUntil { list.count == 2 }
    #expect(table.log.last == "-0.1")
    // A commit of other rows, and one that changes no row.
    try written.write { tx in try tx.set("x", key: 1, in: "others") }
    let present = try writer.holdSnapshot().version
    await waitUntil { list.version == present }
    try written.write { tx in
      try tx.replaceDefinition(of: written.source.shelf, by: Shelf(version: "1", isDescending: false))
      try tx.set("y", key: 2, in: "others")
    }
    let later = try writer.holdSnapshot().version
    await waitUntil { list.version == later }
    try await follower.close()
    try await writer.close()
  }

  private static func open(_ path: String, follows: Bool) throws -> Database {
    var options = DatabaseOptions()
    options.follows = follows
    return try Database.open(at: path, options: options)
  }

  @Test func `a closed database leaves the list as it is`() async throws {
    try shelf.fill([("a", 0..<3)])
    let list = LiveList(shelf.source)
    try await list.catchUp()
    try await shelf.database.close()
    #expect(list.text == "a:0,1,2" && list.state.isLoaded)
    list.grow(at: .end)
    list.filter { _ in false }
  }

  @Test func `a list of a closed database searches for nothing`() async throws {
    try shelf.fill([("a", 0..<3)])
    let scope = LiveScope(shelf.database)
    let list = LiveList(shelf.source, in: scope)
    try await list.catchUp()
    let gate = ReadGate()
    list.filter { _ in
      gate.pass()
      return true
    }
    await gate.reached()
    #expect(list.isFiltering)
    async let closed: Void = shelf.database.close()
    gate.open()
    try await closed
    await waitUntil { !list.isFiltering }
    list.filter { $0.id == 1 }
    // The scope is notified of the close on the main actor, perhaps after this call.
    await waitUntil { !list.isFiltering }
    #expect(list.text == "a:0,1,2")
    // What is made later says why it is empty, and the others stay as they are.
    let wasLoaded = list.state.isLoaded
    for scope in [scope, LiveScope(shelf.database)] {
      let later = LiveList(shelf.source, where: { $0.id == 1 }, in: scope)
      let groups = LiveGroups(shelf.source, in: scope)
      await waitUntil { later.state.error != nil && groups.state.error != nil }
      #expect((later.state.error as? DatabaseError)?.code == .closed && !later.isFiltering)
      #expect((groups.state.error as? DatabaseError)?.code == .closed)
    }
    #expect(list.state.isLoaded == wasLoaded)
  }

  @Test(arguments: [ListEdge.start, .end])
  func `a window that a jump has moved away stays at its rows`(edge: ListEdge) async throws {
    func end(_ ids: Range<Int>) -> [Int] { edge == .end ? Array(ids) : ids.map { 99 - $0 }.reversed() }
    try shelf.fill([("a", 0..<100)])
    let list = LiveList(shelf.source, window: edge == .end ? .last(5) : .first(5))
    try await list.catchUp()
    let middle = edge == .end ? 20 : 79
    list.jump(to: middle)
    await waitUntil { list.rows.contains { $0.id == middle } }
    let shown = list.rows.map(\.id)
    #expect(shown == end(18..<23))
    // All rows between the window and the end of the list go, and others come there.
    try shelf.write { tx in for id in end(23..<100) { try tx.remove(key: id, in: "items") } }
    try await list.catchUp()
    #expect(list.rows.map(\.id) == shown && list.count == 23)
    try shelf.set(end(30..<40).map { Item(id: $0, group: "a", rank: $0) })
    try await list.catchUp()
    #expect(list.rows.map(\.id) == shown)
    // Growing up to the end of the list, or a jump to it, is a return.
    list.grow(at: edge, by: 10)
    await waitUntil { list.rows.count == 15 }
    try shelf.set(end(40..<41).map { Item(id: $0, group: "a", rank: $0) })
    try await list.catchUp()
    #expect(list.rows.map(\.id).contains(end(40..<41)[0]) && list.rows.count == 15)
    list.jump(to: middle)
    await waitUntil { list.rows.count == 5 }
    #expect(list.rows.map(\.id) == shown)
    list.jump(to: end(40..<41)[0])
    await waitUntil { list.rows.map(\.id) != shown }
    try shelf.set(end(41..<42).map { Item(id: $0, group: "a", rank: $0) })
    try await list.catchUp()
    #expect(list.rows.map(\.id) == end(37..<42))
  }
}
