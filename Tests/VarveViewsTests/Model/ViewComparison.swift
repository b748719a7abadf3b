import EngineTestSupport
import Varve
import VarveViews

@testable import ObjectFixtures

/// The comparison of what both views answer with the model.
struct ViewComparison {
  private let model: ViewModel
  private let tx: ReadTransaction

  init(_ model: ViewModel, _ tx: ReadTransaction) { (self.model, self.tx) = (model, tx) }

  private func expect<Value: Equatable>(_ found: Value, _ expected: Value, _ what: @autoclosure () -> String) throws {
    if found != expected { throw ViewMismatch("\(what()) is \(found), not \(expected)") }
  }

  private func keys(_ rows: [RowKey]) throws -> [ModelKey] {
    try rows.map { ModelKey(collection: $0.collection, key: try $0.key(as: Int.self)) }
  }

  /// Compares everything.
  func all() throws {
    let (groups, unplaced) = model.groups()
    let auto = try tx[ViewRun.auto]
    try expect(auto.verify().map(\.description), [], "the verification")
    try expect(auto.versionTag, model.definition.view.version, "the version")
    try all(auto, groups)
    try expect(keys(auto.unplacedRows().map(\.row)).sorted(), unplaced, "the rows without a place")
    let manual = try tx[ViewRun.manual]
    try expect(manual.verify().map(\.description), [], "the verification of the manual view")
    try all(manual, model.lists)
  }

  private func all(_ view: some ViewTransaction<Int>, _ groups: [Int: [ModelKey]]) throws {
    try expect(view.groups().map(\.group), groups.keys.sorted(), "the groups")
    try expect(view.groups().map(\.count), groups.sorted { $0.key < $1.key }.map(\.value.count), "the counts")
    try expect(view.count(), groups.values.reduce(0) { $0 + $1.count }, "the count")
    for (group, rows) in groups { try expect(keys(view.rows(in: group, at: 0..<Int.max)), rows, "group \(group)") }
  }

  /// Asks some questions.
  func some(_ random: inout SeededRandom) throws {
    let definition = model.definition
    let (groups, _) = model.groups()
    let auto = try tx[ViewRun.auto]
    try some(auto, groups, &random)
    try some(tx[ViewRun.manual], model.lists, &random)
    guard let group = groups.keys.sorted().randomElement(using: &random), let rows = groups[group] else { return }
    // By a range of positions, and by a condition.
    let bound = Double(random.below(6) - 2)
    if definition == .byNumber || definition == .filtered {
      let numbers = rows.compactMap { model.rows[$0]?.row.number }
      let first = numbers.firstIndex { $0 >= bound } ?? numbers.count
      let end = numbers.firstIndex { $0 > bound + 1 } ?? numbers.count
      try expect(auto.offsets(in: group, bound...bound + 1), first..<end, "the offsets of a range")
      let found = try auto.firstOffset(in: group) { try $0.object(as: ModelRow.self).number >= bound }
      try expect(found, first == numbers.count ? nil : first, "the first offset")
    }
  }

  private func some(
    _ view: some ViewTransaction<Int>, _ groups: [Int: [ModelKey]], _ random: inout SeededRandom
  ) throws {
    let group = random.below(ViewRun.groupCount + 1)
    let rows = groups[group] ?? []
    try expect(view.count(in: group), rows.count, "the count of group \(group)")
    try expect(view.hasGroup(group), !rows.isEmpty, "the existence of group \(group)")
    try expect(view.isEmpty, groups.isEmpty, "whether the view is empty")
    try expect(keys([view.first(in: group)].compactMap { $0 }), Array(rows.prefix(1)), "the first row")
    try expect(keys([view.last(in: group)].compactMap { $0 }), Array(rows.suffix(1)), "the last row")
    let lower = random.below(rows.count + 3) - 1
    let range = lower..<lower + random.below(rows.count + 3)
    let expected = Array(rows[range.clamped(to: 0..<rows.count)])
    let isReversed = random.oneIn(2)
    try expect(
      keys(view.rows(in: group, at: range, reversed: isReversed)), isReversed ? expected.reversed() : expected,
      "the rows at \(range)")
    let offset = random.below(rows.count + 2) - 1
    let row = try view.row(in: group, at: offset).map { try keys([$0]) }
    try expect(row, rows.indices.contains(offset) ? [rows[offset]] : nil, "the row at \(offset)")
    // A row by its key.
    let key = ModelKey(collection: random.oneIn(2) ? "a" : "b", key: random.below(ViewRun.keyCount))
    let place = groups.first { $0.value.contains(key) }
    let found = try view.place(of: key.rowKey)
    try expect(found?.group, place?.key, "the group of \(key)")
    try expect(found?.offset, place?.value.firstIndex(of: key), "the offset of \(key)")
    try expect(view.group(of: key.rowKey), place?.key, "the group of \(key)")
  }
}
