@_spi(Extensions) public import Varve

/// A ``ManualView`` in one transaction. ``ViewTransaction`` has the methods that read it.
///
/// Methods that change it throw `.readOnly` in a read, and `.invalidArgument` for a row of a collection that the view
/// does not have.
public final class ManualViewTransaction<Group: KeyCodable>: ViewTransaction {
  /// The type of the extension.
  public typealias Definition = ManualView<Group>
  /// What the view keeps.
  public let content: ViewContent<Group>
  private let swept: Part

  init(_ definition: ManualView<Group>, _ context: ExtensionContext<ManualView<Group>>) throws {
    swept = try context.part(ManualView<Group>.sweptPart)
    content = try ViewContent(
      context, version: ManualView<Group>.version, scope: definition.scope, mayMiss: true, expected: nil)
  }

  // MARK: - Hooks

  /// Removes a row that was removed from the database.
  @_spi(Extensions) public func didChange(_ change: borrowing RowChange) throws {
    guard change.event == .removed else { return }
    try content.move(ViewEntry.rowBytes(change.collectionNumber, change.key), to: .none)
  }

  /// Removes the rows of a collection, or all.
  @_spi(Extensions) public func removesAll(in collection: String?) throws -> Bool {
    try content.removeAll(in: collection)
  }

  /// Removes a row whose removal was missed.
  @_spi(Extensions) public func didMiss(_ key: RowKey, _ row: Row?) throws {
    guard row == nil, let bytes = try content.rowBytes(key) else { return }
    try content.move(bytes, to: .none)
  }

  /// Removes the rows that are gone, if any removal may have been missed.
  @_spi(Extensions) public func didFinishBuild() throws {
    guard try swept.first() == nil else { return }
    try content.sweep()
    try swept.put([0], [])
  }

  // MARK: - Adding rows

  /// Adds rows at the end of a group. Returns the number of rows that were added: a row that does not exist, or that is
  /// in the view already, is left out.
  @discardableResult
  public func append(_ rows: some Sequence<RowKey>, to group: Group) throws -> Int {
    try insert(rows, in: group) { try self.content.gapAtEnd(of: $0) }
  }

  /// Adds a row at the end of a group. Returns false if it does not exist, or is in the view already.
  @discardableResult
  public func append(_ row: RowKey, to group: Group) throws -> Bool { try append([row], to: group) == 1 }

  /// Adds rows so that the first of them gets an offset in the group, from zero to the number of its rows. Returns the
  /// number of rows that were added, as `append` does.
  ///
  /// Throws `.invalidArgument` for another offset.
  @discardableResult
  public func insert(_ rows: some Sequence<RowKey>, at offset: Int, in group: Group) throws -> Int {
    try insert(rows, in: group) { try self.content.gap(at: offset, of: $0) }
  }

  /// Adds rows before a row of a group, or at the end of the group if `other` is `nil`. Returns the number of rows that
  /// were added, as `append` does.
  ///
  /// Throws `.invalidArgument` if the other row is not in the group.
  @discardableResult
  public func insert(_ rows: some Sequence<RowKey>, before other: RowKey?, in group: Group) throws -> Int {
    try insert(rows, in: group) { try self.content.gap(before: other, of: $0) }
  }

  /// Adds a row to a group that is sorted by a comparison, after the rows that are equal to it. Returns false if it
  /// does not exist, or is in the view already.
  ///
  /// The comparison is called for O(log n) rows, and is not kept: later changes of rows don't move them.
  @discardableResult
  public func insert(
    _ row: RowKey, in group: Group, by areInIncreasingOrder: (Row, Row) throws -> Bool
  ) throws -> Bool {
    guard let inserted = try content.context.transaction.row(row) else { return false }
    let offset = try firstOffset(in: group) { try areInIncreasingOrder(inserted, $0) }
    return try insert([row], in: group) { group in
      try offset.map { try self.content.gap(at: $0, of: group) } ?? self.content.gapAtEnd(of: group)
    } == 1
  }

  private func insert(
    _ rows: some Sequence<RowKey>, in group: Group, _ gap: ([UInt8]) throws -> ViewGap
  ) throws -> Int {
    let writer = try content.writing()
    let group = try content.checkedGroup(group)
    var seen: Set<RowKey> = []
    var added: [(key: RowKey, bytes: [UInt8])] = []
    for row in rows where seen.insert(row).inserted {
      try content.requireInScope(row)
      guard try writer.contains(row), let bytes = try content.rowBytes(row), try content.places.get(bytes) == nil else {
        continue
      }
      added.append((row, bytes))
    }
    let place = try gap(group)
    guard !added.isEmpty else { return 0 }
    try writer.savepoint {
      try content.place(added.map(\.bytes), in: place, of: group)
      for row in added { try writer.touchRow(row.key) }
    }
    return added.count
  }

  // MARK: - Moving rows

  /// Moves rows of the view, from whatever groups they are in, before a row of a group, or to the end of the group if
  /// `other` is `nil`. They have the order of the sequence there. Returns the number of rows that were moved: a row
  /// that is not in the view is left out.
  ///
  /// If the other row is among the moved ones, they get the place that it had. Throws `.invalidArgument` if the other
  /// row is not in the group.
  @discardableResult
  public func move(_ rows: some Sequence<RowKey>, before other: RowKey?, in group: Group) throws -> Int {
    try move(rows, in: group) { moved, group in
      var next = other
      if let other, moved.contains(other) { next = try self.content.firstRow(after: other, notIn: moved, of: group) }
      return { try self.content.gap(before: next, of: group) }
    }
  }

  /// Moves a row of the view so that it gets an offset in a group. Returns false if it is not in the view.
  ///
  /// Throws `.invalidArgument` if the group, without the row, has no such offset and does not end there.
  @discardableResult
  public func move(_ row: RowKey, to offset: Int, in group: Group) throws -> Bool {
    try move([row], in: group) { _, group in { try self.content.gap(at: offset, of: group) } } == 1
  }

  private func move(
    _ rows: some Sequence<RowKey>, in group: Group,
    _ target: (_ moved: Set<RowKey>, _ group: [UInt8]) throws -> () throws -> ViewGap
  ) throws -> Int {
    let writer = try content.writing()
    let group = try content.checkedGroup(group)
    var seen: Set<RowKey> = []
    var moved: [(key: RowKey, bytes: [UInt8])] = []
    for row in rows where seen.insert(row).inserted {
      if let bytes = try content.rowBytes(row), try content.places.get(bytes) != nil { moved.append((row, bytes)) }
    }
    let gap = try target(Set(moved.map(\.key)), group)
    return try writer.savepoint {
      for row in moved { try content.move(row.bytes, to: .none) }
      let place = try gap()
      guard !moved.isEmpty else { return 0 }
      try content.place(moved.map(\.bytes), in: place, of: group)
      for row in moved { try writer.touchRow(row.key) }
      return moved.count
    }
  }

  // MARK: - Removing rows

  /// Removes rows from the view. The rows themselves stay. Returns the number of rows that were removed: a row that is
  /// not in the view is left out.
  @discardableResult
  public func remove(_ rows: some Sequence<RowKey>) throws -> Int {
    let writer = try content.writing()
    return try writer.savepoint {
      var count = 0
      for row in rows {
        guard let bytes = try content.rowBytes(row), try content.places.get(bytes) != nil else { continue }
        try content.move(bytes, to: .none)
        try writer.touchRow(row)
        count += 1
      }
      return count
    }
  }

  /// Removes a row from the view. Returns false if it is not in the view.
  @discardableResult
  public func remove(_ row: RowKey) throws -> Bool { try remove([row]) == 1 }

  /// Removes the row at an offset of a group from the view, and returns it, or returns `nil` if no row has that offset.
  @discardableResult
  public func remove(at offset: Int, in group: Group) throws -> RowKey? {
    _ = try content.writing()
    guard let row = try row(in: group, at: offset) else { return nil }
    try remove(row)
    return row
  }

  /// Removes all rows of a group from the view, and returns how many there were.
  ///
  /// The rows themselves stay. Complexity: one removal and one touch for each row.
  @discardableResult
  public func removeAll(in group: Group) throws -> Int {
    let writer = try content.writing()
    return try writer.savepoint {
      var count = 0
      var cursor = try content.rows.cursor(content.range(of: group))
      while let (_, bytes) = try cursor.next() {
        try content.move(bytes, to: .none)
        try writer.touchRow(try content.rowKey(bytes))
        count += 1
      }
      return count
    }
  }
}
