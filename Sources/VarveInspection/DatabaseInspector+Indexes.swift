internal import Varve

extension DatabaseInspector {
  /// The definitions of the indexes that the catalog has for a collection, by their names: what must be the same for their
  /// entries to be of use. Empty where it has none. Throws `.corruption` for a record that is damaged, and
  /// `.unsupportedVersion`.
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
