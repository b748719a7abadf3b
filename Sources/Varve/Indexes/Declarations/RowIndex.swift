/// An index of a collection of rows, whose values a closure determines for each row.
///
/// ```swift
/// let byArtist = RowIndex("byArtist", in: "songs", version: 1) { row in try row.object(as: Song.self).artist }
///
/// let database = try Database.open(at: path) {
///   try CollectionDefinition("songs", Song.self, key: String.self).indexed(by: byArtist)
/// }
/// let songs = try database.read { tx in
///   try Array(tx.rows(.value("Nina Simone"), from: byArtist)).map { try $0.object(as: Song.self) }
/// }
/// ```
///
/// Indexes of formats (``StoreFormat``) declare their values by paths, and queries use them. An index of rows is used
/// by name, and its values may depend on the key, the object and the metadata of a row together. It is updated with
/// each change of these; touching a row does not update it.
///
/// It is a value, and safe to use from any thread.
public struct RowIndex<Value: KeyCodable>: Sendable {
  /// The name on disk.
  public let name: String
  /// The collection whose rows are indexed.
  public let collection: String
  let terms: RowIndexTerms

  /// Creates an index in which a row has one value.
  ///
  /// - Parameters:
  ///   - name: The name on disk.
  ///   - collection: The collection whose rows are indexed.
  ///   - version: At least 1. Raise it whenever the closure yields other values: the index is then built again.
  ///   - isUnique: Whether a value has only one row. A row with the value of another row is refused with `.notUnique`.
  ///   - isDeferred: Whether uniqueness is checked at the end of the transaction instead of at the call.
  ///   - counted: Whether the index keeps counts, so that ``ReadTransaction/count(_:from:)`` takes logarithmic time,
  ///     and rows have offsets. Turning it on or off rebuilds no entry.
  ///   - isDirect: Whether the content of the row is stored with the value, so that it is found by one read instead of
  ///     two.
  ///   - skipsInvalid: Whether rows whose value can't be a key, because it is a NaN, are left out. Otherwise such a row
  ///     is refused with `.invalidKey`.
  ///   - value: Returns the value of a row, or `nil` to leave it out of the index. It may run more than once for a row,
  ///     on any thread, and must return the same value each time. If it throws a `DatabaseError` with the code
  ///     `.decodingFailed` or `.invalidKey`, the row is in no index; any other error refuses the change, and ends a
  ///     build.
  public init(
    _ name: String, in collection: String, version: Int, isUnique: Bool = false, isDeferred: Bool = false,
    counted: Bool = false, isDirect: Bool = false, skipsInvalid: Bool = false,
    _ value: @escaping @Sendable (Row) throws -> Value?
  ) {
    self.name = name
    self.collection = collection
    terms = RowIndexTerms(
      name: name, collection: collection, kind: isUnique ? .oneToOne : .plain, keyType: Value.keyType, version: version,
      isDeferred: isDeferred, isCounted: counted, isDirect: isDirect, skipsInvalid: skipsInvalid
    ) { _, row, index, keys in
      guard let row = try row.row, let value = try value(row) else { return }
      try keys.appendPart { try value.encodeKey(into: &$0) }
      keys.endValue(of: index)
    }
  }

  /// Creates an index in which a row may have several values. Duplicates count once, and a row without values is not in
  /// the index. The parameters are those of the other initializer.
  public init<Values: Sequence<Value> & SendableMetatype>(
    _ name: String, in collection: String, version: Int, isUnique: Bool = false, isDeferred: Bool = false,
    counted: Bool = false, isDirect: Bool = false, skipsInvalid: Bool = false,
    values: @escaping @Sendable (Row) throws -> Values
  ) {
    self.name = name
    self.collection = collection
    terms = RowIndexTerms(
      name: name, collection: collection, kind: isUnique ? .manyToOne : .manyToMany, keyType: Value.keyType,
      version: version, isDeferred: isDeferred, isCounted: counted, isDirect: isDirect, skipsInvalid: skipsInvalid
    ) { _, row, index, keys in
      guard let row = try row.row else { return }
      let first = keys.keys.count
      for value in try values(row) {
        do { try keys.appendPart { try value.encodeKey(into: &$0) } } catch {
          guard skipsInvalid else { throw error }
          keys.dropValue()
          continue
        }
        keys.endValue(of: index)
      }
      keys.sort(from: first)
    }
  }
}

/// The properties of a `RowIndex`, without the type of its values.
struct RowIndexTerms: Sendable {
  let name: String
  let collection: String
  let kind: IndexKind
  let keyType: KeyType
  let version: Int
  let isDeferred: Bool
  let isCounted: Bool
  let isDirect: Bool
  let skipsInvalid: Bool
  let emit: ErasedIndex.Emit

  /// Returns the index for objects of a type. Throws `.invalidDefinition`.
  func named<Object>(_ type: Object.Type) throws -> CheckedIndex<Object> {
    let composed = Name.composed(name)
    if composed.isEmpty {
      throw DatabaseError(.invalidDefinition, "an index of rows has an empty name", collection: collection)
    }
    var declaration = IndexDeclaration<Object>(
      kind, [], keyType,
      IndexOptions(
        name: composed, version: version, isDeferred: isDeferred, isCounted: isCounted, skipsInvalid: skipsInvalid),
      emit: emit)
    declaration.isDirect = isDirect
    declaration.readsMetadata = true
    let text = try declaration.definition(name: composed, format: type)
    return CheckedIndex(composed, declaration, definition: text)
  }
}

/// The indexes of a collection of rows.
struct RowIndexSpecification<Object: Codable & Sendable>: IndexSpecification {
  var indexes: [CheckedIndex<Object>]
  var formatVersion: String? { nil }
  var survivingVersions: [String] { [] }

  /// Returns the indexes with more added. Throws `.invalidDefinition`.
  fileprivate func with(
    _ terms: [RowIndexTerms], _ collection: String
  ) throws -> RowIndexSpecification {
    let named = try terms.map { terms in
      guard terms.collection == collection else {
        throw DatabaseError(
          .invalidDefinition, "index \"\(terms.name)\" is of the collection \"\(terms.collection)\"",
          collection: collection)
      }
      return try terms.named(Object.self)
    }
    return RowIndexSpecification(
      indexes: try CheckedIndex.checked(indexes + named, of: "the collection", collection: collection))
  }
}

extension IndexSpecification {
  /// Returns the indexes with more added, or `nil` if the collection's format has its own. Throws `.invalidDefinition`.
  fileprivate func adding(
    _ terms: [RowIndexTerms], to collection: String
  ) throws -> (any IndexSpecification)? {
    try (self as? RowIndexSpecification<Instance>)?.with(terms, collection)
  }
}

extension CollectionDefinition {
  /// Returns the definition with indexes of its rows.
  ///
  /// The database has the indexes from its opening on, builds new ones in the background, and drops those that the
  /// definition no longer has.
  ///
  /// A call without indexes, `indexed()`, drops those that the database has. A definition without this call leaves
  /// them, and a commit that changes rows makes them stale.
  ///
  /// A row that existed before an index and can't be in it is in no index, and the build continues:
  /// ``ReadTransaction/unindexedRows(in:)`` lists it. Throws `.invalidDefinition` for an index of another collection, a
  /// version below 1, duplicate names, and a collection whose format has its own indexes.
  public func indexed<each Value: KeyCodable>(
    by index: repeat RowIndex<each Value>
  ) throws -> CollectionDefinition {
    var terms: [RowIndexTerms] = []
    for index in repeat each index { terms.append(index.terms) }
    var copy = self
    copy.indexing = try (indexing ?? indexable)?.adding(terms, to: name)
    if copy.indexing == nil {
      throw DatabaseError(
        .invalidDefinition, "its format has its indexes; indexes of rows are for collections without one",
        collection: name)
    }
    return copy
  }
}
