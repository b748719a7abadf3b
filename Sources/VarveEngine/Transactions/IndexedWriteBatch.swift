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
/// # Undoing
/// Every entry has a number, which no other gets, also after it was undone. A savepoint is a mark; what is undone is cut
/// off the batch, and its numbers join a list of intervals that readers of the trees pass. So undoing costs nothing for
/// what stays. The trees are made again, from what of them counts, where more of their entries are undone than not, and
/// where a range delete was undone. Cursors keep the trees that they were made on.
///
/// A batch belongs to one thread at a time. Its cursors see it as it was when they were made.
public struct IndexedWriteBatch: ~Copyable {
  let engine: Engine
  let snapshot: EngineSnapshot?
  private(set) var batch = WriteBatch()
  private var tables: [FamilyID: MemTable] = [:]
  private var savepoints: [Savepoint] = []
  private var nextNumber: UInt64 = 0
  /// Of entries that are in the trees.
  private var undone = UndoneNumbers.none
  private var undoneCount: UInt64 = 0

  private struct Savepoint {
    let mark: WriteBatch.Mark
    let number: UInt64
    let rangeDeleteCount: Int
  }

  /// An empty batch. Reads see what is committed at the moment of the read, or at a snapshot.
  public init(_ engine: Engine, snapshot: EngineSnapshot? = nil) {
    engine.checkOpen()
    self.engine = engine
    self.snapshot = snapshot
  }

  /// How many entries the batch has.
  public var count: Int { batch.count }

  /// Whether the batch is empty.
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
    let mark = batch.mark
    try body(&batch)
    do throws(EngineError) {
      var reader = BatchReader(batch.payload.view.dropFirst(start))
      // Of an empty range nothing was added, else one entry.
      while let entry = try reader.next() { try insert(entry) }
    } catch {
      // The trees have no memory for it.
      batch.truncate(to: mark)
      throw error
    }
  }

  // MARK: - Savepoints

  /// Remembers what the batch holds now. Savepoints nest.
  public mutating func setSavepoint() {
    savepoints.append(Savepoint(mark: batch.mark, number: nextNumber, rangeDeleteCount: batch.rangeDeleteCount))
  }

  /// Forgets everything since the last savepoint, and that.
  ///
  /// Throws `.invalidArgument` where there is none, and `.noMemory`, with nothing done. Complexity: amortised O(1) for
  /// each entry that is undone; of a range delete, that of adding what is left again.
  public mutating func rollbackToSavepoint() throws(EngineError) {
    let savepoint = try lastSavepoint()
    if savepoint.mark.count < batch.count {
      let undoesRanges = batch.rangeDeleteCount > savepoint.rangeDeleteCount
      var undone = undone
      undone.append(savepoint.number..<nextNumber)
      let count = undoneCount + nextNumber - savepoint.number
      if undoesRanges || count > UInt64(max(savepoint.mark.count, Self.undoneKept)) {
        try packTables(without: undone)
      } else {
        self.undone = undone
        undoneCount = count
      }
      batch.truncate(to: savepoint.mark)
    }
    savepoints.removeLast()
  }

  /// Forgets the last savepoint and keeps what came since. Throws `.invalidArgument` where there is none.
  public mutating func releaseSavepoint() throws(EngineError) {
    _ = try lastSavepoint()
    savepoints.removeLast()
  }

  private func lastSavepoint() throws(EngineError) -> Savepoint {
    guard let savepoint = savepoints.last else {
      throw EngineError(.invalidArgument, "the batch has no savepoint: call setSavepoint before")
    }
    return savepoint
  }

  // MARK: - The trees

  /// A tree of this size comes from the engine's kept arenas.
  private static let capacityMinimum = 32 << 10
  /// So few undone entries are never worth making trees again.
  private static let undoneKept = 256

  /// The sequence of the entry with a number.
  private static func sequence(_ number: UInt64) -> SequenceNumber {
    SequenceNumber(SequenceNumber.uncommitted.value + number)
  }

  /// Puts an entry into its family's tree.
  private mutating func insert(_ entry: BatchReader.Entry) throws(EngineError) {
    let trailer = Trailer(Self.sequence(nextNumber), entry.kind)
    nextNumber += 1
    let old = tables[entry.family]
    if let old, old.hasRoom(keySize: entry.key.count, valueSize: entry.value.count) {
      old.insert(entry.key, trailer, entry.value)
      return
    }
    // A larger tree, with all that counts of the old one.
    let size = 8 * (entry.key.count + entry.value.count + 64)
    let table = try makeTable(capacity: max(old.map { 4 * ($0.usedBytes + $0.tombstoneBytes) } ?? 0, size))
    if let old { Self.copy(old, without: undone, into: table) }
    table.insert(entry.key, trailer, entry.value)
    tables[entry.family] = table
  }

  private func makeTable(capacity: Int) throws(EngineError) -> MemTable {
    if capacity <= Self.capacityMinimum {
      return try MemTable(reserving: Self.capacityMinimum, pool: engine.batchArenas)
    }
    return try MemTable(reserving: capacity)
  }

  /// Makes all trees again, of what counts in them. Where that throws, the trees stay as they were.
  private mutating func packTables(without undone: UndoneNumbers) throws(EngineError) {
    var packed: [FamilyID: MemTable] = [:]
    for (family, old) in tables {
      let table = try makeTable(capacity: 4 * (old.usedBytes + old.tombstoneBytes))
      Self.copy(old, without: undone, into: table)
      if !table.isEmpty { packed[family] = table }
    }
    tables = packed
    self.undone = .none
    undoneCount = 0
  }

  /// Inserts what counts of a tree into a new one, each entry with its number.
  private static func copy(_ old: MemTable, without undone: UndoneNumbers, into table: MemTable) {
    // One edit: every reader of the new tree sees all of them.
    table.rangeTombstones.beginEdit()
    old.rangeTombstones.forEachEdit(above: .zero) { tombstones in
      for tombstone in tombstones where !undone.contains(tombstone.sequence) {
        table.insert(tombstone.start, Trailer(tombstone.sequence, .rangeDelete), tombstone.end)
      }
    }
    table.rangeTombstones.endEdit()
    var iterator = old.makeIterator()
    iterator.seekToFirst()
    while iterator.isValid {
      if !undone.contains(iterator.trailer.sequence) {
        table.insert(iterator.userKey, iterator.trailer, iterator.value)
      }
      iterator.next()
    }
  }

  /// What readers see of the batch in a family; nil: nothing.
  func own(_ family: FamilyState) -> OwnWrites? {
    tables[family.id].map { OwnWrites(table: $0, last: Self.sequence(max(nextNumber, 1) - 1), undone: undone) }
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
      if let hit = own.newest(key), hit.trailer.sequence >= covered {
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
      guard let hit = own.newest(key) else { return false }
      return hit.trailer.kind != .merge
    }
  }
}

extension OwnWrites {
  /// The newest entry of a key that counts.
  fileprivate func newest(_ key: ByteView) -> MemTableHit? {
    var hit = table.get(key, at: last)
    while let found = hit, undone.contains(found.trailer.sequence) {
      hit = table.get(key, at: SequenceNumber(found.trailer.sequence.value - 1))
    }
    return hit
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
