internal import Varve

extension DatabaseInspector {
  /// Returns the definitions of a collection's indexes as the catalog has them, by index name.
  ///
  /// The entries of an index are usable only if its definition equals the one in the catalog. The result is empty if
  /// the collection has no indexes. Throws `.corruption` for a damaged record, and `.unsupportedVersion`.
  package func indexDefinitions(of collection: String) throws -> [String: String] {
    let name = IndexesName.name(for: collection)
    guard let bytes = try snapshot.value(of: CatalogKey.databaseExtension(name), in: catalog) else { return [:] }
    var found: [String: String] = [:]
    for part in try ExtensionRecord(bytes, name: name).contentParts {
      if let index = IndexFormat.index(ofPart: part.name) { found[index] = part.version }
    }
    return found
  }
}
