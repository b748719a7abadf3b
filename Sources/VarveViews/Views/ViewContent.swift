@_spi(Extensions) public import Varve

/// What a view keeps, in one transaction. It has no members for callers: ``ViewTransaction`` has them.
public final class ViewContent<Group: KeyCodable> {
  let context: any ViewContext
  let rows: Part
  let places: Part
  /// The part with the rows that can't be placed, or `nil` for a view that places none by itself.
  let unplaced: Part?
  /// The version of the definition that is in force in the transaction.
  let version: String
  let scope: CollectionScope
  /// Returns the place that the definition gives a row, or `nil` for a view whose order the caller gives.
  let expected: ((Row) throws -> ViewPlacement)?
  /// Whether a row that is expected to be in the view may be missing.
  let mayMiss: Bool

  init(
    _ context: any ViewContext, version: String, scope: CollectionScope, mayMiss: Bool,
    expected: ((Row) throws -> ViewPlacement)?
  ) throws {
    self.context = context
    self.version = version
    self.scope = scope
    self.mayMiss = mayMiss
    self.expected = expected
    rows = try context.part(ViewParts.rows)
    places = try context.part(ViewParts.places)
    unplaced = expected == nil ? nil : try context.part(ViewParts.unplaced)
  }
}

/// The names of the parts of views.
enum ViewParts {
  static let rows = "rows"
  static let places = "places"
  static let unplaced = "unplaced"
}

/// What views need of the context of an extension, whatever its definition is.
protocol ViewContext {
  var name: String { get }
  var limits: StorageLimits { get }
  var transaction: ReadTransaction { get throws }
  var writeTransaction: WriteTransaction? { get }
  var contentIdentity: UInt64 { get }
  func part(_ name: String) throws -> Part
}

extension ExtensionContext: ViewContext {}

// MARK: - Writing

extension ViewContent {
  /// Moves a row to its new place. If it is there already, nothing is written.
  ///
  /// The old place is read and never computed, because the closure of a definition may not give it any more: it may
  /// depend on a conversion or an initializer that fills a field differently at each call, and what a closure of a
  /// `Row` reads is not known, so it is not known either whether all of it is stored.
  ///
  /// Complexity: one lookup, and for another place two writes and two removals.
  func move(_ row: [UInt8], to placement: ViewPlacement) throws {
    switch placement {
    case .none:
      guard let old = try places.get(row) else { return }
      try leave(row, old)
      try places.delete(row)
    case .placed(let entry):
      var old: [UInt8]?
      let isThere = try places.withValue(of: row) { found in
        if found.equals(entry.place) { return true }
        old = found.array
        return false
      }
      if isThere == true { return }
      try require(row)
      if let old { try leave(row, old) }
      try insert(row, at: entry)
      try places.put(row, entry.place)
    case .unplaced(let reason):
      try require(row)
      let old = try places.get(row)
      if let old, !old.isEmpty { try leave(row, old) }
      try unplaced?.put(row, Array(reason.utf8))
      if old?.isEmpty != true { try places.put(row, []) }
    }
  }

  /// Enters a row that has no place yet. Nothing is read, as in a build by tables.
  func enter(_ row: [UInt8], at placement: ViewPlacement) throws {
    switch placement {
    case .none: break
    case .placed(let entry):
      try require(row)
      try insert(row, at: entry)
      try places.put(row, entry.place)
    case .unplaced(let reason):
      try require(row)
      try unplaced?.put(row, Array(reason.utf8))
      try places.put(row, [])
    }
  }

  /// Adds the entry of a row in `rows`.
  @inline(__always)
  private func insert(_ row: [UInt8], at entry: ViewEntry) throws {
    // Safety: the spans are used within the calls.
    try entry.withKey { key in try unsafe rows.insert(key, row.span.bytes) }
  }

  /// Removes what a row has beside its old place.
  private func leave(_ row: [UInt8], _ old: [UInt8]) throws {
    if let entry = try ViewEntry(place: old) { return try rows.remove(entry.key) }
    try unplaced?.delete(row)
  }

  /// Throws if the key of a row is too long for `places`.
  private func require(_ row: [UInt8]) throws {
    guard row.count > context.limits.keySize else { return }
    throw DatabaseError(
      .keyTooLong,
      "the key of a row of view \"\(context.name)\" has \(row.count - 4) bytes, and a view takes \(context.limits.keySize - 4)"
    )
  }

  /// Removes all rows of a collection, or of all collections if `collection` is `nil`. Returns false if the number of
  /// the collection is not known.
  ///
  /// Complexity: three range deletes if the view has no other collection; otherwise one removal for each row.
  func removeAll(in collection: String?) throws -> Bool {
    guard let collection, scope != .only([collection]) else {
      for part in [rows, places] { try part.deleteRange(StorageRange()) }
      try unplaced?.deleteRange(StorageRange())
      return true
    }
    guard let number = try context.transaction.collectionNumber(of: collection) else { return false }
    var prefix: [UInt8] = []
    prefix.append(number: number)
    let range = StorageRange(prefix: prefix)
    var cursor = try places.cursor(range)
    while let (_, place) = try cursor.next() {
      if let entry = try ViewEntry(place: place) { try rows.remove(entry.key) }
    }
    try places.deleteRange(range)
    try unplaced?.deleteRange(range)
    return true
  }
}

// MARK: - Rows and groups

extension ViewContent {
  /// Returns the key of a row in `places`, or `nil` if nothing was ever stored in its collection.
  func rowBytes(_ row: RowKey) throws -> [UInt8]? {
    try context.transaction.collectionNumber(of: row.collection).map { ViewEntry.rowBytes($0, row) }
  }

  /// Returns the row of a value in `rows`. Throws `.snapshotTooOld` if its collection was dropped meanwhile.
  @inline(__always)
  func rowKey(_ value: RawSpan, _ transaction: ReadTransaction) throws -> RowKey {
    guard let number = value.leadingNumber else {
      throw ViewEntry.damaged("the key of a row has \(value.byteCount) bytes")
    }
    guard let row = try transaction.rowKey(value.extracting(droppingFirst: 4), inCollection: number) else {
      throw DatabaseError(
        .snapshotTooOld, "collection \(number), which has rows in view \"\(context.name)\", was dropped meanwhile")
    }
    return row
  }

  func rowKey(_ value: [UInt8]) throws -> RowKey {
    let transaction = try context.transaction
    return try unsafe rowKey(value.span.bytes, transaction)
  }

  /// Returns the range of the keys of a group in `rows`.
  func range(of group: Group) throws -> StorageRange { Self.range(ofEncoded: try group.encoded()) }

  static func range(ofEncoded group: [UInt8]) -> StorageRange {
    StorageRange(lower: group, upper: KeyRange.end(ofParts: group))
  }

  /// Decodes the group at the beginning of a key in `rows`.
  static func group(in key: [UInt8]) throws -> (group: Group, size: Int) {
    var decoder = unsafe KeyDecoder(key.span.bytes)
    let group = try Group.decodeKey(from: &decoder)
    return (group, decoder.offset)
  }

  /// Returns the entry of a row, or `nil` if it is in no group. Complexity: one lookup.
  func entry(of row: RowKey) throws -> ViewEntry? {
    guard let bytes = try rowBytes(row), let place = try places.get(bytes) else { return nil }
    return try ViewEntry(place: place)
  }
}
