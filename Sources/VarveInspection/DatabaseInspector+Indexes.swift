internal import Varve

extension DatabaseInspector {
  /// The definitions of a collection's indexes in the catalog, by name: their entries are usable only if these are
  /// equal. Empty if there are none. Throws `.corruption` for a damaged record, and `.unsupportedVersion`.
  package func indexDefinitions(of collection: String) throws -> [String: String] {
    let name = IndexesName.name(for: collection)
    guard let bytes = try snapshot.value(of: CatalogKey.databaseExtension(name), in: catalog) else { return [:] }
    var found: [String: String] = [:]
    for part in try ExtensionRecord(bytes, name: name).parts {
      if let index = IndexFormat.index(ofPart: part.name) { found[index] = part.version }
    }
    return found
  }
}
