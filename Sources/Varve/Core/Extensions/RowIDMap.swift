/// From the number of a row back to the row: for extensions that keep numbers, which are short and never change their
/// place in an order, and have to come back to rows.
///
/// It is an extension itself, so that it is built, kept with each commit, undone with savepoints, and dropped, as any
/// other. The database registers it with the first extension that asks (`DatabaseExtension.findsRowsByID`) and drops it
/// with the last, so that a database where nobody asks has nothing of it.
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
  let versionTag = "1"
  let isConcurrent = true
  func makeTransaction(_ context: ExtensionContext) -> RowIDMapTransaction { RowIDMapTransaction(context) }
}

final class RowIDMapTransaction: ExtensionTransaction {
  typealias Definition = RowIDMap
  private static let part = "rows"
  private let context: ExtensionContext

  init(_ context: ExtensionContext) { self.context = context }

  func didInsert(_ row: Row) throws {
    let collection = BigEndian.bytes(row.info.record.id)
    try context.put(Self.part, BigEndian.bytes(row.id.number), collection + row.key.bytes)
  }

  func didRemove(_ key: RowKey, id: RowID) throws { try context.delete(Self.part, BigEndian.bytes(id.number)) }

  func didRemoveAll() throws { try context.deleteRange(Self.part, StorageRange()) }

  func key(of id: RowID) throws -> RowKey? {
    guard let value = try context.get(Self.part, BigEndian.bytes(id.number)) else { return nil }
    guard let number = BigEndian.number(value, as: UInt32.self),
      let name = try context.transaction.database.catalog.name(of: number)
    else {
      throw DatabaseError(.corruption, "the map from the numbers of rows to rows is damaged at number \(id)")
    }
    return RowKey(collection: name, bytes: Array(value.dropFirst(4)))
  }
}

extension ExtensionContext {
  /// Which row has a number; nil where there is none, or not any more. Throws `.invalidArgument` for an extension that
  /// does not say that it asks (`DatabaseExtension.findsRowsByID`). Complexity: one lookup.
  public func key(of id: RowID) throws -> RowKey? {
    guard findsRowsByID else {
      throw DatabaseError(
        .invalidArgument, "extension \"\(name)\" asks for rows by number, and its definition does not say so")
    }
    return try transaction[Registered<RowIDMap>(name: RowIDMap.name)].key(of: id)
  }
}

extension ExtensionList {
  /// Whether an extension asks for rows by number.
  var findsRowsByID: Bool { ordered.contains { $0.traits.findsRowsByID } }

  /// Whether an extension that may look into rows hears of a collection.
  func isRead(_ collection: String) -> Bool {
    ordered.contains { $0.name != RowIDMap.name && $0.traits.scope.contains(collection) }
  }
}
