internal import Varve

/// An extension, as described in the catalog.
public struct InspectedExtension: Sendable {
  /// The name that it is registered by.
  public let name: String
  /// The kind of extension.
  public let kind: String
  /// Its parts, and their versions. The parts that have the counts of others are not among them.
  public let parts: [(name: String, version: String)]
  /// Whether it has all rows.
  public let isReady: Bool
}

extension DatabaseInspector {
  /// Returns the extensions in the catalog in the order of their names, without those that the database registers
  /// itself.
  ///
  /// The error of a damaged record is passed to `fault`, which may throw to stop.
  public func extensions(fault: (any Error) throws -> Void) throws -> [InspectedExtension] {
    var found: [InspectedExtension] = []
    var entries = FamilyCursor(
      StorageRange(prefix: CatalogKey.databaseExtension("")), in: catalog, of: snapshot, isReverse: false)
    while let (key, value) = try entries.next() {
      let name = String(decoding: key.dropFirst(CatalogKey.databaseExtension("").count), as: UTF8.self)
      if name.hasPrefix("varve.") { continue }
      do {
        let record = try ExtensionRecord(value, name: name)
        found.append(
          InspectedExtension(
            name: name, kind: record.kind, parts: record.contentParts.map { ($0.name, $0.version) },
            isReady: record.state == .ready))
      } catch {
        try fault(error)
      }
    }
    return found
  }
}
