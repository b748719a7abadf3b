/// What the write path knows of one change, for the hooks that receive it.
///
/// The object is where the caller has it, until a hook asks for it or the change waits for other hooks.
final class ChangeFacts {
  private struct Facts {
    var event = RowChange.Event.inserted
    let info: CollectionInfo
    /// In the collection's families.
    var key: [UInt8] = []
    var id = RowID(0)
    /// Which change of the transaction it is.
    var number: UInt64 = 0
    /// As it is written; empty where it is removed.
    var bytes: [UInt8] = []
    var metadata: EncodedMetadata?
    var object: Any?
    var old: PresentRow?
    var oldMetadata: [UInt8]?
    /// What was made of the facts, for the hooks that have asked.
    var rowKey: RowKey?
    var row: Row?
    var oldRow: Row?
    var source: ObjectSource?
  }

  /// Where the caller has the object.
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

  /// A change that leaves the row as `bytes`. `id` is the row's.
  @inline(__always)
  func set(
    _ event: RowChange.Event, _ key: [UInt8], _ info: CollectionInfo, id: RowID, number: UInt64, bytes: [UInt8],
    _ metadata: EncodedMetadata?, old: PresentRow?, oldMetadata: [UInt8]?
  ) {
    facts = Facts(
      event: event, info: info, key: key, id: id, number: number, bytes: bytes, metadata: metadata, old: old,
      oldMetadata: oldMetadata)
  }

  /// Says where the object is for as long as `body` runs.
  @inline(__always)
  func withObject<Object: Encodable>(_ object: Object, _ body: () throws -> Void) rethrows {
    try unsafe withUnsafePointer(to: object) { pointer in
      facts.source = unsafe ObjectSource(type: Object.self, pointer: UnsafeRawPointer(pointer))
      defer { facts.source = nil }
      try body()
    }
  }

  /// The object is known already.
  func setObject(_ object: Any?) { facts.object = object }

  /// Takes a copy of the object: the change will be received after the call that made it has returned.
  func settle() { facts.object = knownObject }

  /// The object, where a caller has given it.
  var givenObject: Any? { facts.event == .removed ? nil : knownObject }

  private var knownObject: Any? {
    if let object = facts.object { return object }
    guard let source = facts.source else { return nil }
    return unsafe Self.copy(source.type, source.pointer)
  }

  private static func copy<Object>(_ type: Object.Type, _ pointer: UnsafeRawPointer) -> Any {
    // Safety: `withObject` has made the pointer of an object of this type, and is still running.
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
    let stored = try transaction.stored(facts.key, facts.bytes, facts.info, nil)
    stored.object = knownObject
    stored.metadata = facts.metadata?.value
    stored.metadataBytes = facts.metadata?.bytes
    let row = Row(stored, in: transaction)
    facts.row = row
    return row
  }

  /// What `body` makes of the object where it is, which it may not keep; nil where the row was removed. No `Row` is made.
  func withObject<Object: Decodable, Result>(
    as type: Object.Type, in transaction: WriteTransaction, _ body: (InstanceAddress) throws -> Result
  ) throws -> Result? {
    if facts.event == .removed { return nil }
    if let source = facts.source, source.type == Object.self { return try body(unsafe InstanceAddress(source.pointer)) }
    let object =
      try facts.object as? Object ?? transaction.database.coding.object(type, facts.key, facts.bytes, facts.info)
    return try unsafe withUnsafePointer(to: object) { try body(unsafe InstanceAddress(UnsafeRawPointer($0))) }
  }

  /// The same of the object as it was; nil where the row was inserted.
  func withOldObject<Object: Decodable, Result>(
    as type: Object.Type, in transaction: WriteTransaction, _ body: (InstanceAddress) throws -> Result
  ) throws -> Result? {
    guard let old = facts.old, !old.bytes.isEmpty else { return nil }
    let object = try transaction.database.coding.object(type, facts.key, old.bytes, facts.info)
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

/// A row that is there before a change: its header, and where a hook needs them all of its bytes.
struct PresentRow {
  let header: RowHeader
  var bytes: [UInt8] = []
}

extension PresentRow {
  /// A row that was read.
  init(_ row: StoredRow) { self.init(header: row.header, bytes: row.bytes) }
}
