/// A group of writes to any number of column families that is applied atomically.
///
/// ```swift
/// var batch = WriteBatch()
/// try batch.put([1, 2], [3])
/// try batch.delete([4], in: family)
/// try engine.write(batch)
/// ```
///
/// Entries apply in the order in which they were added: a later entry for a key hides an earlier one. A batch can be
/// written several times, and to several engines if the ids of the families agree.
///
/// Complexity: adding an entry is amortized O(its bytes). A batch belongs to one thread at a time.
public struct WriteBatch: ~Copyable, Sendable {
  /// The entries in the encoding of the log (`BatchFormat`).
  private(set) var payload: ByteWriter
  /// The offsets in `payload` at which the commit writes its sequence number.
  private(set) var stamps: [Int] = []
  /// The number of entries in the batch.
  public private(set) var count: Int = 0
  /// The number of entries that are range deletes.
  private(set) var rangeDeleteCount = 0
  /// The bytes at the end that the database on the engine added to the program's entries.
  ///
  /// On a full disk they don't count when the engine decides whether the batch frees space.
  package var ownByteCount = 0

  /// Creates an empty batch with a capacity in bytes.
  public init(capacity: Int = 256) { payload = ByteWriter(capacity: capacity) }

  /// The number of bytes that the batch takes in the log.
  public var byteCount: Int { payload.count }

  /// Whether the batch is empty.
  public var isEmpty: Bool { count == 0 }

  /// Removes all entries and keeps the memory.
  public mutating func removeAll() {
    payload.removeAll()
    stamps.removeAll(keepingCapacity: true)
    count = 0
    rangeDeleteCount = 0
    ownByteCount = 0
  }

  /// The length of a batch at one moment.
  public struct Mark: Sendable {
    fileprivate let byteCount: Int
    fileprivate let stampCount: Int
    fileprivate let rangeDeleteCount: Int
    /// The number of entries that the batch had.
    public let count: Int
  }

  /// A mark of the current length, to which the batch can be cut later.
  public var mark: Mark {
    Mark(byteCount: payload.count, stampCount: stamps.count, rangeDeleteCount: rangeDeleteCount, count: count)
  }

  /// Removes the entries that were added after a mark of this batch. Stops the process for a mark after its end.
  public mutating func cut(to mark: Mark) {
    payload.truncate(to: mark.byteCount)
    stamps.removeSubrange(mark.stampCount...)
    rangeDeleteCount = mark.rangeDeleteCount
    count = mark.count
  }

  /// Appends the entries of another batch. Throws `.limitExceeded` or `.noMemory`, in which case it adds nothing.
  ///
  /// Complexity: a copy of the other batch's bytes.
  public mutating func append(_ other: borrowing WriteBatch) throws(EngineError) {
    try BatchFormat.checkLimits(key: ByteView(), value: ByteView(), batchSize: payload.count + other.payload.count)
    try payload.reserveOrThrow(other.payload.count)
    let start = payload.count
    payload.append(other.payload.view)
    for offset in other.stamps { stamps.append(start + offset) }
    count += other.count
    rangeDeleteCount += other.rangeDeleteCount
  }

  /// Appends encoded entries, which must contain no range deletes and no stamps, and for which capacity must be
  /// reserved.
  mutating func append(encoded entries: ByteView, count: Int) {
    payload.append(entries)
    self.count += count
  }

  /// Returns the greatest key that the batch puts into a family, with its bytes before the commit, or nil if there is
  /// none.
  ///
  /// Complexity: O(n).
  func lastKey(in family: FamilyID) -> [UInt8]? {
    var reader = BatchReader(payload.view)
    var last: ByteView?
    while let entry = try? reader.next() {
      guard entry.family == family, entry.kind == .put || entry.kind == .merge else { continue }
      if last.map({ $0.compare(entry.key) < 0 }) ?? true { last = entry.key }
    }
    return last?.bytes
  }

  /// Calls `body` with the offset, the number of the family and the key of each put and delete that begins at `start`
  /// or later, where an entry begins.
  ///
  /// Complexity: O(n) in these entries.
  package func forEachChange(
    from start: Int, _ body: (_ offset: Int, _ family: UInt32, _ key: RawSpan) -> Void
  ) throws(EngineError) {
    var reader = BatchReader(payload.view.dropFirst(start))
    while true {
      let offset = start + reader.position
      guard let entry = try reader.next() else { return }
      switch entry.kind {
      case .put, .delete, .singleDelete: unsafe body(offset, entry.family.value, entry.key.rawSpan)
      case .merge, .rangeDelete: break
      }
    }
  }

  /// Returns the value of the put at an offset, or nil for a delete.
  package func value(at offset: Int) throws(EngineError) -> [UInt8]? {
    var reader = BatchReader(payload.view.dropFirst(offset))
    guard let entry = try reader.next(), entry.kind == .put else { return nil }
    return entry.value.bytes
  }

  /// Reserves capacity for `byteCount` more bytes of entries. Throws `.noMemory`.
  mutating func reserve(_ byteCount: Int) throws(EngineError) { try payload.reserveOrThrow(byteCount) }

  /// Appends an entry. The public methods, which take a family, are in `WriteBatch+Families`.
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

  /// Adds a put that gets the commit's sequence at `location`, which is within the key or the value. Until then it has
  /// `StampLocation.pending` there.
  mutating func appendStamped(
    _ family: FamilyID, _ key: ByteView, _ value: ByteView, at location: StampLocation
  ) throws(EngineError) {
    try append(.put, family, key, value)
    // The entry ends with the value, and before that and its size is the key.
    let valueStart = payload.count - value.count
    let offset =
      switch location {
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
