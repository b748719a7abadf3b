public import Varve

/// A view in one transaction: rows in groups and in order.
///
/// ```swift
/// let (author, count) = try tx[Shelf.byAuthor].groups()[0]
/// let firstTen = try tx[Shelf.byAuthor].rows(in: author, at: 0..<10)
/// ```
///
/// A view has each row in at most one group. A group exists as long as it has rows. In a write, the view has what the
/// transaction has changed so far. Every method throws `.transactionEnded` after the transaction's end, and
/// `.invalidKey` for a group that can't be a key.
///
/// # Offsets
/// The offset of a row is the number of rows before it in its group. Offsets that no row has are not errors: what is at
/// them is `nil` or empty, for any number. The cost of finding an offset or a row at an offset is logarithmic.
///
/// The object belongs to the thread of its transaction.
public protocol ViewTransaction<Group>: ExtensionTransaction {
  /// The value that all rows of a group have in common.
  associatedtype Group: KeyCodable
  /// What the view keeps.
  var content: ViewContent<Group> { get }
}

// MARK: - Groups

extension ViewTransaction {
  /// The version of the definition that has made the view's content, as of the transaction's snapshot.
  public var versionTag: String { content.version }

  /// Returns the groups in ascending order, each with the number of its rows.
  ///
  /// Complexity: O(log n) for each group, however many rows it has.
  public func groups() throws -> [(group: Group, count: Int)] {
    var groups: [(group: Group, count: Int)] = []
    var range = StorageRange()
    var before = 0
    while let (key, _) = try content.rows.first(in: range) {
      let (group, size) = try ViewContent<Group>.group(in: key)
      range.lower = KeyRange.end(ofParts: Array(key[..<size]))
      let end = try content.rows.offset(of: range.lower)
      groups.append((group, end - before))
      before = end
    }
    return groups
  }

  /// Returns the number of rows in all groups. Complexity: O(log n).
  public func count() throws -> Int { try content.rows.count() }

  /// Returns the number of rows of a group, zero for one that does not exist. Complexity: O(log n).
  public func count(in group: Group) throws -> Int { try content.rows.count(content.range(of: group)) }

  /// Returns whether a group exists, that is, has rows. Complexity: one seek.
  public func hasGroup(_ group: Group) throws -> Bool { try content.rows.first(in: content.range(of: group)) != nil }

  /// A Boolean value that indicates whether the view has no rows. Complexity: one seek.
  public var isEmpty: Bool { get throws { try content.rows.first() == nil } }

  /// Returns whether a group has no rows. Complexity: one seek.
  public func isEmpty(_ group: Group) throws -> Bool { try !hasGroup(group) }
}

// MARK: - Rows

extension ViewTransaction {
  /// Returns the first row of a group, or `nil` if it has none. Complexity: one seek.
  public func first(in group: Group) throws -> RowKey? {
    try content.rows.first(in: content.range(of: group)).map { try content.rowKey($0.value) }
  }

  /// Returns the last row of a group, or `nil` if it has none. Complexity: one seek.
  public func last(in group: Group) throws -> RowKey? {
    try content.rows.first(in: content.range(of: group), isReverse: true).map { try content.rowKey($0.value) }
  }

  /// Returns the row at an offset of a group, or `nil` if no row has that offset. Complexity: O(log n).
  public func row(in group: Group, at offset: Int) throws -> RowKey? {
    guard offset >= 0 else { return nil }
    return try content.rows.entry(at: offset, in: content.range(of: group)).map { try content.rowKey($0.value) }
  }

  /// Returns the rows at a range of offsets of a group, in their order, or in the opposite one if `reversed` is true.
  /// Offsets that no row has are left out.
  ///
  /// Complexity: O(log n), and a step for each row.
  public func rows(in group: Group, at offsets: Range<Int>, reversed: Bool = false) throws -> [RowKey] {
    var rows: [RowKey] = []
    var cursor = try cursor(in: group, at: offsets, reversed: reversed)
    while let row = try cursor.next()?.row { rows.append(row) }
    return rows
  }

  /// Returns a cursor over the rows of a group, or over those at a range of offsets, from the first to the last, or
  /// from the last to the first if `reversed` is true.
  ///
  /// The cursor returns the view as it is now: later writes have no effect on it.
  public func cursor(
    in group: Group, at offsets: Range<Int>? = nil, reversed: Bool = false
  ) throws -> ViewCursor<Group> {
    try ViewCursor(content, content.range(of: group), offsets, isReverse: reversed)
  }
}

// MARK: - Places

extension ViewTransaction {
  /// Returns the group of a row, or `nil` if it is in none. Complexity: one lookup.
  public func group(of row: RowKey) throws -> Group? {
    try content.entry(of: row).map { try ViewContent<Group>.group(in: $0.key).group }
  }

  /// Returns whether a row is in a group. Complexity: one lookup.
  public func contains(_ row: RowKey) throws -> Bool { try content.entry(of: row) != nil }

  /// Returns the group of a row and its offset there, or `nil` if it is in no group. Complexity: O(log n).
  public func place(of row: RowKey) throws -> (group: Group, offset: Int)? {
    guard let entry = try content.entry(of: row) else { return nil }
    let group = try ViewContent<Group>.group(in: entry.key).group
    let range = ViewContent<Group>.range(ofEncoded: entry.group)
    return (group, try content.rows.offset(of: entry.key, in: range))
  }

  /// Returns the offsets of the rows of a group whose positions begin with a key of a range.
  ///
  /// If there are none, the range is empty, and its bounds are the offset that such a row would have. The keys of a
  /// range over `Descending` keys are in the order of the group: `Descending(9)...Descending(1)`. Throws `.invalidKey`
  /// for a bound that can't be a key.
  ///
  /// Complexity: O(log n).
  public func offsets<Key: KeyCodable>(in group: Group, _ positions: some KeyBounds<Key>) throws -> Range<Int> {
    let prefix = try group.encoded()
    let (first, end) = try positions.encodedBounds()
    let range = ViewContent<Group>.range(ofEncoded: prefix)
    let lower = try content.rows.offset(of: prefix + first, in: range)
    let upper = try end.map { try content.rows.offset(of: prefix + $0, in: range) } ?? content.rows.count(range)
    return lower..<max(lower, upper)
  }

  /// Returns the first offset of a group whose row fulfills a condition, or `nil` if none does.
  ///
  /// The condition must be false for all rows before that one and true for all rows after it; of another condition the
  /// result is any offset. Throws what the condition throws.
  ///
  /// Complexity: O(log n) rows are read.
  public func firstOffset(in group: Group, where isPast: (Row) throws -> Bool) throws -> Int? {
    let range = try content.range(of: group)
    let transaction = try content.context.transaction
    let count = try content.rows.count(range)
    var (low, high) = (0, count)
    while low < high {
      let middle = low + (high - low) / 2
      guard let (_, value) = try content.rows.entry(at: middle, in: range) else {
        throw ViewEntry.damaged("a group of \(count) rows has none at offset \(middle)")
      }
      let key = try content.rowKey(value)
      guard let row = try transaction.row(key) else {
        throw ViewEntry.damaged("the row \(key) is in view \"\(content.context.name)\" and does not exist")
      }
      if try isPast(row) { high = middle } else { low = middle + 1 }
    }
    return low < count ? low : nil
  }
}

// MARK: - Rows without a place

extension ViewTransaction {
  /// Returns the rows that are in no group because they can't be decoded, or because their place can't be a key, each
  /// with the text of the error, in the order of collections and keys: at most `limit`.
  ///
  /// A manual view has no such rows. Complexity: a step for each row.
  public func unplacedRows(limit: Int = 1_000) throws -> [(row: RowKey, reason: String)] {
    guard let part = content.unplaced, limit > 0 else { return [] }
    var rows: [(row: RowKey, reason: String)] = []
    var cursor = try part.cursor()
    while rows.count < limit, let (key, value) = try cursor.next() {
      rows.append((try content.rowKey(key), String(decoding: value, as: UTF8.self)))
    }
    return rows
  }
}
