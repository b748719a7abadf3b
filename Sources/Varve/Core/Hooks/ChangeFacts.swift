/// The facts of one change that the write path passes to the hooks that receive it.
///
/// The object remains at the caller's address until a hook asks for it, or until the change has to wait for other
/// hooks.
final class ChangeFacts {
  private struct Facts {
    var event = RowChange.Event.inserted
    let info: CollectionInfo
    /// The row's key in the collection's families.
    var key: [UInt8] = []
    var id = RowID(0)
    /// The index of the change in the transaction.
    var number: UInt64 = 0
    /// The row's bytes as written, or empty if the row is removed.
    var bytes: [UInt8] = []
    var metadata: EncodedMetadata?
    var object: Any?
    var old: PresentRow?
    var oldMetadata: [UInt8]?
    var wasChanged = false
    /// The values below are made from the facts when a hook first asks for them.
    var rowKey: RowKey?
    var row: Row?
    var oldRow: Row?
    var source: ObjectSource?
  }

  /// The address of the object in the caller's memory.
  @safe
  private struct ObjectSource {
    let type: any Encodable.Type
    /// Safety: used only while `withObject` runs, by whose argument it is kept alive.
    let pointer: UnsafeRawPointer
  }

  private let state: StatePointer<Facts>

  init(_ info: CollectionInfo) { state = StatePointer(Facts(info: info)) }

  deinit { state.destroy() }

  private var facts: Facts {
    @inline(__always) _read { yield state.pointee }
    @inline(__always) _modify { yield &state.pointee }
  }

  var event: RowChange.Event { facts.event }
  var info: CollectionInfo { facts.info }
  var key: [UInt8] { facts.key }
  var id: RowID { facts.id }
  var number: UInt64 { facts.number }
  var bytes: [UInt8] { facts.bytes }
  /// Whether the transaction has changed the row before. False for a row that is inserted, of which nothing is left.
  var wasChanged: Bool { facts.wasChanged }

  /// Sets the facts of a change that leaves the row as `bytes`. `id` is the row's number.
  @inline(__always)
  func set(
    _ event: RowChange.Event, _ key: [UInt8], _ info: CollectionInfo, id: RowID, number: UInt64, bytes: [UInt8],
    _ metadata: EncodedMetadata?, old: PresentRow?, oldMetadata: [UInt8]?, wasChanged: Bool
  ) {
    facts = Facts(
      event: event, info: info, key: key, id: id, number: number, bytes: bytes, metadata: metadata, old: old,
      oldMetadata: oldMetadata, wasChanged: wasChanged)
  }

  /// Makes the object's address available while `body` runs.
  @inline(__always)
  func withObject<Object: Encodable>(_ object: Object, _ body: () throws -> Void) rethrows {
    try unsafe withUnsafePointer(to: object) { pointer in
      facts.source = unsafe ObjectSource(type: Object.self, pointer: UnsafeRawPointer(pointer))
      defer { facts.source = nil }
      try body()
    }
  }

  /// Sets an object that is known already.
  func setObject(_ object: Any?) { facts.object = object }

  /// Copies the object, because the change will be received after the call that made it has returned.
  func settle() { facts.object = knownObject }

  /// The object, or `nil` if the caller has given none or the row is removed.
  var givenObject: Any? { facts.event == .removed ? nil : knownObject }

  private var knownObject: Any? {
    if let object = facts.object { return object }
    guard let source = facts.source else { return nil }
    return unsafe Self.copy(source.type, source.pointer)
  }

  private static func copy<Object>(_ type: Object.Type, _ pointer: UnsafeRawPointer) -> Any {
    // Safety: `withObject` made the pointer from an object of this type, and is still running.
    unsafe pointer.assumingMemoryBound(to: type).pointee
  }

  // MARK: - For hooks

  var rowKey: RowKey {
    if let key = facts.rowKey { return key }
    let key = facts.info.key(of: facts.key)
    facts.rowKey = key
    return key
  }

  func row(in transaction: WriteTransaction) throws -> Row? {
    if facts.event == .removed { return nil }
    if let row = facts.row { return row }
    let stored: StoredRow
    do {
      stored = try StoredRow(
        key: facts.key, bytes: facts.bytes, info: facts.info, object: knownObject, metadata: facts.metadata?.value,
        metadataBytes: facts.metadata?.bytes)
    } catch let error as DatabaseError {
      throw error.about(rowKey)
    }
    let row = Row(stored, in: transaction)
    facts.row = row
    return row
  }

  /// Returns the result of `body` for the object, or `nil` if the row was removed.
  ///
  /// `body` receives the object at its address and must not keep it. No `Row` is made.
  func withObject<Object: Decodable, Result>(
    as type: Object.Type, in transaction: WriteTransaction, _ body: (InstanceAddress) throws -> Result
  ) throws -> Result? {
    if facts.event == .removed { return nil }
    if let source = facts.source, source.type == Object.self { return try body(unsafe InstanceAddress(source.pointer)) }
    let object =
      try facts.object as? Object ?? transaction.database.coding.object(type, facts.key, facts.bytes, facts.info)
    return try unsafe withUnsafePointer(to: object) { try body(unsafe InstanceAddress(UnsafeRawPointer($0))) }
  }

  func oldRow(in transaction: WriteTransaction) throws -> Row? {
    guard let old = facts.old, !old.bytes.isEmpty else { return nil }
    if let row = facts.oldRow { return row }
    let stored = try transaction.stored(facts.key, old.bytes, facts.info, nil)
    stored.metadataBytes = facts.oldMetadata
    let row = Row(stored, in: transaction)
    facts.oldRow = row
    return row
  }
}

/// A row that exists before a change: its header, and all of its bytes if a hook needs them.
struct PresentRow {
  let header: RowHeader
  var bytes: [UInt8] = []
}

extension PresentRow {
  /// Creates a present row from a row that was read.
  init(_ row: StoredRow) { self.init(header: row.header, bytes: row.bytes) }
}
