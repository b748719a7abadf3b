import EngineTestSupport
import Testing
import Varve
import VarveViews

/// A model test: random commits, and lists of every kind, whose changes applied to the old picture must give the new
/// one.
struct ListModelTests {
  /// How often something happened.
  private struct Mix {
    var counts: [String: Int] = [:]
    mutating func note(_ changes: ListChanges<String>) {
      func count(_ name: String, _ happened: Bool) { if happened { counts[name, default: 0] += 1 } }
      count("reload", changes.isReload)
      count("nothing", changes.isEmpty)
      count("deletion", !changes.deletions.isEmpty)
      count("insertion", !changes.insertions.isEmpty)
      count("move", !changes.moves.isEmpty)
      count("update", !changes.updates.isEmpty)
      count("section", !changes.sectionDeletions.isEmpty || !changes.sectionInsertions.isEmpty)
      count("dependency", changes.updates.contains { $0.flags.contains(.dependency) })
    }
  }

  private static var everything: ListSections<String> {
    .groups(where: { $0 != "d" }, by: { $0 > $1 }).range(.flexible(3, growth: .other)).consolidated(below: .max)
  }

  private static let kinds: [(String, ListSections<String>)] = [
    ("all", .all),
    ("fixed", .groups(["b", "a", "z"])),
    ("hiding", .groups(["c", "a"]).hidingEmpty()),
    ("sorted", .groups(where: { $0 != "b" }, by: { $0 > $1 })),
    ("window", .all.range(.fixed(4, offset: 2))),
    ("last", .all.range(.fixed(4, offset: 1, from: .end)).neighbors([-1, 2])),
    ("flexible", .all.range(.flexible(4, offset: 2))),
    ("grown", .all.range(.flexible(3, offset: 1, from: .end, minimum: 2, maximum: 6, growth: .both)).reversed()),
    ("reversed", .all.reversed().neighbors([-1, 1])),
    ("consolidated", .all.consolidated(below: 20).neighbors([1])),
    ("always", everything),
  ]

  @Test func `changes applied to the old picture give the new one`() throws {
    let seed = TestScale.seed ?? 1
    print("seed \(seed)")
    var mix = Mix()
    for round in 0..<TestScale.count(2) { try run(seed &+ UInt64(round), &mix) }
    print(mix.counts)
    guard TestScale.isWhole else { return }
    for name in ["reload", "nothing", "deletion", "insertion", "move", "update", "section", "dependency"] {
      #expect(mix.counts[name] ?? 0 > 20, "\(name)")
    }
  }

  private func run(_ seed: UInt64, _ mix: inout Mix) throws {
    var random = SeededRandom(seed: seed)
    let shelf = try ShelfCase()
    try shelf.set((0..<20).map { Item(id: $0, group: ["a", "b"][$0 % 2], rank: random.below(10)) })
    var lists = try Self.kinds.map { try FollowedList(shelf, $0.1) }
    lists += try Self.kinds.map { try FollowedList(shelf, $0.1) { $0.text != "x" } }
    var touched = [Set<Int>](repeating: [], count: lists.count)
    /// The lists whose sections or condition were replaced.
    var isOther: Set<Int> = []
    for step in 0..<90 {
      for _ in 0..<(1 + random.below(3)) {
        let changed = try commit(shelf, &random)
        for number in lists.indices { touched[number].formUnion(changed) }
      }
      for number in lists.indices {
        lists[number].touched = nil
        // Now and then a list takes several steps of the others at once, or doesn't know the commits.
        if random.oneIn(4) { continue }
        let text: String
        if random.oneIn(25) {
          let new = try shelf.database.holdSnapshot()
          guard let old = lists[number].mapping.version else { continue }
          touched[number] = []
          text = try lists[number].apply(
            lists[number].mapping.advance(to: new, after: [.gap(from: old, to: new.version)]))
        } else if random.oneIn(30) {
          let parity = random.below(2)
          isOther.insert(number)
          text = try lists[number].apply(lists[number].mapping.filter { ($0.id + parity) % 3 != 0 })
        } else if random.oneIn(30) {
          isOther.insert(number)
          text = try lists[number].apply(lists[number].mapping.show(Self.kinds[random.below(Self.kinds.count)].1))
        } else {
          if !touched[number].contains(-1) { lists[number].touched = touched[number] }
          touched[number] = []
          text = try lists[number].step()
        }
        if text.contains("instead") || text.contains("wrong") {
          Issue.record("seed \(seed), step \(step), list \(number) \(Self.kinds[number % Self.kinds.count].0): \(text)")
          return
        }
        mix.note(lists[number].changes)
        try check(lists[number], shelf, number < 6 && !isOther.contains(number) ? Self.kinds[number].1 : nil)
      }
    }
  }

  /// Checks the places of rows, and a mapping against one that is made again, if its picture depends only on the
  /// present.
  private func check(_ list: FollowedList, _ shelf: ShelfCase, _ isFresh: ListSections<String>?) throws {
    if let isFresh {
      var fresh = ListMapping(shelf.source, sections: isFresh)
      let snapshot = try #require(list.mapping.snapshot)
      _ = try fresh.advance(to: snapshot, after: [])
      #expect(try ShownList(fresh) == list.shown)
    }
    for (number, section) in list.shown.sections.enumerated() {
      for (offset, id) in section.ids.enumerated() {
        let index = ListIndex(section: number, offset: offset)
        guard try list.mapping.index(of: id) == index else {
          Issue.record("\(id) is not at \(index)")
          return
        }
      }
    }
  }

  /// Makes a commit. Returns the items that it changes; with -1 for all of them.
  private func commit(_ shelf: ShelfCase, _ random: inout SeededRandom) throws -> Set<Int> {
    var changed: Set<Int> = []
    try shelf.write { tx in
      if random.oneIn(120) {
        try tx.removeAll(in: "items")
        changed.insert(-1)
      }
      for _ in 0..<random.below(4) {
        let id = random.below(40)
        changed.insert(id)
        switch random.below(8) {
        case 0, 1: try tx.remove(key: id, in: "items")
        case 2: try tx.touchObject(key: id, in: "items")
        case 3:
          guard var item = try tx.object(Item.self, key: id, in: "items") else { continue }
          item.text = ["x", "y"][random.below(2)]
          try tx.set(item, key: id, in: "items")
        default:
          let group = ["a", "b", "c", "d", ""][random.below(5)]
          try tx.set(Item(id: id, group: group, rank: random.below(12), text: "z"), key: id, in: "items")
        }
      }
      if random.oneIn(5) { try tx.set("x", key: random.below(5), in: "others") }
    }
    return changed
  }
}
