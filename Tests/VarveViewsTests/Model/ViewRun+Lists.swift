import EngineTestSupport
import Varve
import VarveViews

@testable import ObjectFixtures

/// Operations on the manual view.
extension ViewRun {
  private func someRows() -> [ModelKey] { (0..<1 + random.below(3)).map { _ in someKey() } }

  /// Returns the rows that an insertion adds: those that exist and are in no group, each once.
  private func added(_ rows: [ModelKey]) -> [ModelKey] {
    let present = Set(model.lists.values.flatMap { $0 })
    var seen: Set<ModelKey> = []
    return rows.filter { model.rows[$0] != nil && !present.contains($0) && seen.insert($0).inserted }
  }

  private func expect(_ found: Int, _ expected: Int, _ what: String) throws {
    if found != expected { throw ViewMismatch("\(what): \(found) rows, not \(expected)") }
  }

  func listOperation(_ tx: WriteTransaction) throws {
    let view = try tx[Self.manual]
    let group = random.below(3)
    let rows = someRows()
    let keys = try rows.map { try $0.rowKey }
    let list = model.lists[group] ?? []
    switch random.below(17) {
    case 0..<3:
      note(.append)
      let added = added(rows)
      try expect(view.append(keys, to: group), added.count, "append")
      insert(added, at: list.count, group)
    case 3..<6:
      note(.insertAtOffset)
      let added = added(rows)
      let offset = random.below(list.count + 1)
      try expect(view.insert(keys, at: offset, in: group), added.count, "insert at \(offset)")
      insert(added, at: offset, group)
    case 6..<9:
      note(.insertBefore)
      let added = added(rows)
      let offset = random.below(list.count + 1)
      let other = try offset < list.count ? list[offset].rowKey : nil
      try expect(view.insert(keys, before: other, in: group), added.count, "insert before")
      insert(added, at: offset, group)
    case 9:
      note(.insertSorted)
      try insertSorted(rows[0], group, view)
    case 10..<12:
      note(.move)
      try move(rows, group, view)
    case 12:
      note(.moveToOffset)
      try moveToOffset(rows[0], group, view)
    case 13..<16:
      note(.removeFromList)
      let present = Set(rows).filter { row in model.lists.values.contains { $0.contains(row) } }
      try expect(view.remove(keys), present.count, "remove")
      model.removeFromLists(rows)
    default:
      guard random.oneIn(4) else { return try listOperation(tx) }
      note(.emptyList)
      try expect(view.removeAll(in: group), list.count, "remove all")
      model.lists[group] = nil
    }
  }

  private func insert(_ rows: [ModelKey], at offset: Int, _ group: Int) {
    if rows.isEmpty { return }
    model.lists[group, default: []].insert(contentsOf: rows, at: offset)
  }

  /// Inserts by a condition that is false and then true, whatever the order of the group is: by the offset itself.
  private func insertSorted(_ row: ModelKey, _ group: Int, _ view: ManualViewTransaction<Int>) throws {
    let list = model.lists[group] ?? []
    let offset = random.below(list.count + 1)
    let later = try Set(list[offset...].map { try $0.rowKey })
    let isAdded = !added([row]).isEmpty
    guard try view.insert(row.rowKey, in: group, by: { later.contains($1.key) }) == isAdded else {
      throw ViewMismatch("insert by a comparison")
    }
    if isAdded { insert([row], at: offset, group) }
  }

  private func move(_ rows: [ModelKey], _ group: Int, _ view: ManualViewTransaction<Int>) throws {
    let list = model.lists[group] ?? []
    var seen: Set<ModelKey> = []
    let moved = rows.filter { row in
      model.lists.values.contains { $0.contains(row) } && seen.insert(row).inserted
    }
    let offset = random.below(list.count + 1)
    let other = offset < list.count ? list[offset] : nil
    try expect(
      view.move(rows.map { try $0.rowKey }, before: other.map { try $0.rowKey }, in: group), moved.count, "move")
    // Of the rows from the other on, the first that stays is the one before which they come.
    let next = list[offset...].first { !moved.contains($0) }
    model.removeFromLists(moved)
    let left = model.lists[group] ?? []
    insert(moved, at: next.flatMap { left.firstIndex(of: $0) } ?? left.count, group)
  }

  private func moveToOffset(_ row: ModelKey, _ group: Int, _ view: ManualViewTransaction<Int>) throws {
    let isPresent = model.lists.values.contains { $0.contains(row) }
    let left = (model.lists[group] ?? []).filter { $0 != row }
    let offset = random.below(left.count + 1)
    guard try view.move(row.rowKey, to: offset, in: group) == isPresent else { throw ViewMismatch("move to \(offset)") }
    guard isPresent else { return }
    model.removeFromLists([row])
    insert([row], at: offset, group)
  }
}
