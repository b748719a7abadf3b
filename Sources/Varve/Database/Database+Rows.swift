/// Rows as asynchronous sequences: for callers that name collections and types at each call.
///
/// ```swift
/// for try await row in database.rows(in: "books") where row.hasMetadata {
///   print(try row.key(as: String.self), try row.object(as: Book.self).title)
/// }
/// ```
///
/// Each sequence shows the database as of the call that created it. A sequence that was created inside a write or
/// `perform` includes the writes of that transaction until then. See `Rows` for details. A row is decoded only on
/// request, so a `where` clause that uses only keys decodes nothing; the bytes of a row and its metadata are read
/// together with the key.
extension Database {
  /// Returns the rows of a collection in key order, or no rows if the collection does not exist. The first `next`
  /// throws `.invalidArgument` for a negative limit.
  public func rows(in collection: String, descending: Bool = false, limit: Int? = nil) -> Rows<FetchedRow> {
    rows(descending, limit) { tx in try tx.info(collection).map { [($0, $0.range)] } ?? [] }
  }

  /// Returns the rows of a collection whose keys are in a range: `"a"..<"b"`, `5...`, `...id`, `id..>`. The first
  /// `next` throws `.keyTypeDiffers` for keys of another type.
  public func rows<Key: KeyCodable>(
    in collection: String, _ range: some KeyBounds<Key> & Sendable, descending: Bool = false, limit: Int? = nil
  ) -> Rows<FetchedRow> {
    rows(descending, limit) { tx in
      try tx.info(collection).map { [($0, try $0.storageRange(range, limit: tx.database.limits.keySize))] } ?? []
    }
  }

  /// Returns the rows of a collection whose keys begin with a text. The first `next` throws `.keyTypeDiffers` if the
  /// keys are not strings.
  public func rows(
    in collection: String, keyPrefix: String, descending: Bool = false, limit: Int? = nil
  ) -> Rows<FetchedRow> {
    rows(descending, limit) { tx in
      try tx.info(collection).map { [($0, try $0.storageRange(ofPrefix: keyPrefix))] } ?? []
    }
  }

  /// Returns the rows of all collections, ordered by the name of the collection and then by key.
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
  /// Returns the current rows whose compound keys begin with a value, or with the values of a shorter `Compound`. The
  /// first `next` throws `.keyTypeDiffers` if the keys of the collection do not begin with those types.
  public func rows(
    in collection: String, beginningWith first: some KeyCodable & Sendable, descending: Bool = false,
    limit: Int? = nil
  ) -> Rows<FetchedRow> {
    rows(descending, limit) { tx in
      try tx.info(collection).map { [($0, try $0.storageRange(beginningWith: first))] } ?? []
    }
  }

  /// Returns the current rows whose compound keys begin with a value of a range. The first `next` throws as for a
  /// single value.
  public func rows<First: KeyCodable>(
    in collection: String, beginningWith range: some KeyBounds<First>, descending: Bool = false, limit: Int? = nil
  ) -> Rows<FetchedRow> {
    let beginning = EncodedKeyRange(with: range)
    return rows(descending, limit) { tx in
      try tx.info(collection).map { [($0, try $0.storageRange(beginning))] } ?? []
    }
  }
}
