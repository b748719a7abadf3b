internal import Varve

/// Positions in groups of manual views: numbers of 64 bits, of which each row of a group has another one.
///
/// A new row gets the number in the middle between those of its neighbors, or one at a distance from that of its only
/// neighbor. If there is none left in between, the rows around the place are numbered again: as few as it takes for
/// them to be at a distance that grows with the square root of their number. So the numbering of a few rows gives room
/// for many insertions, and an insertion costs O(log² n) on average even if all rows are inserted at one place.
enum ViewPosition {
  /// The positions of rows are after the first and before the second. No position begins with the bytes 0x00 and 0xff,
  /// because the keys of a group end at its encoding and 0xff.
  static let limits: (lower: UInt64, upper: UInt64) = (1 << 56, 0xff << 56)
  /// The position of the first row of a group.
  static let middle: UInt64 = 1 << 63
  /// The distance of a row that is added at an end of a group.
  static let step: UInt64 = 1 << 24
  /// The distance of rows that are numbered again, for each unit of the square root of their number.
  static let spacing: UInt64 = 1 << 8

  /// Returns `count` positions between two, or `nil` if there are not enough.
  ///
  /// A neighbor that is `nil` is an end of the group.
  static func positions(_ count: Int, after lower: UInt64?, before upper: UInt64?) -> [UInt64]? {
    guard count > 0, let wanted = UInt64(exactly: count) else { return [] }
    switch (lower, upper) {
    case (nil, nil):
      // The rows are around the middle.
      let (span, overflows) = wanted.multipliedReportingOverflow(by: step)
      if overflows || span / 2 >= middle - limits.lower { return spread(wanted, limits.lower, limits.upper) }
      return spread(wanted, middle - span / 2, middle + (span - span / 2))
    case (let lower?, nil):
      let room = limits.upper - min(lower, limits.upper)
      return spread(wanted, lower, lower + min(room, span(wanted)))
    case (nil, let upper?):
      let room = upper - min(upper, limits.lower)
      return spread(wanted, upper - min(room, span(wanted)), upper)
    case (let lower?, let upper?): return spread(wanted, lower, upper)
    }
  }

  private static func span(_ count: UInt64) -> UInt64 {
    let (span, overflows) = (count + 1).multipliedReportingOverflow(by: step)
    return overflows ? .max : span
  }

  /// Returns positions between two that are equally far from each other and from both, or `nil` if there are not
  /// enough.
  static func spread(_ count: UInt64, _ lower: UInt64, _ upper: UInt64) -> [UInt64]? {
    guard upper > lower, upper - lower > count else { return nil }
    let (distance, rest) = (upper - lower).quotientAndRemainder(dividingBy: count + 1)
    // The rest is distributed over the first gaps.
    return (1...count).map { lower + $0 * distance + min($0, rest) }
  }

  /// Returns whether `count` rows that are numbered again between two positions are far enough from each other.
  static func isWide(_ count: Int, _ lower: UInt64, _ upper: UInt64) -> Bool {
    let root = UInt64(Double(count).squareRoot()) + 1
    return (upper - min(lower, upper)) / UInt64(count + 1) >= spacing * root
  }
}

/// A place between two rows of a group, or at an end of it.
struct ViewGap {
  /// The keys in `rows` of the neighbors, or `nil` at an end of the group.
  var lower: [UInt8]?
  var upper: [UInt8]?
}

// MARK: - Finding a place

extension ViewContent {
  /// Returns the gap after the last row of a group, which is given encoded, as in all methods below.
  func gapAtEnd(of group: [UInt8]) throws -> ViewGap {
    ViewGap(lower: try rows.first(in: Self.range(ofEncoded: group), isReverse: true)?.key, upper: nil)
  }

  /// Returns the gap before the row at an offset. Throws `.invalidArgument` if no row has it, and it is not the end.
  func gap(at offset: Int, of group: [UInt8]) throws -> ViewGap {
    let range = Self.range(ofEncoded: group)
    guard offset >= 0, offset <= (try rows.count(range)) else {
      throw DatabaseError(
        .invalidArgument,
        "a row is put at offset \(offset) of a group of view \"\(context.name)\", which has \(try rows.count(range)) rows"
      )
    }
    guard let upper = try rows.entry(at: offset, in: range)?.key else { return try gapAtEnd(of: group) }
    return try gap(beforeKey: upper, of: group)
  }

  /// Returns the gap before a row, or at the end of the group if it is `nil`. Throws `.invalidArgument` if the row is
  /// not in the group.
  func gap(before row: RowKey?, of group: [UInt8]) throws -> ViewGap {
    guard let row else { return try gapAtEnd(of: group) }
    return try gap(beforeKey: key(of: row, in: group), of: group)
  }

  private func gap(beforeKey upper: [UInt8], of group: [UInt8]) throws -> ViewGap {
    let before = StorageRange(lower: group, upper: upper)
    return ViewGap(lower: try rows.first(in: before, isReverse: true)?.key, upper: upper)
  }

  private func key(of row: RowKey, in group: [UInt8]) throws -> [UInt8] {
    guard let entry = try entry(of: row), entry.group == group else {
      throw DatabaseError(
        .invalidArgument, "the row is not in the group of view \"\(context.name)\" in which rows are put before it",
        collection: row.collection, key: row.text)
    }
    return entry.key
  }

  /// Returns the first row after a row of a group that is not in a set, or `nil` if there is none.
  func firstRow(after row: RowKey, notIn others: Set<RowKey>, of group: [UInt8]) throws -> RowKey? {
    var range = Self.range(ofEncoded: group)
    range.lower = try key(of: row, in: group)
    var cursor = try rows.cursor(range)
    while let (_, value) = try cursor.next() {
      let next = try rowKey(value)
      if !others.contains(next) { return next }
    }
    return nil
  }
}

// MARK: - Placing

extension ViewContent {
  /// Returns the transaction for a change. Throws `.readOnly` in a read.
  func writing() throws -> WriteTransaction {
    if let writer = context.writeTransaction { return writer }
    _ = try context.transaction
    throw DatabaseError(.readOnly, "view \"\(context.name)\" is changed in a read; a write may")
  }

  /// Throws `.invalidArgument` for a row of a collection that the view does not have.
  func requireInScope(_ row: RowKey) throws {
    guard !scope.contains(row.collection) else { return }
    throw DatabaseError(
      .invalidArgument, "view \"\(context.name)\" does not have rows of this collection", collection: row.collection,
      key: row.text)
  }

  /// Returns the encoding of a group. Throws `.keyTooLong` if it is too long for a key with a position.
  func checkedGroup(_ group: Group) throws -> [UInt8] {
    let bytes = try group.encoded()
    guard bytes.count + 8 > context.limits.keySize else { return bytes }
    throw DatabaseError(
      .keyTooLong,
      "a group of view \"\(context.name)\" has \(bytes.count) bytes, and a view takes \(context.limits.keySize - 8)")
  }

  /// Enters rows that have no place, in their order, into a gap. Rows around it are numbered again if it is too small.
  func place(_ added: [[UInt8]], in gap: ViewGap, of group: [UInt8]) throws {
    let (lower, upper) = (try gap.lower.map(Self.position), try gap.upper.map(Self.position))
    if let positions = ViewPosition.positions(added.count, after: lower, before: upper) {
      for (row, position) in zip(added, positions) { try enter(row, at: .placed(Self.entry(group, position))) }
      return
    }
    try renumber(around: gap, of: group, adding: added)
  }

  /// Numbers the rows around a gap again, together with those that are added in it.
  ///
  /// The rows keep their order, so no observer is notified.
  private func renumber(around gap: ViewGap, of group: [UInt8], adding added: [[UInt8]]) throws {
    var window = try ViewWindow(self, gap, group)
    var bounds = window.bounds
    while !ViewPosition.isWide(window.count + added.count, bounds.lower, bounds.upper), try window.widen() {
      bounds = window.bounds
    }
    guard
      let positions = ViewPosition.spread(UInt64(window.count + added.count), bounds.lower, bounds.upper)
    else {
      throw DatabaseError(.batchTooLarge, "a group of view \"\(context.name)\" has no place for more rows")
    }
    let all = window.before.reversed() + added.map { (key: nil, row: $0) } + window.after
    let moved = zip(all, positions).filter { $0.0.key != Self.entry(group, $0.1).key }
    // A new number may be the old one of another row, so all old ones are removed first.
    for (row, _) in moved { if let key = row.key { try rows.remove(key) } }
    for (row, position) in moved {
      let entry = Self.entry(group, position)
      try rows.insert(entry.key, row.row)
      try places.put(row.row, entry.place)
    }
  }

  static func entry(_ group: [UInt8], _ position: UInt64) -> ViewEntry {
    var key: [UInt8] = []
    key.reserveCapacity(group.count + 8)
    key.append(contentsOf: group)
    key.append(number: position)
    return ViewEntry(key: key, groupSize: group.count)
  }

  /// Returns the position at the end of a key in `rows`. Throws `.corruption`.
  static func position(_ key: [UInt8]) throws -> UInt64 {
    guard key.count > 8 else { throw ViewEntry.damaged("a position is missing in a key of \(key.count) bytes") }
    let position = key.suffix(8).reduce(0) { $0 << 8 | UInt64($1) }
    guard position > ViewPosition.limits.lower, position < ViewPosition.limits.upper else {
      throw ViewEntry.damaged("\(position) is not a position")
    }
    return position
  }
}

/// The rows around a gap that are numbered again.
private struct ViewWindow<Group: KeyCodable> {
  /// The rows before the gap, the nearest first, and those after it.
  var before: [(key: [UInt8]?, row: [UInt8])] = []
  var after: [(key: [UInt8]?, row: [UInt8])] = []
  /// The positions beyond which no row of the window is.
  var bounds: (lower: UInt64, upper: UInt64)
  private var previous: PartCursor
  private var next: PartCursor
  private var isAtBeginning = false
  private var isAtEnd = false

  init(_ content: ViewContent<Group>, _ gap: ViewGap, _ group: [UInt8]) throws {
    let range = ViewContent<Group>.range(ofEncoded: group)
    let end = range.upper
    previous = try content.rows.cursor(
      StorageRange(lower: group, upper: gap.upper ?? end), isReverse: true)
    next = try content.rows.cursor(StorageRange(lower: gap.upper ?? end ?? group, upper: end))
    bounds = (
      try gap.lower.map(ViewContent<Group>.position) ?? ViewPosition.limits.lower,
      try gap.upper.map(ViewContent<Group>.position) ?? ViewPosition.limits.upper
    )
  }

  var count: Int { before.count + after.count }

  /// Doubles the window. Returns false if it has the whole group.
  mutating func widen() throws -> Bool {
    if isAtBeginning, isAtEnd { return false }
    let more = max(8, count)
    try extend(by: more, &previous, &before, &isAtBeginning)
    try extend(by: more, &next, &after, &isAtEnd)
    bounds.lower = try isAtBeginning ? ViewPosition.limits.lower : outermost(of: &before)
    bounds.upper = try isAtEnd ? ViewPosition.limits.upper : outermost(of: &after)
    return true
  }

  private func extend(
    by more: Int, _ cursor: inout PartCursor, _ list: inout [(key: [UInt8]?, row: [UInt8])], _ isAtLimit: inout Bool
  ) throws {
    for _ in 0..<more {
      guard let (key, row) = try cursor.next() else { return isAtLimit = true }
      list.append((key, row))
    }
  }

  /// Returns the position of the outermost row of a list, which stays where it is.
  private func outermost(of list: inout [(key: [UInt8]?, row: [UInt8])]) throws -> UInt64 {
    guard let key = list.last?.key else { throw ViewEntry.damaged("a group ends before its last row") }
    return try ViewContent<Group>.position(key)
  }
}
