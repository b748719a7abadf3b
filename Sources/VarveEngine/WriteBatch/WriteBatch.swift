/// A group of writes over any families that happens whole or not at all.
///
/// ```swift
/// var batch = WriteBatch()
/// try batch.put([1, 2], [3])
/// try batch.delete([4], in: family)
/// try engine.write(batch)
/// ```
///
/// Entries act in the order in which they were added: a later entry for a key hides an earlier one.
/// A batch can be written several times, and to several engines where the families' ids agree.
///
/// Complexity: adding an entry is amortised O(its bytes). A batch belongs to one thread at a time.
public struct WriteBatch: ~Copyable, Sendable {
  /// The entries as they go into the log (`BatchFormat`).
  private(set) var payload: ByteWriter
  /// The bytes of `payload` where the commit's sequence goes.
  private(set) var stamps: [Int] = []
  /// How many entries the batch has.
  public private(set) var count: Int = 0
  /// How many of them are range deletes.
  private(set) var rangeDeleteCount = 0

  /// An empty batch, with room for so many bytes.
  public init(capacity: Int = 256) { payload = ByteWriter(capacity: capacity) }

  /// The bytes that the batch takes in the log.
  public var byteCount: Int { payload.count }

  /// Whether the batch is empty.
  public var isEmpty: Bool { count == 0 }

  /// Forgets all entries and keeps the memory.
  public mutating func removeAll() {
    payload.removeAll()
    stamps.removeAll(keepingCapacity: true)
    count = 0
    rangeDeleteCount = 0
  }

  /// Makes room for so many bytes of entries. Throws `.noMemory`.
  mutating func reserve(_ byteCount: Int) throws(EngineError) { try payload.reserveOrThrow(byteCount) }

  /// Adds an entry. The public forms, which take a family, are in `WriteBatch+Families`.
  mutating func append(
    _ kind: EntryKind, _ family: FamilyID, _ key: ByteView, _ value: ByteView
  ) throws(EngineError) {
    try BatchFormat.checkLimits(key: key, value: value, batchSize: payload.count)
    try payload.reserveOrThrow(BatchFormat.entrySize(kind, family, keySize: key.count, valueSize: value.count))
    BatchFormat.append(kind, family, key, value, to: &payload)
    count += 1
  }

  /// Adds the removal of a range of keys; of an empty one nothing.
  mutating func appendRange(_ family: FamilyID, _ lower: ByteView, _ upper: ByteView) throws(EngineError) {
    if try BatchFormat.isEmptyRange(lower, upper) { return }
    try append(.rangeDelete, family, lower, upper)
    rangeDeleteCount += 1
  }

  /// Adds a put that gets the commit's sequence at `place`, which is within the key or the value. Until then it has
  /// `StampPlace.pending` there.
  mutating func appendStamped(
    _ family: FamilyID, _ key: ByteView, _ value: ByteView, at place: StampPlace
  ) throws(EngineError) {
    try append(.put, family, key, value)
    // The entry ends with the value, and before that and its size is the key.
    let valueStart = payload.count - value.count
    let offset =
      switch place {
      case .key(let offset): valueStart - Varint.size(UInt64(value.count)) - key.count + offset
      case .value(let offset): valueStart + offset
      }
    payload.patch(integer: UInt64.max, at: offset)
    stamps.append(offset)
  }

  /// A copy of the payload, for a commit that writes its sequence into it.
  func payloadCopy() throws(EngineError) -> ByteWriter {
    var copy = ByteWriter(capacity: 0)
    try copy.reserveOrThrow(payload.count)
    copy.append(payload.view)
    return copy
  }
}
