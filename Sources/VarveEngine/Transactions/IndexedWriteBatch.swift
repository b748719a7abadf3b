/// A batch that can be read: gets and cursors see its entries over the committed ones.
///
/// ```swift
/// var batch = IndexedWriteBatch(engine)
/// try batch.put(key, value)
/// let seen = try batch.get(key)
/// try engine.write(batch)
/// ```
///
/// The commit does not check for conflicts: other commits may have changed the keys meanwhile. `OptimisticTransaction`
/// is this batch with a snapshot and a check.
///
/// # Committed entries
/// The commit writes the entries that count at that time: of each key the last put or delete, with merge operands
/// folded if the family's operator combines them. A put that a single delete of the same batch removes is not written
/// at all. Entries that were undone, overwritten or covered by a range delete use memory until the batch drops them,
/// but no space in the log. `count` and `byteCount` describe what the commit writes, except that operands of one key
/// count individually until the batch has folded them. The limit of a batch applies to them and to the entries of
/// scratch families.
///
/// # A few entries
/// The first few puts and deletes are stored in a list (`FirstEntries`). Operations that a list can't do move them into
/// the trees, once.
///
/// # Undoing
/// Every entry has a number, which is never reused, even after it was undone. A savepoint is a mark; undoing it adds an
/// interval to the numbers that reads skip, however many entries the batch has. The trees are rebuilt from the entries
/// that count once the bytes that do not count are the larger part.
///
/// # Cursors
/// A cursor shows the batch as it was when the cursor was created or last refreshed. A cursor that was created after a
/// savepoint which was then undone throws `.cursorEnded`.
///
/// Complexity: an entry costs a search in its family's tree and the insertion, and a range delete the cost given at
/// `deleteRange`; a read costs a search there in addition to its cost without the batch. A batch and its cursors belong
/// to one thread at a time.
public struct IndexedWriteBatch: ~Copyable {
  let engine: EngineCore
  let snapshot: EngineSnapshot?
  /// The entries added before there were trees.
  private(set) var first = FirstEntries()
  /// The entries by family. While `first` is open, the tree of each is the empty memtable.
  private(set) var families: [PendingFamily] = []
  private var indexes: [FamilyID: Int] = [:]
  private var lastIndex = 0
  private var savepoints: [Savepoint] = []
  /// The number of the next entry. Zero is not used.
  private(set) var nextNumber: UInt64 = 1
  /// The numbers of entries that are in the trees and were undone.
  private(set) var undone = UndoneNumbers.none
  private(set) var stamps = PendingStamps()
  private var rangeDeleteCount = 0
  /// The size of the entries that count, and of the part of them that the commit omits.
  private var living = PendingSize()
  private var scratchSize = PendingSize()
  /// The size of all entries of the trees or the list, including undone ones, and the sum of the families'
  /// `foldableCost`.
  private var stored = PendingSize()
  private var foldableCost = 0
  /// The cost that the trees had beyond `living` after they were last rebuilt, which is that of entries that count only
  /// at a savepoint.
  private var heldCost = 0
  /// The marks that are shared with the cursors, created for the first of them.
  private var marks: BatchMarks?
  /// Cursors that `withFirst` reuses, by family.
  var kept: [FamilyID: KeptCursor] = [:]

  private struct Savepoint {
    /// The number of the next entry.
    let number: UInt64
    let tick: UInt64
    var living: PendingSize
    var scratchSize: PendingSize
    let rangeDeleteCount: Int
  }

  /// Creates an empty batch. Reads see the state committed at the time of the read, or at a snapshot.
  public init(_ engine: Engine, snapshot: EngineSnapshot? = nil) { self.init(engine.core, snapshot: snapshot) }

  init(_ engine: EngineCore, snapshot: EngineSnapshot?) {
    self.engine = engine
    self.snapshot = snapshot
  }

  /// The number of entries that the commit writes. Operands of one key count individually until the batch has folded
  /// them.
  public var count: Int { living.count - scratchSize.count }

  /// A Boolean value that indicates whether the commit writes nothing.
  public var isEmpty: Bool { count == 0 }

  /// The bytes in the log of the entries of `count`.
  public var byteCount: Int { living.byteCount - scratchSize.byteCount }

  /// The bytes that count for the limit of a batch: those of `byteCount`, and those of families that are left out.
  public var limitedByteCount: Int { living.byteCount }

  // MARK: - Scratch families

  /// Leaves the entries of a family out of the commit, so that only the batch sees them.
  ///
  /// Reads and savepoints include them, and they count for the batch's limit. Throws `.invalidArgument` if the batch
  /// has entries of the family that were not undone, and `.noMemory`.
  public mutating func markAsScratch(_ family: ColumnFamily) throws(EngineError) {
    let state = engine.state(of: family)
    try buildTrees()
    let index = if let known = index(of: state.id) { known } else { try begin(state, keySize: 0, valueSize: 0) }
    guard families[index].isScratch || !families[index].hasEntries(undone) else {
      throw EngineError(
        .invalidArgument,
        "the batch has entries of column family \"\(state.name)\" already; leave a family out before its first entry")
    }
    families[index].isScratch = true
  }

  // MARK: - Writing

  /// Sets the value of a key. Throws `.limitExceeded` and `.noMemory`, without adding any entry.
  public mutating func put(_ key: RawSpan, _ value: RawSpan, in family: ColumnFamily? = nil) throws(EngineError) {
    try add(.put, key, value, family)
  }

  /// Sets the value of a key; key and value are arrays.
  public mutating func put(_ key: [UInt8], _ value: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try unsafe add(.put, key.span.bytes, value.span.bytes, family)
  }

  /// Removes a key, whether it exists or not. Throws the errors of `put`.
  public mutating func delete(_ key: RawSpan, in family: ColumnFamily? = nil) throws(EngineError) {
    try add(.delete, key, RawSpan(), family)
  }

  /// Removes a key given as an array.
  public mutating func delete(_ key: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try unsafe add(.delete, key.span.bytes, RawSpan(), family)
  }

  /// Removes a key that was put exactly once: see `WriteBatch.singleDelete`. Throws the errors of `put`.
  public mutating func singleDelete(_ key: RawSpan, in family: ColumnFamily? = nil) throws(EngineError) {
    try add(.singleDelete, key, RawSpan(), family)
  }

  /// Removes a key, given as an array, that was put exactly once.
  public mutating func singleDelete(_ key: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try unsafe add(.singleDelete, key.span.bytes, RawSpan(), family)
  }

  /// Removes all keys from `lower` (included) to `upper` (excluded): see `WriteBatch.deleteRange`. Throws the errors of
  /// `put`, and `.invalidArgument` if the range ends before it begins.
  ///
  /// Complexity: a search and the insertion, and one pass over the entries that the batch's tree has in the range,
  /// including those that do not count any more and were not dropped yet.
  public mutating func deleteRange(
    from lower: RawSpan, to upper: RawSpan, in family: ColumnFamily? = nil
  ) throws(EngineError) {
    try lower.withByteView { (lower) throws(EngineError) in
      try upper.withByteView { (upper) throws(EngineError) in
        if try BatchFormat.isEmptyRange(lower, upper) { return }
        try addRange(engine.state(of: family), lower, upper)
      }
    }
  }

  /// Removes all keys from `lower` (included) to `upper` (excluded), given as arrays.
  public mutating func deleteRange(
    from lower: [UInt8], to upper: [UInt8], in family: ColumnFamily? = nil
  ) throws(EngineError) {
    try unsafe deleteRange(from: lower.span.bytes, to: upper.span.bytes, in: family)
  }

  /// Adds an operand for the family's merge operator. Throws `.invalidArgument` if the family has none, and the errors
  /// of `put`.
  public mutating func merge(_ key: RawSpan, _ operand: RawSpan, in family: ColumnFamily? = nil) throws(EngineError) {
    try add(.merge, key, operand, family)
  }

  /// Adds an operand for the family's merge operator; key and operand are arrays.
  public mutating func merge(_ key: [UInt8], _ operand: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try unsafe add(.merge, key.span.bytes, operand.span.bytes, family)
  }

  /// Sets the value of a key, with the commit's sequence in it: see `WriteBatch.putStamped`.
  ///
  /// Until the commit the eight bytes read as `StampLocation.pending`, and a stamped key is found by them.
  public mutating func putStamped(
    _ key: [UInt8], _ value: [UInt8], at location: StampLocation, in family: ColumnFamily? = nil
  ) throws(EngineError) {
    try location.check(keySize: key.count, valueSize: value.count)
    var key = key
    var value = value
    switch location {
    case .key(let offset): key.replaceSubrange(offset..<(offset + 8), with: StampLocation.pending)
    case .value(let offset): value.replaceSubrange(offset..<(offset + 8), with: StampLocation.pending)
    }
    try buildTrees()
    try unsafe add(.put, key.span.bytes, value.span.bytes, family)
    note(location)
  }

  /// The newest entry gets the commit's sequence.
  mutating func note(_ location: StampLocation) { stamps.append(location, number: nextNumber - 1) }

  @inline(__always)
  private mutating func add(
    _ kind: EntryKind, _ key: RawSpan, _ value: RawSpan, _ family: ColumnFamily?
  ) throws(EngineError) {
    // This stops the process for a family of another engine, before any entry is added.
    let state = engine.state(of: family)
    try key.withByteView { (key) throws(EngineError) in
      try value.withByteView { (value) throws(EngineError) in try addPoint(state, kind, key, value) }
    }
  }

  mutating func addPoint(
    _ state: FamilyState, _ kind: EntryKind, _ key: ByteView, _ value: ByteView
  ) throws(EngineError) {
    if first.isOpen, try addFirst(state, kind, key, value) { return }
    try prepare(key, value)
    // The operand may be replaced by a value of the folded size.
    let valueSize = kind == .merge ? max(value.count, Self.foldedSizeMaximum) : value.count
    let index = try slot(state, keySize: key.count, valueSize: valueSize)
    if kind == .merge { return try addOperand(index, key, value) }
    if kind == .singleDelete { families[index].hasSingleDeletes = true }
    if families[index].hasSingleDeletes { return addCancelling(index, kind, key, value) }
    // The table is loaded once, because each access through the array would cost a retain.
    let table = families[index].table
    let last = SequenceNumber.pending(nextNumber - 1)
    let isSimple = undone.isEmpty && !table.hasTombstones
    if let old = isSimple ? table.get(key, at: last) : families[index].newest(key, at: last, undone) {
      let isOperand = old.trailer.kind == .merge
      bury(index, isOperand ? families[index].living(key, at: last, undone) : size(of: old, key, index))
    }
    table.insert(key, Trailer(.pending(nextNumber), kind), value)
    nextNumber += 1
    let size = BatchFormat.entrySize(kind, families[index].id, keySize: key.count, valueSize: value.count)
    stored.add(size)
    living.add(size)
    if families[index].isScratch { scratchSize.add(size) }
  }

  /// Adds an entry to the list. Returns false if the entry needs a tree; the trees exist then.
  @inline(never)
  private mutating func addFirst(
    _ state: FamilyState, _ kind: EntryKind, _ key: ByteView, _ value: ByteView
  ) throws(EngineError) -> Bool {
    try BatchFormat.checkLimits(key: key, value: value, batchSize: living.byteCount)
    let id = state.id
    let size = BatchFormat.entrySize(kind, id, keySize: key.count, valueSize: value.count)
    guard kind == .put || kind == .delete, savepoints.isEmpty, first.hasRoom(size) else {
      try buildTrees()
      return false
    }
    if index(of: id) == nil { append(PendingFamily(state: state, table: engine.pipeline.memory.empty)) }
    if let old = first.find(key, in: id) {
      living.remove(old.size)
      stored.remove(old.size)
      first.remove(old)
    }
    first.add(kind, id, key, value)
    nextNumber += 1
    living.add(size)
    stored.add(size)
    return true
  }

  /// Adds a put or a delete in a family with single deletes, which may reduce the entries that count.
  private mutating func addCancelling(_ index: Int, _ kind: EntryKind, _ key: ByteView, _ value: ByteView) {
    let before = families[index].living(key, at: .pending(nextNumber - 1), undone)
    insert(index, kind, key, value)
    let after = families[index].living(key, at: .pending(nextNumber - 1), undone)
    bury(index, before)
    living += after
    if families[index].isScratch { scratchSize += after }
  }

  /// Folds an operand over a small value of the batch at once; others are folded when the trees are rebuilt.
  private mutating func addOperand(_ index: Int, _ key: ByteView, _ operand: ByteView) throws(EngineError) {
    guard let merge = families[index].state.merge else {
      throw CommitPipeline.operatorError(families[index].state)
    }
    let old = families[index].newest(key, at: .pending(nextNumber - 1), undone)
    if let old, old.trailer.kind == .put, old.value.count <= Self.foldedSizeMaximum,
      stamps.location(of: old.trailer.sequence.number) == nil
    {
      var operands = OperandStack()
      operands.push(operand, old.trailer)
      var folded = MergeValue()
      if merge.merge(key, existing: old.value, &operands, into: &folded),
        folded.byteCount <= Self.foldedSizeMaximum
      {
        bury(index, size(of: old, key, index))
        return insertLiving(index, .put, key, folded.view)
      }
    }
    if let old, old.trailer.kind == .merge {
      let cost = size(of: old, key, index).cost
      families[index].foldableCost += cost
      foldableCost += cost
    }
    insertLiving(index, .merge, key, operand)
  }

  private mutating func addRange(
    _ state: FamilyState, _ lower: ByteView, _ upper: ByteView
  ) throws(EngineError) {
    try buildTrees()
    try prepare(lower, upper)
    let index = try slot(state, keySize: lower.count, valueSize: upper.count)
    bury(index, families[index].living(from: lower, to: upper, at: .pending(nextNumber - 1), undone))
    insertLiving(index, .rangeDelete, lower, upper)
    rangeDeleteCount += 1
  }

  private func size(of hit: MemTableHit, _ key: ByteView, _ index: Int) -> PendingSize {
    var size = PendingSize()
    size.add(families[index].size(hit.trailer.kind ?? .put, keySize: key.count, valueSize: hit.value.count))
    return size
  }

  /// Stops counting entries that a newer one hides.
  private mutating func bury(_ index: Int, _ size: PendingSize) {
    living -= size
    if families[index].isScratch { scratchSize -= size }
  }

  /// Adds an entry that counts.
  @inline(__always)
  private mutating func insertLiving(_ index: Int, _ kind: EntryKind, _ key: ByteView, _ value: ByteView) {
    let size = insert(index, kind, key, value)
    living.add(size)
    if families[index].isScratch { scratchSize.add(size) }
  }

  /// Adds an entry and returns its size.
  @discardableResult
  @inline(__always)
  private mutating func insert(_ index: Int, _ kind: EntryKind, _ key: ByteView, _ value: ByteView) -> Int {
    families[index].table.insert(key, Trailer(.pending(nextNumber), kind), value)
    nextNumber += 1
    let size = families[index].size(kind, keySize: key.count, valueSize: value.count)
    stored.add(size)
    return size
  }

  // MARK: - Savepoints

  /// Sets a savepoint at the batch's current state. Savepoints nest.
  public mutating func setSavepoint() {
    savepoints.append(
      Savepoint(
        number: nextNumber, tick: marks?.beginSavepoint() ?? 0, living: living, scratchSize: scratchSize,
        rangeDeleteCount: rangeDeleteCount))
  }

  /// Undoes all changes since the last savepoint, and removes the savepoint.
  ///
  /// Throws `.invalidArgument` if none is set. Complexity: amortized O(1), for each range delete that is undone
  /// O(log n).
  public mutating func rollbackToSavepoint() throws(EngineError) {
    let savepoint = try lastSavepoint()
    savepoints.removeLast()
    undone.append(savepoint.number..<nextNumber)
    marks?.undo(from: savepoint.tick)
    if rangeDeleteCount > savepoint.rangeDeleteCount {
      for family in families {
        family.table.rangeTombstones.removeTombstones(from: .pending(savepoint.number))
      }
      rangeDeleteCount = savepoint.rangeDeleteCount
    }
    stamps.removeAll(from: savepoint.number)
    // Entries hidden by newer ones count again; the newer entries do not.
    living = savepoint.living
    scratchSize = savepoint.scratchSize
  }

  /// Removes the last savepoint and keeps later entries. Throws `.invalidArgument` if none is set.
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

  /// Moves the first entries into trees. Throws `.noMemory`, without changing anything.
  @inline(__always)
  mutating func buildTrees() throws(EngineError) { if first.isOpen { try buildTreesFromFirst() } }

  @inline(never)
  private mutating func buildTreesFromFirst() throws(EngineError) {
    // The smallest tree has room for all entries of the list.
    var tables: [MemTable] = []
    for family in families { tables.append(try makeTable(family.state, least: 0)) }
    for index in families.indices { families[index].table = tables[index] }
    // The entries get new numbers: without savepoints and cursors, no earlier number was ever visible.
    var number: UInt64 = 0
    first.forEach { kind, id, key, value in
      number += 1
      if let index = index(of: id) { families[index].table.insert(key, Trailer(.pending(number), kind), value) }
    }
    first.close()
  }

  /// The cost of entries that do not count up to which the trees are not rebuilt.
  private static let deadCostMinimum = 64 << 10
  /// The maximum size of values that are folded as operands are added.
  private static let foldedSizeMaximum = 64

  private static let listedCountMaximum = 8

  /// Returns the index of a family in `families`, or `nil` if the batch has no entry of it.
  @inline(__always)
  func index(of id: FamilyID) -> Int? {
    if lastIndex < families.count, families[lastIndex].id == id { return lastIndex }
    // The index among a few families is found faster without the dictionary.
    if families.count > Self.listedCountMaximum { return indexes[id] }
    for index in families.indices where families[index].id == id { return index }
    return nil
  }

  /// Checks the limits, and drops the entries that do not count if they are the larger part or the batch is full.
  @inline(__always)
  private mutating func prepare(_ key: ByteView, _ value: ByteView) throws(EngineError) {
    let isFull = living.byteCount &+ key.count &+ value.count &+ 32 > Limits.batchSizeMaximum
    let livingCost = living.cost
    let waste = stored.cost &- livingCost &- heldCost &+ foldableCost
    if isFull || (waste > Self.deadCostMinimum && waste > livingCost &- foldableCost &+ heldCost) { rebuildAll() }
    try BatchFormat.checkLimits(key: key, value: value, batchSize: living.byteCount)
  }

  /// Returns the index of a family whose tree has room for an entry.
  @inline(__always)
  private mutating func slot(
    _ state: FamilyState, keySize: Int, valueSize: Int
  ) throws(EngineError) -> Int {
    guard let index = index(of: state.id) else { return try begin(state, keySize: keySize, valueSize: valueSize) }
    lastIndex = index
    if !families[index].table.hasRoom(keySize: keySize, valueSize: valueSize) {
      try enlarge(index, keySize: keySize, valueSize: valueSize)
    }
    return index
  }

  /// Creates the state of a family for its first entry.
  @inline(never)
  private mutating func begin(
    _ state: FamilyState, keySize: Int, valueSize: Int
  ) throws(EngineError) -> Int {
    append(PendingFamily(state: state, table: try makeTable(state, least: 8 * (keySize + valueSize + 64))))
    return lastIndex
  }

  /// Creates a tree as large as the family's last one.
  private func makeTable(_ state: FamilyState, least: Int) throws(EngineError) -> MemTable {
    try RebuiltFamily.makeTable(
      capacity: max(least, min(state.batchBytes, RebuiltFamily.pooledCapacityMaximum)), pool: engine.batchArenas)
  }

  private mutating func append(_ family: PendingFamily) {
    // Most batches write to a few families, so one allocation is enough for all.
    if families.isEmpty { families.reserveCapacity(Self.listedCountMaximum) }
    families.append(family)
    lastIndex = families.count - 1
    if families.count > Self.listedCountMaximum {
      if indexes.isEmpty { for (index, family) in families.enumerated() { indexes[family.id] = index } }
      indexes[family.id] = lastIndex
    }
  }

  /// Returns the batch's entries in a family as readers see them. The family must have a tree.
  ///
  /// With `isKept`, they are valid even after the next savepoint is set or undone.
  mutating func own(_ family: FamilyState, isKept: Bool = true) -> UncommittedWrites {
    let table = index(of: family.id).map { families[$0].table } ?? engine.pipeline.memory.empty
    let marks = self.marks ?? BatchMarks()
    self.marks = marks
    return UncommittedWrites(
      table: table, last: .pending(nextNumber - 1), undone: undone, marks: marks, tick: marks.tick(isKept: isKept))
  }

  /// Replaces a tree by a larger one with all entries that count, and room for one more.
  @inline(never)
  private mutating func enlarge(_ index: Int, keySize: Int, valueSize: Int) throws(EngineError) {
    let capacity = max(capacity(for: families[index]), 8 * (keySize + valueSize + 64))
    let rebuilt = try RebuiltFamily(
      remainingEntries(families[index]), capacity: capacity, keySize: keySize, valueSize: valueSize,
      pool: engine.batchArenas)
    stored += rebuilt.stored
    stored -= families[index].storedSize()
    replace(index, with: rebuilt)
    heldCost = min(heldCost, max(stored.cost - living.cost, 0))
  }

  /// Drops the entries that do not count. If there is no memory for that, the trees stay as they are.
  @inline(never)
  private mutating func rebuildAll() {
    var rebuilt: [RebuiltFamily] = []
    var stamped: Set<UInt64> = []
    do throws(EngineError) {
      for old in families {
        let new = try RebuiltFamily(
          remainingEntries(old), capacity: capacity(for: old), pool: engine.batchArenas)
        rebuilt.append(new)
        stamped.formUnion(new.stamped)
      }
    } catch {
      return
    }
    stored = PendingSize()
    for index in families.indices {
      stored += rebuilt[index].stored
      replace(index, with: rebuilt[index])
    }
    undone = .none
    stamps.keep(stamped)
    heldCost = max(stored.cost - living.cost, 0)
  }

  private func capacity(for family: PendingFamily) -> Int {
    4 * (family.table.usedBytes + family.table.tombstoneBytes)
  }

  private mutating func replace(_ index: Int, with rebuilt: RebuiltFamily) {
    let old = families[index]
    families[index] = rebuilt.family
    foldableCost -= old.foldableCost
    guard let change = rebuilt.changes.last else { return }
    living += change
    for (index, change) in zip(savepoints.indices, rebuilt.changes) { savepoints[index].living += change }
    guard old.isScratch else { return }
    scratchSize += change
    for (index, change) in zip(savepoints.indices, rebuilt.changes) { savepoints[index].scratchSize += change }
  }

  /// Returns the entries that count now or at a savepoint.
  private func remainingEntries(_ family: PendingFamily) -> LiveEntries {
    LiveEntries(
      family: family, last: nextNumber - 1, undone: undone, stamps: stamps, sections: savepoints.map(\.number),
      folding: .notLarger)
  }

  // MARK: - The commit

  /// Returns the entries that the commit writes, as a batch with room for `room` more bytes.
  ///
  /// The room is for entries that are not read before the commit and need not be in the trees. Throws `.noMemory`.
  /// Complexity: one pass over the trees.
  public func packed(room: Int = 0) throws(EngineError) -> WriteBatch { try makeBatch(room: room) }

  /// Returns the entries that the commit writes, or with `folding` none, the entries counted by `count`.
  ///
  /// Complexity: one pass over the trees.
  func makeBatch(folding: LiveEntries.Folding = .all, room: Int = 0) throws(EngineError) -> WriteBatch {
    var batch = WriteBatch(capacity: 0)
    try batch.reserve(byteCount + room)
    if first.isOpen {
      first.write(to: &batch)
      return batch
    }
    for family in families where !family.isScratch {
      family.state.batchBytes = family.table.usedBytes
      // The range deletes come first, because only entries that none of them covers are left.
      if family.table.hasTombstones {
        var ranges: [(lower: ByteView, upper: ByteView)] = []
        family.table.rangeTombstones.forEachTombstone(above: .zero) { lower, upper, _ in ranges.append((lower, upper)) }
        for range in ranges.reversed() { try batch.appendRange(family.id, range.lower, range.upper) }
      }
      let entries = LiveEntries(
        family: family, last: nextNumber - 1, undone: undone, stamps: stamps, folding: folding)
      try entries.forEach { (number, kind, key, value) throws(EngineError) in
        if let location = stamps.location(of: number) {
          try batch.appendStamped(family.id, key, value, at: location)
        } else {
          try batch.append(kind, family.id, key, value)
        }
      }
    }
    return batch
  }
}

extension Engine {
  /// Commits the entries of an indexed batch, like `write(_:durability:)` for a `WriteBatch`. The batch keeps its
  /// entries.
  @discardableResult
  public func write(
    _ batch: borrowing IndexedWriteBatch, durability: Durability? = nil
  ) throws(EngineError) -> SequenceNumber {
    guard batch.engine === core else {
      fatalError("the batch was made for another engine; write it to that one")
    }
    return try write(batch.makeBatch(), durability: durability)
  }
}
