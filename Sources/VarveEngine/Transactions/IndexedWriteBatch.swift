/// A batch that can be read: gets and cursors see its entries over what is committed.
///
/// ```swift
/// var batch = IndexedWriteBatch(engine)
/// try batch.put(key, value)
/// let seen = try batch.get(key)
/// try engine.write(batch)
/// ```
///
/// Nothing is checked when it is written: others may have committed meanwhile. `OptimisticTransaction` is
/// this with a snapshot and a check. What `putStamped` will write is not known before the commit: reads see the bytes
/// that it was given.
///
/// Complexity: an entry costs what it does in a `WriteBatch`, and its insertion into a search tree; a read
/// a search in that, and what it costs without.
///
/// A batch belongs to one thread at a time. Its cursors see it as it was when they were made.
public struct IndexedWriteBatch: ~Copyable {
  let engine: Engine
  let snapshot: EngineSnapshot?
  private(set) var batch = WriteBatch()
  private var tables: [FamilyID: MemTable] = [:]
  private var savepoints: [WriteBatch.Mark] = []

  /// An empty batch. Reads see what is committed at the moment of the read, or at a snapshot.
  public init(_ engine: Engine, snapshot: EngineSnapshot? = nil) {
    engine.checkOpen()
    self.engine = engine
    self.snapshot = snapshot
  }

  /// How many entries the batch has.
  public var count: Int { batch.count }

  /// Whether nothing was added.
  public var isEmpty: Bool { batch.isEmpty }

  /// The bytes that the batch takes in the log.
  public var byteCount: Int { batch.byteCount }

  // MARK: - Writing

  /// Sets the value of a key. Throws like `WriteBatch.put`.
  public mutating func put(_ key: [UInt8], _ value: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try add(family) { (batch) throws(EngineError) in try batch.put(key, value, in: family) }
  }

  /// Removes a key. Throws like `WriteBatch.delete`.
  public mutating func delete(_ key: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try add(family) { (batch) throws(EngineError) in try batch.delete(key, in: family) }
  }

  /// Removes a key that was put exactly once: see `WriteBatch.singleDelete`.
  public mutating func singleDelete(_ key: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try add(family) { (batch) throws(EngineError) in try batch.singleDelete(key, in: family) }
  }

  /// Removes all keys from `lower` (included) to `upper` (excluded): see `WriteBatch.deleteRange`.
  public mutating func deleteRange(
    from lower: [UInt8], to upper: [UInt8], in family: ColumnFamily? = nil
  ) throws(EngineError) {
    try add(family) { (batch) throws(EngineError) in try batch.deleteRange(from: lower, to: upper, in: family) }
  }

  /// Adds an operand for the family's merge operator. Throws `.invalidArgument` where it has none.
  public mutating func merge(_ key: [UInt8], _ operand: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    let state = engine.state(of: family)
    if state.merge == nil { throw CommitPipeline.operatorError(state) }
    try add(family) { (batch) throws(EngineError) in try batch.merge(key, operand, in: family) }
  }

  /// Sets the value of a key, with the commit's sequence in it: see `WriteBatch.putStamped`.
  public mutating func putStamped(
    _ key: [UInt8], _ value: [UInt8], at place: StampPlace, in family: ColumnFamily? = nil
  ) throws(EngineError) {
    try add(family) { (batch) throws(EngineError) in try batch.putStamped(key, value, at: place, in: family) }
  }

  private mutating func add(
    _ family: ColumnFamily?, _ body: (inout WriteBatch) throws(EngineError) -> Void
  ) throws(EngineError) {
    // Stops the process for a family of another engine, before anything is added.
    _ = engine.state(of: family)
    let start = batch.byteCount
    let index = batch.count
    try body(&batch)
    try insert(from: start, index: index, only: nil)
  }

  // MARK: - Savepoints

  /// Remembers what the batch holds now. Savepoints nest.
  public mutating func setSavepoint() { savepoints.append(batch.mark) }

  /// Forgets everything since the last savepoint, and that.
  ///
  /// Throws `.invalidArgument` where there is none. Complexity: that of adding what is left again.
  public mutating func rollbackToSavepoint() throws(EngineError) {
    let mark = try takeSavepoint()
    guard mark.count < batch.count else { return }
    batch.truncate(to: mark)
    // New trees: cursors may be walking the old ones.
    tables = [:]
    try insert(from: 0, index: 0, only: nil)
  }

  /// Forgets the last savepoint and keeps what came since. Throws `.invalidArgument` where there is none.
  public mutating func releaseSavepoint() throws(EngineError) { _ = try takeSavepoint() }

  private mutating func takeSavepoint() throws(EngineError) -> WriteBatch.Mark {
    guard let mark = savepoints.popLast() else {
      throw EngineError(.invalidArgument, "the batch has no savepoint: call setSavepoint before")
    }
    return mark
  }

  // MARK: - The trees

  private static let capacityMinimum = 32 << 10

  /// The sequence of the entry at an index.
  private static func sequence(_ index: Int) -> SequenceNumber {
    SequenceNumber(SequenceNumber.uncommitted.value + UInt64(index))
  }

  /// Puts the entries from a byte of the payload on into their families' trees.
  private mutating func insert(from start: Int, index: Int, only family: FamilyID?) throws(EngineError) {
    var reader = BatchReader(batch.payload.view.dropFirst(start))
    var index = index
    while let entry = try reader.next() {
      if family.map({ $0 == entry.family }) ?? true { try insert(entry, index) }
      index += 1
    }
  }

  private mutating func insert(_ entry: BatchReader.Entry, _ index: Int) throws(EngineError) {
    let size = entry.key.count + entry.value.count
    if let table = tables[entry.family], table.hasRoom(keySize: entry.key.count, valueSize: entry.value.count) {
      table.insert(entry.key, Trailer(Self.sequence(index), entry.kind), entry.value)
      return
    }
    // A larger tree with all of the family's entries, this one included where it is not the first.
    let old = tables[entry.family]
    let used = old.map { $0.usedBytes + $0.tombstoneBytes } ?? 0
    let table = MemTable(capacity: max(Self.capacityMinimum, 4 * used, 8 * (size + 64)))
    tables[entry.family] = table
    if old == nil {
      table.insert(entry.key, Trailer(Self.sequence(index), entry.kind), entry.value)
    } else {
      try insert(from: 0, index: 0, only: entry.family)
    }
  }

  /// What readers see of the batch in a family; nil: nothing.
  func own(_ family: FamilyState) -> OwnWrites? {
    tables[family.id].map { OwnWrites(table: $0, last: Self.sequence(max(batch.count, 1) - 1)) }
  }

  // MARK: - Reading

  /// The value of a key, with the batch over what is committed; nil where there is none.
  ///
  /// Throws like `Engine.get`.
  public func get(_ key: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) -> [UInt8]? {
    switch try find(key, in: family) {
    case .value(let value): return value
    case .nothing: return nil
    case .elsewhere: return try engine.get(key, in: family, snapshot: snapshot)
    }
  }

  /// A cursor over the keys of a family that lie within `bounds`, with the batch over what is committed now,
  /// or at the batch's snapshot.
  public func cursor(in family: ColumnFamily? = nil, bounds: CursorBounds = .all) throws(EngineError) -> EngineCursor {
    try engine.cursor(in: family, bounds: bounds, snapshot: snapshot, own: own(engine.state(of: family)))
  }

  /// What the batch alone says of a key.
  enum Answer {
    case value([UInt8]), nothing
    /// It says nothing, or an operand of what is committed.
    case elsewhere
  }

  /// What the batch says of a key. Operands are folded over what is committed.
  func find(_ key: [UInt8], in family: ColumnFamily?) throws(EngineError) -> Answer {
    let state = engine.state(of: family)
    if state.isDropped { throw CommitPipeline.droppedError(state) }
    guard let own = own(state) else { return .elsewhere }
    let found: Answer? = key.withByteView { key in
      let covered = own.table.rangeTombstones.sequence(covering: key, at: own.last)
      if let hit = own.table.get(key, at: own.last), hit.trailer.sequence >= covered {
        switch hit.trailer.kind {
        case .put: return .value(hit.value.bytes)
        case .merge: return nil
        default: return .nothing
        }
      }
      return covered == .zero ? .elsewhere : .nothing
    }
    if let found { return found }
    var cursor = try cursor(in: family)
    try cursor.seek(key)
    return cursor.isValid && cursor.keyBytes == key ? .value(cursor.valueBytes) : .nothing
  }

  /// Whether the batch alone decides what a key is: no read of what is committed is behind the answer.
  func decides(_ key: [UInt8], in family: ColumnFamily?) -> Bool {
    guard let own = own(engine.state(of: family)) else { return false }
    return key.withByteView { key in
      let covered = own.table.rangeTombstones.sequence(covering: key, at: own.last)
      if covered != .zero { return true }
      guard let hit = own.table.get(key, at: own.last) else { return false }
      return hit.trailer.kind != .merge
    }
  }
}

extension Engine {
  /// Commits what an indexed batch holds, like `write(_: WriteBatch)`. The batch keeps it.
  @discardableResult
  public func write(
    _ batch: borrowing IndexedWriteBatch, durability: Durability? = nil
  ) throws(EngineError) -> SequenceNumber {
    guard batch.engine === self else {
      fatalError("the batch was made for another engine; write it to that one")
    }
    return try write(batch.batch, durability: durability)
  }
}
