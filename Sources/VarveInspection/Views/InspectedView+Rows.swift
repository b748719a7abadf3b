public import Varve

/// A row of a view.
public struct InspectedViewRow: Sendable {
  /// The offset of the row in its group.
  public let offset: Int
  /// The key of the row.
  public let key: RowKey
  /// The position of the row in the group as text: the key of an auto view, or the number of a manual view.
  public let position: String
}

extension DatabaseInspector {
  /// Returns the number of rows of a view, by visiting its entries. Complexity: O(n) of the entries.
  public func rowCount(of view: InspectedView) throws -> Int {
    guard let rows = view.rows else { return 0 }
    return try FamilyCursor(StorageRange(), in: rows, of: snapshot, isReverse: false, keysOnly: true).count()
  }

  /// Calls `body` with each group of a view in ascending order: its text as `KeyText` writes it, its bytes, and the
  /// number of its rows, by visiting the entries.
  ///
  /// The error of each entry whose group can't be read is passed to `fault`; the entry belongs to no group then. Throws
  /// `.corruption` if a block can't be read, `.storage`. Complexity: O(n) of the entries.
  public func groups(
    of view: InspectedView, fault: (any Error) throws -> Void,
    _ body: (_ text: String, _ group: [UInt8], _ count: Int) throws -> Void
  ) throws {
    guard let rows = view.rows else { return }
    var cursor = FamilyCursor(StorageRange(), in: rows, of: snapshot, isReverse: false)
    var group: (bytes: [UInt8], end: [UInt8], count: Int)?
    func end() throws {
      if let group { try body(KeyText.text(of: group.bytes), group.bytes, group.count) }
    }
    while let (key, value) = try cursor.next() {
      if let known = group, key.lexicographicallyPrecedes(known.end) {
        group?.count += 1
        continue
      }
      guard let size = try groupSize(of: key, value, in: view) else {
        try fault(Self.damaged(view, key))
        continue
      }
      try end()
      let bytes = Array(key[..<size])
      group = (bytes, KeyRange.end(ofParts: bytes), 1)
    }
    try end()
  }

  /// Calls `body` with rows of a group of a view, from an offset on and at most `limit`. Returns the number of rows of
  /// the group that were visited, which is 0 if the view has no such group.
  ///
  /// The error of each entry that can't be read is passed to `fault`. Throws `.invalidArgument` for a negative offset,
  /// `.corruption` if a block can't be read, `.storage`. Complexity: O(n) of the entries up to the last row.
  @discardableResult
  public func rows(
    of view: InspectedView, in group: [UInt8], from offset: Int = 0, limit: Int = .max,
    fault: (any Error) throws -> Void, _ body: (InspectedViewRow) throws -> Void
  ) throws -> Int {
    guard offset >= 0 else {
      throw DatabaseError(.invalidArgument, "an offset in a group is \(offset); it must not be negative")
    }
    guard let rows = view.rows else { return 0 }
    let names = try collectionNames()
    let range = StorageRange(lower: group, upper: KeyRange.end(ofParts: group))
    var cursor = FamilyCursor(range, in: rows, of: snapshot, isReverse: false)
    var visited = 0
    while let (key, value) = try cursor.next() {
      // Without a limit only the first entry is visited, which shows whether the group exists.
      if visited >= offset, visited - offset >= limit { return max(visited, 1) }
      visited += 1
      if visited <= offset { continue }
      guard let row = Self.rowKey(value, names), key.count - group.count >= ViewFormat.endSize else {
        try fault(Self.damaged(view, key))
        continue
      }
      try body(
        InspectedViewRow(offset: visited - 1, key: row, position: Self.position(key.dropFirst(group.count), view)))
    }
    return visited
  }

  // MARK: - Entries

  /// Returns the names of collections by their numbers.
  func collectionNames() throws -> [UInt32: String] {
    var names: [UInt32: String] = [:]
    var cursor = FamilyCursor(
      StorageRange(prefix: CatalogKey.collections), in: catalog, of: snapshot, isReverse: false)
    while let (key, value) = try cursor.next() {
      guard let name = try? CatalogKey.name(in: key), let record = try? CollectionRecord(value, name: name) else {
        continue
      }
      names[record.id] = name
    }
    return names
  }

  /// Returns the row of a value in `rows`, or `nil` if it is damaged or the collection does not exist.
  static func rowKey(_ bytes: [UInt8], _ names: [UInt32: String]) -> RowKey? {
    guard let number = BigEndian.number(bytes, as: UInt32.self), let name = names[number] else { return nil }
    return RowKey(collection: name, bytes: Array(bytes.dropFirst(4)))
  }

  /// Returns the size of the group at the beginning of a key in `rows`, or `nil` if it can't be read.
  ///
  /// If the structure of the groups of an auto view is not known, the place of the row says it.
  func groupSize(of key: [UInt8], _ row: [UInt8], in view: InspectedView) throws -> Int? {
    guard key.count >= ViewFormat.endSize else { return nil }
    let isKnown = view.groupForm.isKnown
    if !isKnown, view.kind == .autoView {
      guard let places = view.places, let place = try snapshot.value(of: row, in: places),
        case .placed(key, let size) = ViewFormat.place(place)
      else { return nil }
      return size
    }
    let head = Array(key.dropLast(ViewFormat.endSize))
    let parts = KeyPart.leadingParts(of: head)
    guard parts.last?.end ?? 0 == head.count else { return nil }
    guard isKnown else { return head.count }
    guard let count = view.groupForm.leadingCount(of: parts.map(\.part)) else { return nil }
    let size = count == 0 ? 0 : parts[count - 1].end
    return view.kind == .manualView && size != head.count ? nil : size
  }

  private static func position(_ bytes: ArraySlice<UInt8>, _ view: InspectedView) -> String {
    if view.kind == .manualView { return "\(BigEndian.number(Array(bytes), as: UInt64.self) ?? 0)" }
    return KeyText.text(of: Array(bytes.dropLast(ViewFormat.endSize)))
  }

  static func damaged(_ view: InspectedView, _ key: [UInt8]) -> DatabaseError {
    DatabaseError(
      .corruption, "view \"\(view.name)\": the entry \(EntryText.text(of: key)) can't be read as a row of a group")
  }
}
