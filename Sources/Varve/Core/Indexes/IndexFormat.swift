/// How the catalog and the families name the indexes of a collection, for tools that have none of its types.
///
/// The bytes are documented at `CollectionIndexes`; the entries are made by `IndexEntry`, and what rows have emitted is read
/// by `EmittedValues`.
package enum IndexFormat {
  /// The kind of the extension.
  package static let kind = "varve.indexes"
  /// The part that has for each row what it has in all indexes.
  package static let emittedPart = "emitted"
  /// The part that has what `IndexCollisions` says of unique indexes.
  package static let collisionsPart = "collisions"
  private static let entriesPrefix = "i."

  /// The part that has the entries of an index.
  static func partName(of index: String) -> String { entriesPrefix + index }

  /// The name of the index whose entries a part has; nil for a part that is for all indexes.
  package static func index(ofPart name: String) -> String? {
    name.utf8.starts(with: entriesPrefix.utf8) ? String(name.dropFirst(entriesPrefix.count)) : nil
  }

  /// The collection whose indexes an extension with this record keeps; nil where it is of another kind or of no single
  /// collection.
  package static func collection(of record: ExtensionRecord) -> String? {
    guard record.kind == kind, case .only(let names) = CollectionScope(recordText: record.scope) else { return nil }
    return names.count == 1 ? names.first : nil
  }

  /// A name of an index as it is on disk: in normal form C.
  package static func composed(_ name: String) -> String { Name.composed(name) }

  /// What an index is called in the emitted values of rows: a hash of the name (FNV-1a of 64 bits, its halves combined). On
  /// disk: never change.
  package static func number(of index: String) -> UInt32 {
    let hash = FNV1a.hash(index)
    return UInt32(truncatingIfNeeded: hash ^ (hash >> 32))
  }

  /// What an index with a definition is called in the part `collisions`.
  package static func collisionsKey(of index: String, definition: String) -> [UInt8] {
    BigEndian.bytes(number(of: index)) + BigEndian.bytes(FNV1a.hash(definition))
  }

  // MARK: - Definitions

  /// What the version of an index's part says of it: `IndexDeclaration.definition`.
  package struct Definition: Hashable, Sendable {
    /// `index`, `oneToOne`, `manyToOne`, `manyToMany`.
    package let kind: String
    /// The name of the type of its values.
    package let keyType: String
    package let isDirect: Bool
    package let isUnique: Bool

    /// Nil where the text is not a definition.
    package init?(_ text: String) {
      let fields = text.split(separator: "|", omittingEmptySubsequences: false)
      // The name of a program's own type of keys may have any signs.
      guard let direct = fields.indices.dropFirst(2).first(where: { fields[$0] == "true" || fields[$0] == "false" })
      else { return nil }
      kind = String(fields[0])
      keyType = fields[1..<direct].joined(separator: "|")
      isDirect = fields[direct] == "true"
      isUnique = IndexKind(rawValue: kind)?.isUnique ?? false
    }
  }
}
