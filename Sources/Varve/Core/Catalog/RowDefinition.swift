/// The definition of a collection's rows: a `CollectionDefinition` without its indexes. It is all that the catalog and
/// transactions know of the program's definition.
struct RowDefinition: Sendable {
  let name: String
  let coder: CoderKind
  let formerCoders: [CoderKind]
  var formerKeys: [String] = []
  let storage: CollectionStorage
  /// Whether the definition was made by the first use of a type that declares only a collection. A format may replace
  /// it.
  var isProvisional = false
  let keyTypeID: ObjectIdentifier
  let keyTypeName: String
  var codec: ObjectCodec

  init<Key: KeyCodable>(
    name: String, key: Key.Type, coder: CoderKind, formerCoders: [CoderKind], storage: CollectionStorage,
    codec: ObjectCodec
  ) {
    self.name = name
    self.coder = coder
    self.formerCoders = formerCoders
    self.storage = storage
    self.codec = codec
    keyTypeID = ObjectIdentifier(key)
    keyTypeName = key.keyType.description
  }

  /// Throws `.definitionDiffers`, with the found and the expected value, if the collection was made by another
  /// definition.
  func check(_ record: CollectionRecord, _ coders: CoderTable) throws {
    func differs(_ what: String, _ disk: String, _ here: String) -> DatabaseError {
      DatabaseError(
        .definitionDiffers, "its \(what) is \(disk) on disk and \(here) in the definition", collection: name)
    }
    guard record.keyType == keyTypeName else { throw differs("key type", record.keyType, keyTypeName) }
    try checkCoder(record, coders)
    guard record.isOwn == (storage != .shared) else {
      throw differs("storage", record.isOwn ? "its own" : "shared", storage == .shared ? "shared" : "its own")
    }
  }

  /// Checks the coder. The coder that writes may be another one if the definition contains it among its former coders.
  /// The coder of rows that name none may differ, too; it is checked when these rows are read.
  private func checkCoder(_ record: CollectionRecord, _ coders: CoderTable) throws {
    guard let found = coders.kind(record.writer) else {
      throw DatabaseError(.unsupportedVersion, "its coder has the number \(record.writer)", collection: name)
    }
    if found == coder || formerCoders.contains(found) || (coder.isUnnamed && found.isOwn) { return }
    let remedy =
      found.isUnnamed
      ? "add the type of \"\(coders.name(record.writer))\" to `formerCoders`, so that its rows can be read"
      : "where the coder is to change, add the one on disk to `formerCoders`"
    throw DatabaseError(
      .definitionDiffers,
      "its coder is \(coders.name(record.writer)) on disk and \(coder) in the definition; \(remedy)", collection: name)
  }
}
