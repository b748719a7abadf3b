/// A map from the number of a row to its key, for extensions that keep row numbers, which are short and never change
/// their order, and that have to find the rows again.
///
/// The map is itself an extension, so that it is built, updated with each commit, undone with savepoints, and dropped
/// like any other. The database registers it with the first extension that needs it
/// (`ExtensionConfiguration.asksRowsByID`) and drops it with the last: a database without such an extension has no map,
/// and rows of collections for which no extension needs it cost nothing. Extensions of the same scope share a map, and
/// those of another scope have their own: a single map for all would have to be built again for more collections
/// whenever another extension needs it, and would not be ready meanwhile for those that already use it.
///
/// # Format of its part `rows`
/// ```
///  key     8 bytes   number of the row, big-endian
///  value   4 bytes   id of the collection, big-endian
///          n bytes   key of the row
/// ```
/// The format is on disk and must never change. A number is given once, and a row keeps its number through updates: an
/// entry is put when the row is inserted, and deleted when the row is removed.
struct RowIDMap: ReservedExtension {
  private static let namePrefix = ReservedName.prefix + "rowIDs."
  /// Returns whether an extension of this name is such a map.
  static func isMap(_ name: String) -> Bool { name.hasPrefix(namePrefix) }

  /// The scope of the extensions that use the map.
  let scope: CollectionScope

  /// Returns the name of the map for a scope. It contains a hash of the scope (64-bit FNV-1a), because names of
  /// collections may contain characters that names of extensions may not. The name is on disk and must never change.
  static func name(for scope: CollectionScope) -> String {
    "\(namePrefix)\(String(FNV1a.hash(scope.recordText), radix: 16))"
  }

  static let kind = "varve.rowIDs"
  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = scope
    configuration.events = [.inserts, .removals]
    configuration.delivery = .immediate
    configuration.isConcurrent = true
    configuration.parts = [PartDefinition("rows")]
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> RowIDMapTransaction {
    try RowIDMapTransaction(scope, context)
  }
}

final class RowIDMapTransaction: ExtensionTransaction {
  typealias Definition = RowIDMap
  private let scope: CollectionScope
  private let context: ExtensionContext<RowIDMap>
  private let rows: Part

  init(_ scope: CollectionScope, _ context: ExtensionContext<RowIDMap>) throws {
    self.scope = scope
    self.context = context
    rows = try context.part("rows")
  }

  func didChange(_ change: borrowing RowChange) throws {
    let number = BigEndian.bytes(change.id.number)
    if change.event == .removed { return try rows.delete(number) }
    try rows.put(number, BigEndian.bytes(change.collectionNumber) + change.key.bytes)
  }

  func removesAll(in collection: String?) throws -> Bool {
    // The rows of one collection are spread over the whole part, unless the scope has only that collection.
    if let collection, scope != .only([collection]) { return false }
    try rows.deleteRange(StorageRange())
    return true
  }

  func key(of id: RowID) throws -> RowKey? {
    guard let value = try rows.get(BigEndian.bytes(id.number)) else { return nil }
    guard let number = BigEndian.number(value, as: UInt32.self),
      let name = try context.transaction.database.catalog.name(of: number)
    else {
      throw DatabaseError(.corruption, "the map from the numbers of rows to rows is damaged at number \(id)")
    }
    return RowKey(collection: name, bytes: Array(value.dropFirst(4)))
  }
}
