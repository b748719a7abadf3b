/// The indexes of a collection, according to its definition.
protocol IndexSpecification: Sendable {
  associatedtype Instance: Codable & Sendable
  /// The indexes, in the order of their names.
  var indexes: [CheckedIndex<Instance>] { get }
  /// The version of the format on which the values depend, or `nil` if there is none.
  var formatVersion: String? { get }
  /// The versions whose values are the same as those of the current one, as the catalog may have them; "" stands for no
  /// version. It is empty if another version makes the rows be reviewed.
  var survivingVersions: [String] { get }
  /// Makes the stand-in for a row that can't be decoded, or is nil if there are none.
  var standIn: (@Sendable (UndecodableRow) -> Instance?)? { get }
}

extension IndexSpecification {
  var isEmpty: Bool { indexes.isEmpty }
  var standIn: (@Sendable (UndecodableRow) -> Instance?)? { nil }
}

/// The indexes of a format, as a collection's indexing.
struct FormatIndexSpecification<Format: StoreFormat>: IndexSpecification {
  let indexes: [CheckedIndex<Format.Instance>]
  var formatVersion: String? {
    FormatVersions<Format>.isVersioned ? Format.currentVersion.rawValue.description : nil
  }
  var survivingVersions: [String] { Format.indexesSurvive ? FormatVersions<Format>.names + [""] : [] }
  var standIn: (@Sendable (UndecodableRow) -> Format.Instance?)? { Format.undecodable.standIn }

  /// Creates the indexing of a format. Throws `.invalidDefinition`.
  init(_ format: Format.Type) throws { indexes = try DeclaredIndexes<Format>.found().list }
}
