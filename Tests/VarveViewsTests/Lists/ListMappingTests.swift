import Testing
import Varve
import VarveViews

/// Tests of the changes of lists. The numbers are those of the facts about YapDatabase's views that a user may rely on.
struct ListMappingTests {
  private let shelf: ShelfCase

  init() throws { shelf = try ShelfCase() }

  @Test func `a row that leaves its group, comes, or goes to another one is deleted, inserted and moved`() throws {
    // 59
    try shelf.fill([("a", 0..<3), ("b", 10..<12)])
    var list = try FollowedList(shelf)
    #expect(list.changes.isReload && list.shown.description == "a:0,1,2 b:10,11")
    try shelf.set(Item(id: 1, group: ""))
    #expect(try list.step() == "-0.1")
    try shelf.set(Item(id: 1, group: "a", rank: 1))
    #expect(try list.step() == "+0.1")
    try shelf.set(Item(id: 1, group: "b", rank: 11))
    #expect(try list.step() == "0.1>1.1")
  }

  @Test func `each row that is set or touched is updated, whatever has changed of it`() throws {
    // 60, 61
    try shelf.fill([("a", 0..<3)])
    var list = try FollowedList(shelf)
    try shelf.set(Item(id: 1, group: "a", rank: 1))
    #expect(try list.step() == "*0.1")
    #expect(list.changes.updates.first?.flags == [.object, .metadata])
    try shelf.write { tx in try tx.replaceMetadata("seen", key: 2, in: "items") }
    #expect(try list.step() == "*0.2")
    #expect(list.changes.updates.first?.flags == [.metadata])
    try shelf.write { tx in try tx.touchObject(key: 0, in: "items") }
    #expect(try list.step() == "*0.0")
    #expect(list.changes.updates.first?.flags == [.object])
  }

  @Test func `a row whose order among the others stays is updated, and moved otherwise`() throws {
    // 63
    try shelf.fill([("a", 0..<5)])
    var list = try FollowedList(shelf)
    try shelf.set(Item(id: 0, group: "a", rank: 3))
    #expect(try list.step() == "0.0>0.2")
    try shelf.set(Item(id: 0, group: "a", rank: 2), Item(id: 1, group: "a", rank: 1, text: "x"))
    #expect(try list.step() == "*0.0 *0.1" || list.changes.moves.count == 1)
    #expect(list.shown.description == "a:1,0,2,3,4" || list.shown.description == "a:1,2,0,3,4")
  }

  @Test func `a row that is removed and set again is updated, one that is set and removed is nothing`() throws {
    // 66; a move in YapDatabase
    try shelf.fill([("a", 0..<3)])
    var list = try FollowedList(shelf)
    try shelf.write { tx in
      try tx.remove(key: 1, in: "items")
      try tx.set(Item(id: 1, group: "a", rank: 1), key: 1, in: "items")
    }
    #expect(try list.step() == "*0.1")
    try shelf.set(Item(id: 7, group: "a", rank: 1))
    try shelf.remove(7)
    #expect(try list.step() == "")
  }

  @Test func `a row that changed in three commits is reported once`() throws {
    try shelf.fill([("a", 0..<3)])
    var list = try FollowedList(shelf)
    for number in 0..<3 { try shelf.set(Item(id: 1, group: "a", rank: 1, text: "\(number)")) }
    #expect(try list.step() == "*0.1")
    for number in 3..<6 { try shelf.set(Item(id: 1, group: "a", rank: number)) }
    #expect(try list.step() == "0.1>0.2")
    for number in 0..<3 { try shelf.set(Item(id: 9, group: "a", rank: number)) }
    #expect(try list.step() == "+0.2")
  }

  @Test func `old places are those of the old snapshot, and new ones those of the new`() throws {
    // 78
    try shelf.fill([("a", 0..<10)])
    var list = try FollowedList(shelf)
    try shelf.remove(2, 5)
    try shelf.set(Item(id: 20, group: "a", rank: 0), Item(id: 8, group: "a", rank: 8, text: "x"))
    #expect(try list.step() == "-0.5 -0.2 +0.1 *0.7")
    #expect(list.changes.updates.first?.old == ListIndex(section: 0, offset: 8))
  }

  @Test func `fixed sections stay when they are empty, dynamic ones come and go`() throws {
    // 75
    try shelf.fill([("a", 0..<1), ("b", 1..<2)])
    var fixed = try FollowedList(shelf, .groups(["b", "a", "z"]))
    var hiding = try FollowedList(shelf, .groups(["b", "a"]).hidingEmpty("b"))
    var dynamic = try FollowedList(shelf)
    #expect(fixed.shown.description == "b:1 a:0 z:")
    try shelf.remove(1)
    #expect(try fixed.step() == "-0.0")
    #expect(try hiding.step() == "-s0")
    #expect(try dynamic.step() == "-s1")
    try shelf.set(Item(id: 1, group: "b"))
    #expect(try fixed.step() == "+0.0")
    #expect(try hiding.step() == "+s0")
    #expect(try dynamic.step() == "+s1")
    // A section that comes and goes again is not a change.
    try shelf.set(Item(id: 5, group: "c"))
    try shelf.remove(5)
    #expect(try dynamic.step() == "")
  }

  @Test func `dynamic sections are filtered and sorted`() throws {
    try shelf.fill([("a", 0..<1), ("b", 1..<2), ("c", 2..<3)])
    var list = try FollowedList(shelf, .groups(where: { $0 != "b" }, by: { $0 > $1 }))
    #expect(list.shown.description == "c:2 a:0")
    shelf.source.probe.reset()
    try shelf.set(Item(id: 9, group: "b"), Item(id: 1, group: "b", text: "x"))
    #expect(try list.step() == "")
    // Offsets are asked only for rows whose groups are shown.
    #expect(shelf.source.probe.count("place") == 0 && shelf.source.probe.count("groups") == 0)
    try shelf.set(Item(id: 9, group: "bb"))
    #expect(try list.step() == "+s1")
    #expect(list.shown.description == "c:2 bb:9 a:0")
  }

  @Test func `steps need all commits in between, and an empty list of them is a step, too`() throws {
    // 76, 77
    try shelf.fill([("a", 0..<3)])
    let old = try shelf.database.holdSnapshot()
    var mapping = ListMapping(shelf.source)
    #expect(try mapping.advance(to: old, after: []).isReload)
    #expect(try mapping.advance(to: old, after: []).isEmpty)
    try shelf.write { tx in try tx.set("x", key: 1, in: "others") }
    let new = try shelf.database.holdSnapshot()
    #expect(try mapping.advance(to: new, after: []).isEmpty)
    #expect(mapping.version == new.version)
    // Back, and forward again: the commits are not those in between, so everything is compared.
    try shelf.remove(1)
    let last = try shelf.database.holdSnapshot()
    #expect(try mapping.advance(to: last, after: last.events(after: new.version)).text == "-0.1")
    #expect(try mapping.advance(to: old, after: []).insertions == [ListIndex(section: 0, offset: 1)])
  }

  @Test func `a fresh connection misses no commit`() throws {
    try shelf.fill([("a", 0..<3)])
    var list = try FollowedList(shelf)
    try shelf.remove(1)
    let fresh = shelf.database.connection()
    #expect(try list.apply(list.mapping.advance(with: fresh)) == "-0.1")
    // The first connection has an older snapshot now, and must not report the removal again.
    #expect(try list.step() == "")
    try shelf.remove(0)
    #expect(try list.step() == "-0.0")
  }

  @Test func `a gap is a difference of all rows, or a reload of a long list`() throws {
    try shelf.fill([("a", 0..<4)])
    var list = try FollowedList(shelf)
    try shelf.remove(1)
    try shelf.set(Item(id: 3, group: "a", rank: -1))
    let snapshot = try shelf.database.holdSnapshot()
    let gap = ChangeEvent.gap(from: try #require(list.mapping.version), to: snapshot.version)
    let text = try list.apply(list.mapping.advance(to: snapshot, after: [gap]))
    #expect(text == "-0.1 0.3>0.0 *0.1 *0.2")
    #expect(list.changes.updates.allSatisfy { $0.flags == .unknown })

    let unfed = try ShelfCase(feed: nil)
    try unfed.fill([("a", 0..<3)])
    var mapping = ListMapping(unfed.source)
    _ = try mapping.advance(with: unfed.database.connection())
    try unfed.remove(1)
    #expect(try mapping.advance(with: unfed.database.connection()).deletions == [ListIndex(section: 0, offset: 1)])

    try shelf.fill([("b", 100..<10_200)])
    _ = try list.step()
    try shelf.remove(100)
    let later = try shelf.database.holdSnapshot()
    let other = ChangeEvent.gap(from: try #require(list.mapping.version), to: later.version)
    #expect(try list.apply(list.mapping.advance(to: later, after: [other])) == "reload")
  }

  @Test func `a cleared collection is a difference, and what is set after it is there`() throws {
    // 80, 88
    try shelf.fill([("a", 0..<3)])
    var list = try FollowedList(shelf, .groups(["a"]))
    try shelf.write { tx in
      try tx.removeAll(in: "items")
      try tx.set(Item(id: 1, group: "a", rank: 1), key: 1, in: "items")
      try tx.set(Item(id: 9, group: "a", rank: 9), key: 9, in: "items")
    }
    #expect(try list.step() == "-0.2 -0.0 +0.1 *0.0")
    try shelf.write { tx in try tx.removeAll(in: "items") }
    #expect(try list.step() == "-0.1 -0.0")
  }

  @Test func `a list whose old snapshot can't be read any more is shown again`() throws {
    try shelf.fill([("a", 0..<3)])
    var list = try FollowedList(shelf)
    for code in [DatabaseError.Code.snapshotTooOld, .notFound] {
      try shelf.set(Item(id: 1, group: "a", rank: 1))
      let old = try #require(list.mapping.version)
      shelf.source.probe.refuse { $0 == old ? DatabaseError(code, "gone") : nil }
      #expect(try list.step() == "reload")
      shelf.source.probe.refuse(nil)
      try shelf.set(Item(id: 1, group: "a", rank: 1))
      #expect(try list.step() == "*0.1")
    }
  }

  @Test func `a step that fails loses nothing`() throws {
    try shelf.fill([("a", 0..<3)])
    var list = try FollowedList(shelf)
    try shelf.remove(0)
    let old = try #require(list.mapping.version)
    shelf.source.probe.refuse { $0 > old ? DatabaseError(.storage, "no") : nil }
    #expect(throws: DatabaseError.self) { try list.mapping.advance(with: list.connection) }
    try shelf.set(Item(id: 2, group: "a", rank: 2))
    shelf.source.probe.refuse(nil)
    #expect(list.mapping.version == old)
    #expect(try list.step() == "-0.0 *0.1")
  }

  @Test func `an error of a row is not one of the list`() throws {
    // 99
    try shelf.set(Item(id: 0), Item(id: 1, rank: 1, text: Item.unreadable), Item(id: 2, rank: 2))
    var list = try FollowedList(shelf)
    #expect(list.mapping.count == 3)
    #expect(throws: DatabaseError.self) { try list.mapping.element(at: ListIndex(section: 0, offset: 1)) }
    #expect(try list.mapping.element(at: ListIndex(section: 0, offset: 2))?.id == 2)
    try shelf.remove(1)
    #expect(try list.step() == "-0.1")
    let matching = try FollowedList(shelf, where: { _ in true })
    #expect(matching.shown.description == "a:0,2")
  }

  @Test func `a mapping at an old snapshot reads that one`() throws {
    // 82, 84, 98
    try shelf.fill([("a", 0..<3)])
    let list = try FollowedList(shelf)
    try shelf.remove(0, 1)
    try shelf.set(Item(id: 2, group: "b"))
    #expect(try ShownList(list.mapping).description == "a:0,1,2")
    #expect(try list.mapping.index(of: 1) == ListIndex(section: 0, offset: 1))
    #expect(try list.mapping.id(at: ListIndex(section: 0, offset: 9)) == nil)
    #expect(try list.mapping.id(at: ListIndex(section: -1, offset: .max)) == nil)
  }

  @Test func `rows that a view has not taken in come when they change`() throws {
    // 83
    let database = try Database.inMemory()
    try database.put([Item(id: 0), Item(id: 1, rank: 1), Item(id: 2, rank: 2)])
    let other = try ShelfCase(database, Shelf(isFilled: false))
    var list = try FollowedList(other)
    #expect(list.mapping.isEmpty)
    try other.set(Item(id: 1, rank: 1, text: "x"))
    #expect(try list.step() == "+s0" && list.shown.description == "a:1")
    try other.set(Item(id: 0))
    #expect(try list.step() == "+0.0")
  }

  @Test func `a snapshot from before the view is shown once there is a later one`() throws {
    // 98
    let database = try Database.inMemory()
    try database.put([Item(id: 0)])
    let before = try database.holdSnapshot()
    let other = try ShelfCase(database)
    var mapping = ListMapping(other.source)
    let first = Result { try mapping.advance(to: before, after: []) }
    #expect(((try? first.get())?.isBuilding ?? true) && mapping.isEmpty && mapping.snapshot == nil)
    #expect(try mapping.advance(to: database.holdSnapshot(), after: []).isReload && mapping.count == 1)
  }

  @Test func `neighbors of a changed row are updated, too`() throws {
    try shelf.fill([("a", 0..<8)])
    var list = try FollowedList(shelf, .all.neighbors([-1, 1]))
    try shelf.set(Item(id: 3, group: "a", rank: 3))
    #expect(try list.step() == "~0.2 *0.3 ~0.4")
    try shelf.remove(5)
    #expect(try list.step() == "-0.5 ~0.4 ~0.5")
    try shelf.set(Item(id: 9, group: "a", rank: 0))
    #expect(try list.step() == "+0.1 ~0.0 ~0.2")
    var reversed = try FollowedList(shelf, .all.neighbors([1, .max, .min]).reversed())
    #expect(reversed.shown.description == "a:7,6,4,3,2,1,9,0")
    try shelf.set(Item(id: 4, group: "a", rank: 4))
    #expect(try reversed.step() == "*0.2 ~0.3")
  }

  @Test func `few elements are one section, and the switch is a reload`() throws {
    // 81
    try shelf.fill([("a", 0..<2), ("b", 10..<11)])
    var list = try FollowedList(shelf, .all.consolidated(below: 5))
    #expect(list.mapping.isConsolidated && list.shown.description == "*:0,1,10")
    try shelf.set(Item(id: 1, group: "b", rank: 99))
    #expect(try list.step() == "0.1>0.2")
    try shelf.set(Item(id: 3, group: "ab"))
    #expect(try list.step() == "+0.1")
    try shelf.set(Item(id: 4, group: "c"))
    #expect(try list.step() == "reload")
    #expect(list.shown.description == "a:0 ab:3 b:10,1 c:4")
    try shelf.remove(4)
    #expect(try list.step() == "reload")
    #expect(list.shown.description == "*:0,3,10,1")
  }

  @Test func `a commit of another collection costs the list nothing`() throws {
    try shelf.fill([("a", 0..<100)])
    var list = try FollowedList(shelf)
    shelf.source.probe.reset()
    try shelf.write { tx in try tx.set("x", key: 1, in: "others") }
    _ = try list.mapping.advance(with: list.connection)
    #expect(list.changes.isReload && list.mapping.version == list.connection.pinnedVersion)
    #expect(["groups", "count", "group", "place", "ids"].allSatisfy { shelf.source.probe.count($0) == 0 })
  }

  @Test func `sections and conditions can be replaced at a snapshot`() throws {
    try shelf.fill([("a", 0..<5), ("b", 10..<12)])
    var list = try FollowedList(shelf)
    #expect(try list.apply(list.mapping.filter { $0.id % 2 == 0 }) == "-1.1 -0.3 -0.1")
    #expect(try list.apply(list.mapping.show(.groups(["b"]).range(.fixed(1)))) == "-s0")
    #expect(try list.apply(list.mapping.filter(where: nil)) == "")
    #expect(try list.apply(list.mapping.show(.all)) == "+s0 +1.1")
  }
}
