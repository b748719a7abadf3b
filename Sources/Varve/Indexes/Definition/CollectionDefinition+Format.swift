extension CollectionDefinition {
  /// Creates the definition of a format's collection, for example to add rules:
  ///
  /// ```swift
  /// let database = try Database.open(at: path) {
  ///   try CollectionDefinition(BookFormat.self)
  ///     .sanitized(before: { (book: Book) in book.title.isEmpty ? nil : book })
  /// }
  /// ```
  ///
  /// Throws `.invalidDefinition` if the format is inconsistent.
  public init<Format: StoreFormat>(_ format: Format.Type) throws {
    try self.init(format, collection: Format.collection)
  }

  /// Creates the definition of a format's collection under another name than the format's own, or of a format without a
  /// name. Throws `.invalidDefinition` if the format is inconsistent.
  public init<Format: RowFormat>(_ format: Format.Type, collection: String) throws {
    try self.init(
      format, name: collection, coder: Format.coder, formerCoders: Format.formerCoders, storage: Format.storage)
  }

  init<Format: RowFormat>(
    _ format: Format.Type, name: String, coder: CoderKind, formerCoders: [CoderKind], storage: CollectionStorage
  ) throws {
    try FormatVersions<Format>.check(name)
    var codec = ObjectCodec(Format.Instance.self)
    codec.formatID = ObjectIdentifier(format)
    codec.metadataType = Format.Metadata.self
    codec.decodeMetadata = { stored, version in
      try Format.decodeMetadata(stored, version: try FormatVersions<Format>.version(named: version))
    }
    if FormatVersions<Format>.isVersioned {
      codec.versions = FormatVersions<Format>.names
      codec.currentVersion = Format.currentVersion.rawValue.description
    }
    // It can't be determined whether a format has a `decode` of its own, so only formats that are known to have none
    // are plain.
    codec.isPlain = format is any AdoptingFormat.Type
    codec.setDecoder(FormatVersions<Format>.decoder)
    self.init(
      RowDefinition(
        name: name, key: Format.Identifier.self, coder: coder, formerCoders: formerCoders, storage: storage,
        codec: codec))
    guard let format = format as? any StoreFormat.Type else { return }
    self.format = format
    rows.formerKeys = format.formerKeys(of: name)
    indexing = try Self.indexing(of: format)
  }

  /// Returns the indexes of a format. A format that adopts another type has none.
  private static func indexing<Format: StoreFormat>(of format: Format.Type) throws -> (any IndexSpecification)? {
    format is any AdoptingFormat.Type ? nil : try FormatIndexSpecification(format)
  }
}
