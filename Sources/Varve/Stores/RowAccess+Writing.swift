/// Writes rows. A method that throws has changed nothing.
extension RowAccess {
  /// The change of a row's metadata when its object is set.
  enum MetadataChange {
    /// The metadata is kept.
    case keep
    /// The metadata is set, or removed if the value is nil.
    case set(Format.Metadata?)
    /// The metadata is set to the instance's own property.
    case own(any WritableKeyPath<Format.Instance, Format.Metadata?> & Sendable)
  }

  // MARK: - One row

  /// Sets a row, and returns its previous instance, or nil if there was none or it cannot be decoded. Like all methods
  /// that set rows, throws `.unsupportedVersion` if a newer program has written it.
  func persist(
    _ instance: Format.Instance, _ id: Format.Identifier, _ metadata: MetadataChange, _ tx: WriteTransaction
  ) throws -> Format.Instance? {
    let (info, key) = try location(id, tx)
    let row = try row(key, info, tx)
    let previous = try row.flatMap { try decodable($0, tx) }
    try write(instance, metadata, key, info, over: row.map { PresentRow($0) }, tx)
    return previous
  }

  /// Returns the instance of a row that is about to be replaced or removed, or nil if it cannot be decoded: an
  /// undecodable row must be removable.
  private func decodable(_ row: StoredRow, _ tx: ReadTransaction) throws -> Format.Instance? {
    do {
      return try instance(row, tx)
    } catch let error as DatabaseError where error.isOfUndecodableRow {
      return nil
    }
  }

  /// Returns the instance of a row that is about to be replaced or removed, for a method that has to return one.
  private func required(_ row: StoredRow, _ tx: ReadTransaction, instead call: String) throws -> Format.Instance {
    do {
      return try instance(row, tx)
    } catch let error as DatabaseError where error.isOfUndecodableRow {
      throw DatabaseError(
        error.code, "\(error.message), and so not returned; \(call) does without", collection: error.collection,
        key: error.key, cause: error.cause)
    }
  }

  /// What a change of many instances does with a row.
  enum Presence {
    case present
    case absent
    /// The row can't be decoded, and the format doesn't throw.
    case undecodable
  }

  /// Returns the state of a row that is about to be modified, and notes one that is left out. Rows of a format that
  /// throws are not decoded here.
  func state(of id: Format.Identifier, _ tx: WriteTransaction) throws -> Presence {
    guard let info = try collection(tx) else { return .absent }
    let key = try key(id, info)
    guard Format.decodesEachRow else { return try tx.header(key, info) == nil ? .absent : .present }
    guard let bytes = try tx.value(of: key, in: info.objects) else { return .absent }
    do {
      _ = try instance(key, bytes, info) { try tx.value(of: key, in: info.metadata) }
      return .present
    } catch let error as DatabaseError where error.isOfUndecodableRow {
      AnswerReading(self, info, tx).note(key, error)
      return .undecodable
    }
  }

  /// Sets a row, whether it exists or not. Its previous value is not decoded.
  func set(
    _ instance: Format.Instance, _ id: Format.Identifier, _ metadata: MetadataChange, _ tx: WriteTransaction
  ) throws {
    let (info, key) = try location(id, tx)
    try write(instance, metadata, key, info, over: try tx.present(key, info), tx)
  }

  func insert(
    _ instance: Format.Instance, _ id: Format.Identifier, _ metadata: MetadataChange, _ tx: WriteTransaction
  ) throws {
    let (info, key) = try location(id, tx)
    if let old = try tx.present(key, info) {
      try tx.requireReplaceable(old, key, info)
      throw DatabaseError(
        .alreadyExists, "there is a row already; use persist or update", collection: name, key: info.key(of: key).text)
    }
    try write(instance, metadata, key, info, over: nil, tx)
  }

  /// Sets an existing row, and returns its previous instance.
  func update(
    _ instance: Format.Instance, _ id: Format.Identifier, _ metadata: MetadataChange, _ tx: WriteTransaction
  ) throws -> Format.Instance {
    let (info, row) = try existing(id, tx)
    try tx.requireReplaceable(PresentRow(row), row.key, info, keepsMetadata: !Format.readsMetadata)
    let previous = try required(row, tx, instead: "persist")
    try write(instance, metadata, row.key, info, over: PresentRow(row), tx)
    return previous
  }

  /// Changes an existing row, and returns its new instance. `check` throws if the change is not allowed.
  func modify(
    _ id: Format.Identifier, _ tx: WriteTransaction, check: (Format.Instance) throws -> Void,
    _ body: (inout Format.Instance) throws -> Void
  ) throws -> Format.Instance {
    let (info, row) = try existing(id, tx)
    var instance = try self.instance(row, tx)
    try body(&instance)
    try tx.check()
    try check(instance)
    // The closure may have written to the database: the row may be removed, or have other metadata.
    try write(instance, own, row.key, info, over: try tx.present(row.key, info), tx)
    guard info.definition?.codec.rules.before != nil, let row = try self.row(row.key, info, tx) else { return instance }
    return try self.instance(row, tx)
  }

  func setMetadata(_ metadata: Format.Metadata?, _ id: Format.Identifier, _ tx: WriteTransaction) throws {
    let (info, row) = try existing(id, tx)
    _ = try tx.replaceMetadata(metadata, row.key, info)
  }

  /// The metadata change for an instance: its own metadata if it has the property, and otherwise the metadata is kept.
  var own: MetadataChange {
    guard Format.readsMetadata, let path = Format.metadataPath else { return .keep }
    return .own(path)
  }

  private func write(
    _ instance: Format.Instance, _ metadata: MetadataChange, _ key: [UInt8], _ info: CollectionInfo,
    over old: PresentRow?, _ tx: WriteTransaction
  ) throws {
    switch metadata {
    case .keep:
      if let old {
        try tx.replaceObject(instance, key, info, over: old)
      } else {
        try tx.set(instance, key, info, over: nil)
      }
    case .set(let metadata):
      try tx.set(instance, metadata, key, info, over: old)
    case .own(let path):
      #if DEBUG
        // The property has that name in `Persistable` types; in formats it may have any name.
        if Format.adoptsDefinitions, instance[keyPath: path] != nil {
          try FieldProbe.check(instance, collection: name)
        }
      #endif
      try tx.set(instance, metadataAt: path, key, info, over: old)
    }
  }

  /// Returns an existing row. Throws `.notFound`.
  private func existing(_ id: Format.Identifier, _ tx: WriteTransaction) throws -> (CollectionInfo, StoredRow) {
    guard let info = try collection(tx), let row = try row(try key(id, info), info, tx) else { throw notFound(id) }
    return (info, row)
  }

  private func notFound(_ id: Format.Identifier) -> DatabaseError {
    let key = (try? id.encoded()).map { KeyText.text(of: $0) } ?? "\(id)"
    return DatabaseError(.notFound, "the row does not exist", collection: name, key: key)
  }

  // MARK: - Removing

  /// Removes an existing row, and returns its instance. Throws `.notFound`.
  func delete(_ id: Format.Identifier, _ tx: WriteTransaction) throws -> Format.Instance {
    let (info, row) = try existing(id, tx)
    let previous = try required(row, tx, instead: "deleteIfPresent")
    _ = try tx.remove([row.key], info)
    return previous
  }

  /// Removes a row, and returns its instance, or nil if there was none or it cannot be decoded.
  func deleteIfPresent(_ id: Format.Identifier, _ tx: WriteTransaction) throws -> Format.Instance? {
    guard let info = try collection(tx), let row = try row(try key(id, info), info, tx) else { return nil }
    let previous = try decodable(row, tx)
    _ = try tx.remove([row.key], info)
    return previous
  }

  /// Removes the existing rows among several, without decoding them, and returns their number.
  func delete(ids: some Sequence<Format.Identifier>, _ tx: WriteTransaction) throws -> Int {
    guard let info = try collection(tx) else { return 0 }
    let keys = try ids.map { try key($0, info) }
    return try tx.savepoint { try tx.remove(keys, info) }
  }

  func delete(_ range: ScanRange, _ tx: WriteTransaction) throws -> Int {
    guard let info = try collection(tx) else { return 0 }
    let range = try range.storage(info, core.limits.keySize)
    return try tx.savepoint { try tx.remove(range, info) }
  }

  func deleteAll(_ tx: WriteTransaction) throws -> Int {
    guard try collection(tx) != nil else { return 0 }
    return try tx.savepoint { try tx.removeAll(in: name) }
  }
}

extension RowAccess where Format: StoreFormat {
  /// Throws `.invalidArgument` if an instance has another identifier.
  func requireIdentifier(of instance: Format.Instance, _ id: Format.Identifier) throws {
    guard Format.identifier(of: instance) == id else {
      throw DatabaseError(
        .invalidArgument, "modify would give the instance another identifier; delete it, and persist the other",
        collection: name, key: "\(id)")
    }
  }
}
