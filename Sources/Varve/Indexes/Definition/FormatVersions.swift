/// The versions of a format, as they are named in rows and in the catalog.
enum FormatVersions<Format: RowFormat> {
  /// Whether rows contain the version that wrote them.
  static var isVersioned: Bool { Format.Version.self != SingleVersion.self }

  /// The raw values as text, in the order of their declaration. It is empty for a format with one version.
  static var names: [String] { isVersioned ? Format.Version.allCases.map(\.rawValue.description) : [] }

  /// Throws `.invalidDefinition` if the versions are inconsistent.
  static func check(_ collection: String) throws {
    func require(_ condition: Bool, _ message: String) throws {
      if !condition { throw DatabaseError(.invalidDefinition, "\(Format.self): \(message)", collection: collection) }
    }
    try require(!collection.isEmpty, "the name of its collection is empty")
    let versions = Array(Format.Version.allCases)
    try require(versions.contains(Format.currentVersion), "its current version is not among its versions")
    try require(
      Set(versions.map(\.rawValue.description)).count == versions.count, "two of its versions have one raw value")
    if let table = Format.self as? any DecoderTableFormat.Type { try table.checkDecoders() }
  }

  /// Returns the version of a row, by its number in the catalog. Throws `.unsupportedVersion`.
  @inline(__always)
  static func version(_ number: UInt32, _ info: CollectionInfo) throws -> Format.Version {
    if number == 0, let only { return only }
    if number != 0, number == info.versions.current { return Format.currentVersion }
    return try version(named: try info.versionName(number))
  }

  /// The version of a format with a single version, whose rows contain none.
  @inline(__always)
  private static var only: Format.Version? {
    guard Format.Version.self == SingleVersion.self else { return nil }
    // Safety: both are the same type.
    return unsafe unsafeBitCast(SingleVersion.only, to: Format.Version.self)
  }

  /// Returns the version with a raw value; `nil` stands for a row that no versioned format wrote.
  static func version(named name: String?) throws -> Format.Version {
    let versions = Format.Version.allCases
    guard let name else {
      if let first = versions.first { return first }
      throw DatabaseError(.invalidDefinition, "\(Format.self) has no versions")
    }
    if isVersioned, let version = versions.first(where: { $0.rawValue.description == name }) { return version }
    throw DatabaseError(.unsupportedVersion, CollectionInfo.unknownVersion(name, known: names))
  }

  /// The function that decodes the instances of rows.
  static var decoder: @Sendable (StoredValue, _ version: String?) throws -> Format.Instance {
    { stored, name in
      if name == nil, let only { return try Format.decode(stored, version: only) }
      return try Format.decode(stored, version: try version(named: name))
    }
  }

  /// Returns whether one version was declared before another.
  static func isOlder(_ version: Format.Version, than other: Format.Version) -> Bool {
    // The version that is found first was declared first.
    Format.Version.allCases.first { $0 == version || $0 == other } == version && version != other
  }
}
