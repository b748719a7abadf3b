import Testing
import Varve
import VarveTestSupport
import VarveViews

@testable import ObjectFixtures

/// Tests of lists for user interfaces.
@MainActor
struct LiveListTests {
  private let shelf: ShelfCase

  init() throws { shelf = try ShelfCase() }

  @Test func `a list loads, and follows commits, without reading on the main actor`() async throws {
    try shelf.fill([("a", 0..<3), ("b", 10..<12)])
    let list = LiveList(shelf.source)
    if case .notLoaded = list.state {} else { Issue.record("\(list.state)") }
    #expect(list.sections.isEmpty && list.count == 0 && list.version == nil)
    let table = Table(list)
    try await list.catchUp()
    #expect(list.text == "a:0,1,2 b:10,11" && list.count == 5)
    #expect(list.sections[1].count == 2 && list.sections[1].id == "b")
    #expect(list.sections[1].elements.map(\.id) == [10, 11])
    try shelf.remove(1)
    try shelf.set(Item(id: 10, group: "a", rank: -1, text: "new"))
    try await list.catchUp()
    #expect(list.text == "a:10,0,2 b:11")
    #expect(list.element(at: ListIndex(section: 0, offset: 0))?.text == "new")
    #expect(list.indexPath(of: 11) == ListIndex(section: 1, offset: 0) && list.indexPath(of: 1) == nil)
    #expect(table.log.first == "reload")
    #expect(shelf.source.probe.callsOnMain == 0)
  }

  @Test func `a window grows and jumps, and keeps its rows`() async throws {
    try shelf.fill([("a", 0..<100), ("b", 100..<150)])
    let list = LiveList(shelf.source, window: .first(10))
    try await list.catchUp()
    #expect(list.rows.map(\.id) == Array(0..<10) && list.count == 150)
    #expect(list.sections.map(\.count) == [100, 50] && list.sections[1].rows.isEmpty)
    list.grow(at: .end)
    await waitUntil { list.rows.count == 20 }
    list.jump(to: 99)
    await waitUntil { list.rows.first?.id == 94 }
    #expect(list.rows.map(\.id) == Array(94..<104))
    #expect(list.sections[0].offset == 94 && list.sections[1].offset == 0)
    // Rows that come before the window leave it where it is.
    try shelf.set((200..<220).map { Item(id: $0, group: "a", rank: 0) })
    try await list.catchUp()
    #expect(list.rows.map(\.id) == Array(94..<104) && list.sections[0].offset == 114)
    list.grow(at: .start, by: 5)
    await waitUntil { list.rows.count == 15 }
    #expect(list.rows.first?.id == 89)
    list.jump(to: ListIndex(section: 1, offset: 49))
    await waitUntil { list.rows.last?.id == 149 }
    #expect(list.rows.map(\.id) == Array(140..<150))
    list.jump(to: ListIndex(section: -7, offset: .min))
    await waitUntil { list.rows.first?.id == 0 }
    list.jump(to: ListIndex(section: .max, offset: .max))
    await waitUntil { list.rows.last?.id == 149 }
    list.jump(to: 12_345)
    list.jump(to: 0)
    await waitUntil { list.rows.first?.id == 0 }
  }

  @Test func `a chat stays at its end, and grows at its start`() async throws {
    try shelf.fill([("a", 0..<50)])
    let list = LiveList(shelf.source, window: .last(5))
    try await list.catchUp()
    #expect(list.rows.map(\.id) == Array(45..<50))
    try shelf.set(Item(id: 50, group: "a", rank: 50))
    try await list.catchUp()
    #expect(list.rows.map(\.id) == Array(46..<51))
    list.grow(at: .start, by: 3)
    await waitUntil { list.rows.count == 8 }
    #expect(list.rows.map(\.id) == Array(43..<51))
    try shelf.set(Item(id: 51, group: "a", rank: 51))
    try await list.catchUp()
    #expect(list.rows.map(\.id) == Array(44..<52))
    // A message that comes while an old one is read does not move the window.
    list.jump(to: 20)
    await waitUntil { list.rows.contains { $0.id == 20 } }
    try shelf.set(Item(id: 52, group: "a", rank: 52))
    try await list.catchUp()
    #expect(list.rows.map(\.id) == Array(18..<23))

    let reversed = LiveList(shelf.source, sections: .all.reversed(), window: .first(3))
    try await reversed.catchUp()
    #expect(reversed.rows.map(\.id) == [52, 51, 50])
  }

  @Test func `a selection continues at the nearest row`() async throws {
    try shelf.fill([("a", 0..<5)])
    let list = LiveList(shelf.source)
    try await list.catchUp()
    try shelf.remove(2)
    try await list.catchUp()
    #expect(list.nearest(to: 2) == ListIndex(section: 0, offset: 2) && list.nearest(to: 77) == nil)
    try shelf.remove(3, 4)
    try await list.catchUp()
    #expect(list.nearest(to: 2) == ListIndex(section: 0, offset: 1))
    #expect(list.nearest(to: 1) == ListIndex(section: 0, offset: 1))
  }

  @Test func `rows outside of the window are there after a prefetch`() async throws {
    try shelf.fill([("a", 0..<100)])
    let list = LiveList(shelf.source, window: .first(5))
    try await list.catchUp()
    let index = ListIndex(section: 0, offset: 70)
    #expect(list.row(at: index) == nil && list.row(at: ListIndex(section: 4, offset: 0)) == nil)
    list.prefetch([index, ListIndex(section: 0, offset: 71), ListIndex(section: 9, offset: .max)])
    await waitUntil { list.row(at: index) != nil }
    #expect(list.element(at: index)?.id == 70)
    // Not the row of a former place.
    try shelf.remove(3)
    try await list.catchUp()
    #expect(list.element(at: index).map { $0.id == 71 } ?? true)
  }

  @Test func `a row that can't be read is a placeholder`() async throws {
    // 99
    try shelf.set(Item(id: 0), Item(id: 1, rank: 1, text: Item.unreadable), Item(id: 2, rank: 2))
    let list = LiveList(shelf.source)
    try await list.catchUp()
    #expect(list.rows.map(\.id) == [0, 1, 2] && list.state.isLoaded)
    #expect(list.rows[1].element == nil && (list.rows[1].error as? DatabaseError)?.code == .decodingFailed)
    try shelf.set(Item(id: 1, rank: 1, text: "well"))
    try await list.catchUp()
    #expect(list.rows[1].element?.text == "well" && list.rows[1].error == nil)
  }

  @Test func `an error ends with its cause`() async throws {
    try shelf.fill([("a", 0..<3)])
    shelf.source.probe.refuse { _ in DatabaseError(.storage, "no") }
    let list = LiveList(shelf.source)
    await waitUntil { list.state.error != nil }
    shelf.source.probe.refuse(nil)
    try shelf.remove(0)
    try await list.catchUp()
    #expect(list.text == "a:1,2")
    shelf.source.probe.refuse { _ in DatabaseError(.storage, "no") }
    try shelf.remove(1)
    await waitUntil { list.state.error != nil }
    #expect(list.text == "a:1,2")
    shelf.source.probe.refuse(nil)
    try shelf.set(Item(id: 3, group: "a"))
    try await list.catchUp()
    #expect(list.text == "a:3,2")
  }

  @Test func `a list that is being built says so, and shows its rows at the end`() async throws {
    // 97
    let database = try Database.open(inMemory: ())
    try database.put((0..<10).map { Item(id: $0, group: "a", rank: $0) })
    let gate = ReadGate()
    let handle = try database.registerNow(Shelf(gate: { _ in gate.pass() }), as: "shelf")
    let list = LiveList(ShelfSource(database: database, shelf: handle))
    let groups = LiveGroups(ShelfSource(database: database, shelf: handle))
    await waitUntil { if case .building = list.state { true } else { false } }
    await waitUntil { if case .building = groups.state { true } else { false } }
    #expect(list.sections.isEmpty)
    gate.open()
    await waitUntil { list.state.isLoaded && groups.state.isLoaded }
    #expect(list.rows.map(\.id) == Array(0..<10) && groups.count(of: "a") == 10)
  }

  @Test func `another definition changes the list by its difference`() async throws {
    // 67, 68, 69, 70
    try shelf.fill([("a", 0..<4)])
    let list = LiveList(shelf.source)
    let table = Table(list)
    try await list.catchUp()
    try shelf.write { tx in
      try tx.replaceDefinition(of: shelf.source.shelf, by: Shelf(version: "2", isDescending: true))
    }
    try await list.catchUp()
    #expect(list.text == "a:3,2,1,0")
    #expect(table.log.last?.contains(">") ?? false && !(table.log.last?.contains("*") ?? true))
    try shelf.set(Item(id: 2, group: "a", rank: 2, text: "hidden"))
    try await list.catchUp()
    try shelf.write { tx in
      try tx.replaceDefinition(
        of: shelf.source.shelf, by: Shelf(version: "3", isDescending: true, leavesOut: "hidden"))
    }
    try await list.catchUp()
    #expect(table.log.last == "-0.1")
    // The same version again is nothing.
    try shelf.write { tx in
      try tx.replaceDefinition(
        of: shelf.source.shelf, by: Shelf(version: "3", isDescending: true, leavesOut: "hidden"))
      try tx.set("x", key: 1, in: "others")
    }
    try await list.catchUp()
    #expect(table.log.last == "-0.1")
  }

  @Test func `groups have counts, and no rows are read for them`() async throws {
    try shelf.fill([("a", 0..<3), ("b", 10..<12)])
    let groups = LiveGroups(shelf.source, sections: .groups(by: { $0 > $1 }))
    await waitUntil { groups.state.isLoaded }
    #expect(groups.groups.map(\.id) == ["b", "a"] && groups.groups.map(\.count) == [2, 3])
    try shelf.remove(10, 11)
    await waitUntil { groups.groups.count == 1 }
    #expect(groups.count(of: "b") == 0 && groups.count(of: "a") == 3)
    #expect(shelf.source.probe.count("element") == 0 && shelf.source.probe.count("ids") == 0)
    #expect(shelf.source.probe.callsOnMain == 0)
  }

  @Test func `a search shows what is found, and another one ends it`() async throws {
    try shelf.fill([("a", 0..<300)])
    let list = LiveList(shelf.source, where: { $0.id % 100 == 0 })
    try await list.catchUp()
    #expect(list.text == "a:0,100,200" && list.count == 3)
    let gate = ReadGate()
    list.filter { _ in
      gate.pass()
      return true
    }
    await gate.reached()
    #expect(list.isFiltering && list.text == "a:0,100,200")
    list.filter { $0.id < 2 }
    gate.open()
    try await list.catchUp()
    #expect(list.text == "a:0,1")
    // The search that was ended has not read all pages.
    #expect(gate.arrived <= 256)
    list.filter(where: nil)
    try await list.catchUp()
    #expect(list.count == 300)
  }
}

extension Database {
  /// Opens a database in memory where that name means the asynchronous form.
  static func open(inMemory: Void) throws -> Database { try Database.inMemory() }
  func put(_ items: [Item]) throws {
    try write { tx in for item in items { try tx.set(item, key: item.id, in: "items") } }
  }
  func registerNow(_ shelf: Shelf, as name: String) throws -> ExtensionHandle<Shelf> { try register(shelf, as: name) }
}
