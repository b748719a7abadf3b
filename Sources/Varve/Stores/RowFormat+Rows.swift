/// The requirements of a typed API for its rows. All members are static, so that ``RowAccess`` needs no closures.
extension RowFormat {
  /// The id of the definition that this format creates.
  static var formatID: ObjectIdentifier { ObjectIdentifier(Self.self) }
  /// Whether the format specifies neither versions nor coders, and so works with any definition of the same types.
  static var adoptsDefinitions: Bool { Self.self is any AdoptingFormat.Type }
  /// Whether the metadata of a row is read with it.
  static var readsMetadata: Bool { metadataPath != nil && Metadata.self != Never.self }

  /// Returns the definition of a collection that has none yet. `found` is the collection's entry in the catalog.
  static func definition(
    _ name: String, _ found: CollectionInfo?, _ options: DatabaseOptions
  ) throws -> CollectionDefinition {
    guard let adopting = Self.self as? any AdoptingFormat.Type else {
      return try CollectionDefinition(Self.self, collection: name)
    }
    let storage: CollectionStorage = found?.record.isOwn == true ? .own() : .shared
    let coder = found?.coder ?? adopting.firstCoder ?? options.coder
    return try CollectionDefinition(Self.self, name: name, coder: coder, formerCoders: [], storage: storage)
  }

  /// Decodes the instance of a row of a collection that this format has defined.
  static func decode(_ stored: StoredValue, version: UInt32, _ info: CollectionInfo) throws -> Instance {
    try decode(stored, version: try FormatVersions<Self>.version(version, info))
  }
}
