/// From the number of a row back to the row: for extensions that keep numbers, which are short and never change their
/// place in an order, and have to come back to rows.
///
/// It is an extension itself, so that it is built, kept with each commit, undone with savepoints, and dropped, as any
/// other. The database registers it with the first extension that asks (`ExtensionConfiguration.asksRowsByID`) and drops
/// it with the last: a database without such an extension has no map. It has the rows of all collections: one that was built
/// again for more of them, when another extension asks, would fail those that ask already.
///
/// # Format of its part `rows`
/// ```
///  key     8 bytes   number of the row, big-endian
///  value   4 bytes   id of the collection, big-endian
///          n bytes   key of the row
/// ```
/// On disk: never change. A number is given once, and a row keeps its own through updates: an entry is put when the row
/// is inserted, and deleted with it.
struct RowIDMap: DatabaseExtension {
  /// Names that begin so are the database's own.
  static let reservedPrefix = "varve."
  static let name = reservedPrefix + "rowIDs"
  static func isReserved(_ name: String) -> Bool { name.hasPrefix(reservedPrefix) }

  static let kind = "varve.rowIDs"
  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.hears = [.inserts, .removals]
    configuration.delivery = .immediate
    configuration.isConcurrent = true
    configuration.parts = [PartDefinition("rows")]
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> RowIDMapTransaction {
    try RowIDMapTransaction(context)
  }
}

final class RowIDMapTransaction: ExtensionTransaction {
  typealias Definition = RowIDMap
  private let context: ExtensionContext<RowIDMap>
  private let rows: Part

  init(_ context: ExtensionContext<RowIDMap>) throws {
    self.context = context
    rows = try context.part("rows")
  }

  func didChange(_ change: borrowing RowChange) throws {
    let number = BigEndian.bytes(change.id.number)
    if change.event == .removed { return try rows.delete(number) }
    try rows.put(number, BigEndian.bytes(change.collectionNumber) + change.key.bytes)
  }

  func removesAll(in collection: String?) throws -> Bool {
    // The rows of one collection are all over the part.
    guard collection == nil else { return false }
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
