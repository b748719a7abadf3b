import EngineTestSupport
import Testing
import Varve
import VarveViews

/// The store of the items.
private struct ItemFormat: StoreFormat {
  static let collection = "items"
  typealias Instance = Item
  let byGroup = Index(\.group, \.rank, counted: true)
}

/// Lists over the sources of this module: a view, and a query that is divided by a counted index.
struct ListSourceTests {
  private let database: Database
  private let items: Store<ItemFormat>

  init() throws {
    database = try Database.inMemory { ItemFormat.self }
    items = Store<ItemFormat>(in: database)
  }

  private var view: AutoView<String> {
    AutoView(version: "1", of: ["items"]) { row in
      let item = try row.object(as: Item.self)
      return item.group == "" ? nil : ViewPlace(item.group, Descending(item.rank))
    }
  }

  @Test func `changes of a view's list applied to the old picture give the new one`() throws {
    let handle = try database.register(view, as: "view")
    try database.waitUntilReady(handle)
    try follow(ViewSource(handle, in: database) { row in try row.object(as: Item.self) })
  }

  @Test func `changes of a sectioned query's list applied to the old picture give the new one`() throws {
    try follow(items.query.sorted(by: \.rank).sectioned(by: \.group))
    try follow(items.query.sorted(by: \.rank, descending: true).sectioned(by: \.group, descending: true))
  }

  private func follow<Source: ListSource>(_ source: Source) throws where Source.Group == String {
    var random = SeededRandom(seed: 3)
    let kinds: [ListSections<String>] = [
      .all, .all.reversed().range(.flexible(3, offset: 1)), .groups(["b", "a"]).range(.fixed(3, from: .end)),
      .all.consolidated(below: 12).neighbors([1]),
    ]
    var mappings = kinds.map { ListMapping(source, sections: $0) }
    let connections = kinds.map { _ in database.connection() }
    var pictures = [[[Source.ID]]](repeating: [], count: kinds.count)
    var changeCount = 0
    for step in 0..<40 {
      try database.write { tx in
        for _ in 0..<(1 + random.below(3)) {
          let id = random.below(25)
          if random.oneIn(4) {
            try tx.remove(key: id, in: "items")
          } else {
            let group = ["a", "b", "c", ""][random.below(4)]
            try items.persist(Item(id: id, group: group, rank: random.below(9)), in: tx)
          }
        }
      }
      for number in kinds.indices where !random.oneIn(3) {
        let changes = try mappings[number].advance(with: connections[number])
        let new = try mappings[number].sections.enumerated().map { section, info in
          try mappings[number].ids(inSection: section, at: 0..<info.count)
        }
        pictures[number] = apply(changes, to: pictures[number], new)
        #expect(pictures[number] == new, "step \(step), kind \(number): \(changes.text)")
        if !changes.isReload, !changes.isEmpty { changeCount += 1 }
      }
    }
    #expect(changeCount > 40)
  }

  private func apply<ID>(_ changes: ListChanges<String>, to old: [[ID]], _ new: [[ID]]) -> [[ID]] {
    if changes.isReload { return new }
    var list = old
    for index in (changes.deletions + changes.moves.map(\.from)).sorted(by: >) {
      list[index.section].remove(at: index.offset)
    }
    for number in changes.sectionDeletions { list.remove(at: number) }
    for section in changes.sectionInsertions { list.insert(new[section.index], at: section.index) }
    for index in (changes.insertions + changes.moves.map(\.to)).sorted() {
      list[index.section].insert(new[index.section][index.offset], at: index.offset)
    }
    return list
  }

  @MainActor @Test func `one scope shows lists over both sources at one commit`() async throws {
    let handle = try await database.register(view, as: "view")
    let scope = LiveScope(database)
    let byView = LiveList(ViewSource(handle, in: database) { row in try row.object(as: Item.self) }, in: scope)
    let byQuery = LiveList(items.query.sorted(by: \.rank).sectioned(by: \.group), in: scope)
    let groups = LiveGroups(items.query.sorted(by: \.rank).sectioned(by: \.group), in: scope)
    let count = LiveQuery(items.query.filter { $0.group == "a" }, in: scope)
    for number in 1...20 {
      try await items.persist(Item(id: number, group: number % 2 == 0 ? "a" : "b", rank: number))
    }
    await waitUntil { byView.count == 20 && byQuery.count == 20 && groups.count(of: "a") == 10 }
    #expect(byView.version == byQuery.version)
    #expect(byView.sections.map { $0.elements.count } == [10, 10] && count.instances.count == 10)
    #expect(byView.sections[0].elements.first?.value.id == 20 && byQuery.sections[0].elements.first?.id == 2)
  }
}
