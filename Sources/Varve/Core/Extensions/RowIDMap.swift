/// From the number of a row back to the row: for extensions that keep numbers, which are short and never change their
/// position in an order, and have to come back to rows.
///
/// It is an extension itself, so that it is built, kept with each commit, undone with savepoints, and dropped, as any
/// other. The database registers it with the first extension that asks (`ExtensionConfiguration.asksRowsByID`) and drops
/// it with the last: a database without such an extension has no map, and rows of collections of which no extension asks
/// cost nothing. Extensions of one scope share a map, and those of another have their own: one map of all would have to
/// be built again for more collections when another extension asks, and would fail those that ask already.
///
/// # Format of its part `rows`
/// ```
///  key     8 bytes   number of the row, big-endian
///  value   4 bytes   id of the collection, big-endian
///          n bytes   key of the row
/// ```
/// On disk: never change. A number is given once, and a row keeps its own through updates: an entry is put when the row
/// is inserted, and deleted with it.
struct RowIDMap: ReservedExtension {
  private static let namePrefix = ReservedName.prefix + "rowIDs."
  /// Whether an extension of this name is such a map.
  static func isMap(_ name: String) -> Bool { name.hasPrefix(namePrefix) }

  /// The collections of the extensions that ask.
  let scope: CollectionScope

  /// The name of the map for a scope: with a hash of it (FNV-1a of 64 bits), because names of collections may have signs
  /// that names of extensions have not. On disk: never change.
  static func name(for scope: CollectionScope) -> String {
    "\(namePrefix)\(String(FNV1a.hash(scope.recordText), radix: 16))"
  }

  static let kind = "varve.rowIDs"
  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = scope
    configuration.hears = [.inserts, .removals]
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
    // The rows of one collection are all over the part, unless it has no others.
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
