/// The names of a collection's indexes in the catalog and in families, for tools that have none of the collection's
/// types.
///
/// The byte formats are documented in `IndexExtension`. Entries are made by `IndexEntry`, and emitted values of rows
/// are read by `EmittedValues`.
package enum IndexFormat {
  /// The kind of the extension.
  package static let kind = "varve.indexes"
  /// The name of the part with the values that each row has in all indexes.
  package static let emittedPart = "emitted"
  /// The name of the part with the data of `IndexCollisions` about unique indexes.
  package static let collisionsPart = "collisions"
  private static let entriesPrefix = "i."

  /// The end of the names of parts that have the counts of others, which no index may have.
  static let countsSuffix = RunFormat.partName(of: "")

  /// Returns the name of the part with the entries of an index.
  static func partName(of index: String) -> String { entriesPrefix + index }

  /// Returns the name of the index whose entries are in a part, or `nil` for a part that is shared by all indexes.
  package static func index(ofPart name: String) -> String? {
    if name.hasSuffix(countsSuffix) { return nil }
    return name.utf8.starts(with: entriesPrefix.utf8) ? String(name.dropFirst(entriesPrefix.count)) : nil
  }

  /// Returns the collection whose indexes an extension with this record keeps, or `nil` if it is of another kind or
  /// does not belong to exactly one collection.
  package static func collection(of record: ExtensionRecord) -> String? {
    guard record.kind == kind, case .only(let names) = CollectionScope(recordText: record.scope) else { return nil }
    return names.count == 1 ? names.first : nil
  }

  /// Returns the name of an index as it is on disk: in normalization form C.
  package static func composed(_ name: String) -> String { Name.composed(name) }

  /// Returns the number that identifies an index in the emitted values of rows: a hash of the name (64-bit FNV-1a, its
  /// halves combined). It is on disk and must never change.
  package static func number(of index: String) -> UInt32 {
    let hash = FNV1a.hash(index)
    return UInt32(truncatingIfNeeded: hash ^ (hash >> 32))
  }

  /// Returns the key of an index with a definition in the part `collisions`.
  package static func collisionsKey(of index: String, definition: String) -> [UInt8] {
    BigEndian.bytes(number(of: index)) + BigEndian.bytes(FNV1a.hash(definition))
  }

  // MARK: - Definitions

  /// The definition of an index as the version of its part describes it: `IndexDeclaration.definition`.
  package struct Definition: Hashable, Sendable {
    /// The kind: `index`, `oneToOne`, `manyToOne` or `manyToMany`.
    package let kind: String
    /// The name of the type of the index's values.
    package let keyType: String
    package let isDirect: Bool
    package let isUnique: Bool

    /// Parses a definition. Returns `nil` if the text is not one.
    package init?(_ text: String) {
      let fields = text.split(separator: "|", omittingEmptySubsequences: false)
      // The name of a program's own key type may contain any characters.
      guard let direct = fields.indices.dropFirst(2).first(where: { fields[$0] == "true" || fields[$0] == "false" })
      else { return nil }
      kind = String(fields[0])
      keyType = fields[1..<direct].joined(separator: "|")
      isDirect = fields[direct] == "true"
      isUnique = IndexKind(rawValue: kind)?.isUnique ?? false
    }
  }
}
