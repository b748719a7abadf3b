/// A change of one row, as a hook receives it: a view of the write path's state, which can't be kept.
///
/// A hook that reads only the event and the key allocates nothing. `row` and `old` are made when they are first asked
/// for, once for all hooks. They are the row after and before this change, whatever the transaction changed later; the
/// transaction itself reads the current row.
public struct RowChange: ~Copyable {
  /// The kind of change of a row.
  public enum Event: UInt8, Hashable, Sendable {
    /// The row was set, and did not exist before.
    case inserted
    /// The row was set, and existed before.
    case updated
    /// The row's object was replaced; its metadata stayed.
    case objectReplaced
    /// The row's metadata was replaced; its object stayed.
    case metadataReplaced
    /// The row's object was touched.
    case objectTouched
    /// The row's metadata was touched.
    case metadataTouched
    /// The row's object and metadata were touched.
    case rowTouched
    /// The row was removed.
    case removed
  }

  let facts: ChangeFacts
  let transaction: WriteTransaction
  /// The parts of the extension for which the change counts, while some of them are being built.
  ///
  /// What the hook writes to other parts is discarded, so an extension that ignores this property is correct, unless it
  /// decides by the content of one part what it writes to another: such parts must change their versions together.
  public internal(set) var parts = PartSet.all
  var canReadOld = false

  init(_ facts: ChangeFacts, in transaction: WriteTransaction) {
    self.facts = facts
    self.transaction = transaction
  }

  /// The kind of change.
  public var event: Event { facts.event }
  /// The key of the row.
  public var key: RowKey { facts.rowKey }
  /// The number of the row.
  public var id: RowID { facts.id }
  /// The name of the row's collection.
  public var collection: String { facts.info.name }
  /// The number of the row's collection, which is never given twice in a database.
  public var collectionNumber: UInt32 { facts.info.record.id }

  /// The row as this change left it, or `nil` if it was removed.
  public var row: Row? {
    get throws { try facts.row(in: transaction) }
  }

  /// The type of the collection's objects, or `nil` if the program has not defined the collection.
  @_spi(Extensions) public var objectType: (any (Codable & Sendable).Type)? { facts.info.definition?.codec.type }

  /// The object that the program has set, or `nil` if it has set bytes, and in builds. Nothing is decoded.
  @_spi(Extensions) public var givenObject: Any? { facts.givenObject }

  /// Returns the result of `body` for the object as this change left it, or `nil` if the row was removed.
  ///
  /// An object that the program has set is passed as it is; otherwise the object is decoded, which may throw
  /// `.decodingFailed`. No `Row` is made.
  public func withObject<Object: Decodable, Result>(
    as type: Object.Type, _ body: (Object) throws -> Result
  ) throws -> Result? {
    try facts.withObject(as: type, in: transaction) { address in try body(address.instance(as: type)) }
  }

  /// The row's bytes in the collection's family, or empty if the row was removed.
  var storedRow: [UInt8] { facts.bytes }

  /// The row's bytes in the collection's family, or `nil` if the row was removed.
  var newRow: [UInt8]? { event == .removed ? nil : facts.bytes }

  /// The row as this change found it, or `nil` if it was inserted. Throws `.invalidArgument` for an extension whose
  /// configuration does not include `Needs.oldRows`.
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
  /// Whether the event may have changed the object.
  var concernsObject: Bool { self != .metadataReplaced && self != .metadataTouched && self != .removed }
  /// Whether the event may have changed the metadata.
  var concernsMetadata: Bool { self != .objectReplaced && self != .objectTouched && self != .removed }

  /// The events of a configuration to which this event belongs.
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

extension RowState {
  /// Creates the state of a row by a change. `before` is its state by earlier changes of the transaction, if any.
  init(_ change: RowChange.Event, before: RowState?) {
    // A row that the transaction has inserted and removed is new again when it is set once more.
    let inserted: UInt8 = before.map { $0.isInserted } ?? (change == .inserted) ? 1 : 0
    guard change != .removed else {
      bits = inserted | 2
      return
    }
    // If the row was removed before, no earlier change counts.
    let kept = before.map { $0.isRemoved ? 0 : $0.bits & 12 } ?? 0
    bits = inserted | kept | (change.concernsObject ? 4 : 0) | (change.concernsMetadata ? 8 : 0)
  }
}
