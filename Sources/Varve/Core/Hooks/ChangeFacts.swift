/// What the write path knows of one change, for the hooks that receive it.
///
/// The object is where the caller has it, until a hook asks for it or the change waits for other hooks.
@safe
final class ChangeFacts {
  private(set) var event = RowChange.Event.inserted
  private(set) var info: CollectionInfo
  /// In the collection's families.
  private(set) var key: [UInt8] = []
  private(set) var id = RowID(0)
  /// Which change of the transaction it is.
  private(set) var number: UInt64 = 0
  /// As it is written; empty where it is removed.
  private var bytes: [UInt8] = []
  private var metadata: EncodedMetadata?
  private var object: Any?
  private var objectType: (any Encodable.Type)?
  /// Safety: set only while `withObject` runs, by whose argument it is kept alive.
  private var objectPointer: UnsafeRawPointer?
  private var old: PresentRow?
  private var oldMetadata: [UInt8]?
  private var madeKey: RowKey?
  private var madeRow: Row?
  private var madeOld: Row?

  init(_ info: CollectionInfo) { self.info = info }

  /// A change that leaves the row as `bytes`. `id` is the row's.
  func set(
    _ event: RowChange.Event, _ key: [UInt8], _ info: CollectionInfo, id: RowID, number: UInt64, bytes: [UInt8],
    _ metadata: EncodedMetadata?, old: PresentRow?, oldMetadata: [UInt8]?
  ) {
    self.event = event
    self.info = info
    self.key = key
    self.id = id
    self.number = number
    self.bytes = bytes
    self.metadata = metadata
    self.old = old
    self.oldMetadata = oldMetadata
    object = nil
    unsafe objectPointer = nil
    madeKey = nil
    madeRow = nil
    madeOld = nil
  }

  /// Says where the object is for as long as `body` runs.
  @inline(__always)
  func withObject<Object: Encodable>(_ object: Object, _ body: () throws -> Void) rethrows {
    try unsafe withUnsafePointer(to: object) { pointer in
      objectType = Object.self
      unsafe objectPointer = UnsafeRawPointer(pointer)
      defer { unsafe objectPointer = nil }
      try body()
    }
  }

  /// The object is known already.
  func setObject(_ object: Any?) { self.object = object }

  /// Takes a copy of the object: the change will be received after the call that made it has returned.
  func settle() { object = knownObject }

  private var knownObject: Any? {
    if let object { return object }
    guard let objectType, let pointer = unsafe objectPointer else { return nil }
    return unsafe Self.copy(objectType, pointer)
  }

  private static func copy<Object>(_ type: Object.Type, _ pointer: UnsafeRawPointer) -> Any {
    // Safety: `withObject` has made the pointer of an object of this type, and is still running.
    unsafe pointer.assumingMemoryBound(to: type).pointee
  }

  // MARK: - For hooks

  var rowKey: RowKey {
    if let madeKey { return madeKey }
    let key = info.key(of: key)
    madeKey = key
    return key
  }

  func row(in transaction: WriteTransaction) throws -> Row? {
    if event == .removed { return nil }
    if let madeRow { return madeRow }
    let stored = try transaction.stored(key, bytes, info, nil)
    stored.object = knownObject
    stored.metadata = metadata?.value
    stored.metadataBytes = metadata?.bytes
    let row = Row(stored, in: transaction)
    madeRow = row
    return row
  }

  func oldRow(in transaction: WriteTransaction) throws -> Row? {
    guard let old, !old.bytes.isEmpty else { return nil }
    if let madeOld { return madeOld }
    let stored = try transaction.stored(key, old.bytes, info, nil)
    stored.metadataBytes = oldMetadata
    let row = Row(stored, in: transaction)
    madeOld = row
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
