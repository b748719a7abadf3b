/// A change of one row, as a hook receives it: a view of what the write path has in hand. It can't be kept.
///
/// A hook that reads event and key allocates nothing. `row` and `old` are made when they are first asked for, once for
/// all hooks, and are as this change left and found the row, whatever came later in the transaction; the transaction
/// itself reads what is there now.
public struct RowChange: ~Copyable {
  /// What happened to a row.
  public enum Event: UInt8, Hashable, Sendable {
    /// It was set, and had not been there.
    case inserted
    /// It was set, and had been there.
    case updated
    /// Its object was replaced; its metadata stayed.
    case objectReplaced
    /// Its metadata was replaced; its object stayed.
    case metadataReplaced
    /// Its object was touched.
    case objectTouched
    /// Its metadata was touched.
    case metadataTouched
    /// Both were touched.
    case rowTouched
    /// It was removed.
    case removed
  }

  let facts: ChangeFacts
  let transaction: WriteTransaction
  /// For which parts of the extension it counts, while some of them are built. What the hook writes to others goes
  /// nowhere, so an extension that does not look at this is right, unless it decides by what one part holds what it writes
  /// to another: such parts change their versions together.
  public internal(set) var parts = PartSet.all
  var canReadOld = false

  init(_ facts: ChangeFacts, in transaction: WriteTransaction) {
    self.facts = facts
    self.transaction = transaction
  }

  /// What happened.
  public var event: Event { facts.event }
  /// Which row it is.
  public var key: RowKey { facts.rowKey }
  /// The number of the row.
  public var id: RowID { facts.id }
  /// The name of its collection.
  public var collection: String { facts.info.name }
  /// The number of its collection: never given twice in a database.
  public var collectionNumber: UInt32 { facts.info.record.id }

  /// The row as this change left it; nil where it was removed.
  public var row: Row? {
    get throws { try facts.row(in: transaction) }
  }

  /// The type of the collection's objects, where the program has defined the collection.
  public var objectType: (any (Codable & Sendable).Type)? { facts.info.definition?.codec.type }

  /// The object, where the program has set it as one; nil where it has set bytes, and in builds. Nothing is decoded.
  public var givenObject: Any? { facts.givenObject }

  /// What `body` makes of the object as this change left it; nil where the row was removed. An object that the program has
  /// set is given as it is; another one is decoded, which may throw `.decodingFailed`. No `Row` is made.
  public func withObject<Object: Decodable, Result>(
    as type: Object.Type, _ body: (Object) throws -> Result
  ) throws -> Result? {
    try facts.withObject(as: type, in: transaction) { address in try body(address.instance(as: type)) }
  }

  /// The row as it stands in the collection's family; empty where it was removed.
  var storedRow: [UInt8] { facts.bytes }

  /// The same; nil where it was removed.
  var newRow: [UInt8]? { event == .removed ? nil : facts.bytes }

  /// The row as this change found it; nil where it was inserted. Throws `.invalidArgument` for an extension that does
  /// not say that it needs it (`Needs.oldRows`).
  public var old: Row? {
    get throws {
      guard canReadOld else {
        throw DatabaseError(
          .invalidArgument, "a hook reads the row as the change found it, and its configuration does not need .oldRows")
      }
      return try facts.oldRow(in: transaction)
    }
  }
}

extension RowChange.Event {
  /// Whether the object may be another.
  var concernsObject: Bool { self != .metadataReplaced && self != .metadataTouched && self != .removed }
  /// Whether the metadata may be another.
  var concernsMetadata: Bool { self != .objectReplaced && self != .objectTouched && self != .removed }

  /// The events of a configuration that it belongs to.
  var kind: RowEvents {
    switch self {
    case .inserted: .inserts
    case .updated, .objectReplaced: .updates
    case .metadataReplaced: .metadata
    case .removed: .removals
    case .objectTouched, .metadataTouched, .rowTouched: .touches
    }
  }
}
