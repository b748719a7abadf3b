/// Rows as asynchronous sequences: for callers that name collections and types at each call.
///
/// ```swift
/// for try await row in database.rows(in: "books") where row.hasMetadata {
///   print(try row.key(as: String.self), try row.object(as: Book.self).title)
/// }
/// ```
///
/// Each shows the database as it was at the call that made it; made inside of a write or of `perform`, with what that had
/// written until then. `Rows` says the rest. Nothing of a row is decoded until it is asked for, so a `where` that looks at
/// keys alone decodes nothing; the bytes of row and metadata are read with the key.
extension Database {
  /// The rows of a collection, in the order of their keys; none of one that was never made. The first `next` throws
  /// `.invalidArgument` for a negative limit.
  public func rows(in collection: String, descending: Bool = false, limit: Int? = nil) -> Rows<FetchedRow> {
    rows(descending, limit) { tx in try tx.info(collection).map { [($0, $0.range)] } ?? [] }
  }

  /// The rows of a collection whose keys are in a range: `"a"..<"b"`, `5...`, `...id`, `id..>`. The first `next` throws
  /// `.keyTypeDiffers` for keys of another type.
  public func rows<Key: KeyCodable>(
    in collection: String, _ range: some KeyBounds<Key> & Sendable, descending: Bool = false, limit: Int? = nil
  ) -> Rows<FetchedRow> {
    rows(descending, limit) { tx in
      try tx.info(collection).map { [($0, try $0.storageRange(range, limit: tx.database.limits.keySize))] } ?? []
    }
  }

  /// The rows of a collection whose keys begin with a text. The first `next` throws `.keyTypeDiffers` where its keys are
  /// no strings.
  public func rows(
    in collection: String, keyPrefix: String, descending: Bool = false, limit: Int? = nil
  ) -> Rows<FetchedRow> {
    rows(descending, limit) { tx in
      try tx.info(collection).map { [($0, try $0.storageRange(ofPrefix: keyPrefix))] } ?? []
    }
  }

  /// The rows of all collections: by collection, in the order of their names, and then by key.
  public func rows(limit: Int? = nil) -> Rows<FetchedRow> {
    rows(false, limit) { tx in
      try tx.check()
      return tx.infos().sorted { $0.name < $1.name }.map { ($0, $0.range) }
    }
  }

  func rows(
    _ isDescending: Bool, _ limit: Int?,
    _ ranges: @escaping @Sendable (ReadTransaction) throws -> [(CollectionInfo, StorageRange)]
  ) -> Rows<FetchedRow> {
    Rows(
      RowSource(core) { tx in
        try ScanTerms(range: .all, isDescending: isDescending, limit: limit).check()
        return FetchedRowScan(try ranges(tx), isDescending: isDescending, limit: limit, tx)
      })
  }
}

extension Database {
  /// The rows whose compound keys begin with a value, or with the values of a shorter `Compound`, as they are now. The
  /// first `next` throws `.keyTypeDiffers` where the keys of the collection don't begin with those types.
  public func rows(
    in collection: String, beginningWith first: some KeyCodable & Sendable, descending: Bool = false,
    limit: Int? = nil
  ) -> Rows<FetchedRow> {
    rows(descending, limit) { tx in
      try tx.info(collection).map { [($0, try $0.storageRange(beginningWith: first))] } ?? []
    }
  }

  /// The rows whose compound keys begin with a value of a range, as they are now. The first `next` throws as for one
  /// value.
  public func rows<First: KeyCodable>(
    in collection: String, beginningWith range: some KeyBounds<First>, descending: Bool = false, limit: Int? = nil
  ) -> Rows<FetchedRow> {
    let beginning = KeyBeginning(with: range)
    return rows(descending, limit) { tx in
      try tx.info(collection).map { [($0, try $0.storageRange(beginning))] } ?? []
    }
  }
}
