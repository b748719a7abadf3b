/// An index of a collection of rows: a closure says what each row is found by.
///
/// ```swift
/// let byArtist = RowIndex("byArtist", in: "songs", version: 1) { row in try row.object(as: Song.self).artist }
///
/// let database = try Database.open(at: path) {
///   try CollectionDefinition("songs", Song.self, key: String.self).indexed(by: byArtist)
/// }
/// let songs = try database.read { tx in
///   try Array(tx.rows(with: "Nina Simone", from: byArtist)).map { try $0.object(as: Song.self) }
/// }
/// ```
///
/// Indexes of formats (``StoreFormat``) say by paths what they have, and queries use them. An index of rows is looked up by
/// name, and may be of the key, the object and the metadata of a row together. It is kept up with each change of these; a row
/// that is touched stays as it is.
///
/// A value: safe from any thread.
public struct RowIndex<Value: KeyCodable>: Sendable {
  /// The name on disk.
  public let name: String
  /// The collection whose rows it has.
  public let collection: String
  let terms: RowIndexTerms

  /// An index in which a row has one value.
  ///
  /// - Parameters:
  ///   - name: The name on disk.
  ///   - collection: The collection whose rows it has.
  ///   - version: At least 1, and to be raised whenever the closure finds other values: the index is built again then.
  ///   - isUnique: Whether a value has one row: one with the value of another is refused, `.notUnique`.
  ///   - isDeferred: Whether that is checked at the end of the transaction, and not at the call.
  ///   - isDirect: Whether the content of the row stands beside the value: found by one read instead of two.
  ///   - skipsInvalid: Whether rows whose value can't be a key, because it is a NaN, are left out. Otherwise such a row is
  ///     refused: `.invalidKey`.
  ///   - value: What a row is found by; nil: it is not in the index. It may run for one row more than once, on any thread, and
  ///     has to find the same each time. A `DatabaseError` with the code `.decodingFailed` or `.invalidKey` that it throws
  ///     lets the row be in no index; any other error refuses the change, and ends a build.
  public init(
    _ name: String, in collection: String, version: Int, isUnique: Bool = false, isDeferred: Bool = false,
    isDirect: Bool = false, skipsInvalid: Bool = false, _ value: @escaping @Sendable (Row) throws -> Value?
  ) {
    self.name = name
    self.collection = collection
    terms = RowIndexTerms(
      name: name, collection: collection, kind: isUnique ? .oneToOne : .plain, keyType: Value.keyType, version: version,
      isDeferred: isDeferred, isDirect: isDirect, skipsInvalid: skipsInvalid
    ) { _, row, index, keys in
      guard let row = try row.row, let value = try value(row) else { return }
      try keys.appendPart { try value.encodeKey(into: &$0) }
      keys.endValue(of: index)
    }
  }

  /// An index in which a row may have several values: those that are there twice count once, and a row without any is not in
  /// the index. The parameters are those of the other initialiser.
  public init<Values: Sequence<Value> & SendableMetatype>(
    _ name: String, in collection: String, version: Int, isUnique: Bool = false, isDeferred: Bool = false,
    isDirect: Bool = false, skipsInvalid: Bool = false, values: @escaping @Sendable (Row) throws -> Values
  ) {
    self.name = name
    self.collection = collection
    terms = RowIndexTerms(
      name: name, collection: collection, kind: isUnique ? .manyToOne : .manyToMany, keyType: Value.keyType,
      version: version, isDeferred: isDeferred, isDirect: isDirect, skipsInvalid: skipsInvalid
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

/// The same without the type of its values.
struct RowIndexTerms: Sendable {
  let name: String
  let collection: String
  let kind: IndexKind
  let keyType: KeyType
  let version: Int
  let isDeferred: Bool
  let isDirect: Bool
  let skipsInvalid: Bool
  let emit: IndexPlan.Emit

  /// The same for objects of a type. Throws `.invalidDefinition`.
  func named<Object>(_ type: Object.Type) throws -> NamedIndex<Object> {
    let composed = Name.composed(name)
    if composed.isEmpty {
      throw DatabaseError(.invalidDefinition, "an index of rows has an empty name", collection: collection)
    }
    var declaration = IndexDeclaration<Object>(
      kind, [], keyType,
      IndexOptions(name: composed, version: version, isDeferred: isDeferred, skipsInvalid: skipsInvalid), emit: emit)
    declaration.isDirect = isDirect
    declaration.readsMetadata = true
    let text = try declaration.definition(name: composed, format: type)
    return NamedIndex(composed, declaration, definition: text)
  }
}

/// The indexes of a collection of rows.
struct RowIndexing<Object: Codable & Sendable>: CollectionIndexing {
  var indexes: [NamedIndex<Object>]
  var unindexableRows = UnindexableRows.listed
  var formatVersion: String? { nil }
  var survivingVersions: [String] { [] }

  /// The same with more. Throws `.invalidDefinition`.
  fileprivate func with(
    _ terms: [RowIndexTerms], _ collection: String, _ unindexableRows: UnindexableRows
  ) throws -> RowIndexing {
    let named = try terms.map { terms in
      guard terms.collection == collection else {
        throw DatabaseError(
          .invalidDefinition, "index \"\(terms.name)\" is of the collection \"\(terms.collection)\"",
          collection: collection)
      }
      return try terms.named(Object.self)
    }
    return RowIndexing(
      indexes: try NamedIndex.checked(indexes + named, of: "the collection", collection: collection),
      unindexableRows: unindexableRows)
  }
}

extension CollectionIndexing {
  /// The same with more. Throws `.invalidDefinition`.
  fileprivate func adding(
    _ terms: [RowIndexTerms], to collection: String, _ unindexableRows: UnindexableRows
  ) throws -> (any CollectionIndexing)? {
    try (self as? RowIndexing<Instance>)?.with(terms, collection, unindexableRows)
  }
}

extension CollectionDefinition {
  /// The same with indexes of its rows: the database has them from its opening on, builds what is new in the background, and
  /// drops what the definition does not have any more.
  ///
  /// Without any, `indexed()`, those that the database has are dropped; a definition that does not call this leaves them, and a
  /// commit that changes rows makes them stale.
  ///
  /// `unindexableRows` says what becomes of rows that were there before an index and can't be in it. Throws
  /// `.invalidDefinition` for an index of another collection, a version below 1, names that are there twice, and a collection
  /// whose format has its own indexes.
  public func indexed<each Value: KeyCodable>(
    by index: repeat RowIndex<each Value>, unindexableRows: UnindexableRows = .listed
  ) throws -> CollectionDefinition {
    var terms: [RowIndexTerms] = []
    for index in repeat each index { terms.append(index.terms) }
    var copy = self
    copy.indexing = try (indexing ?? indexable)?.adding(terms, to: name, unindexableRows)
    if copy.indexing == nil {
      throw DatabaseError(
        .invalidDefinition, "its format has its indexes; indexes of rows are for collections without one",
        collection: name)
    }
    return copy
  }
}
