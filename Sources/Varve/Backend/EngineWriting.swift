internal import Synchronization
internal import VarveEngine

/// The writes of a transaction as an indexed batch of the engine, which holds the only copy of them until the commit.
///
/// Appended changes are encoded in the log format at once, without an index, and follow the others in the commit.
///
/// # Puts without an index
/// Stamped puts of one family are in the log format, too, until the transaction reads that family, writes to it in
/// another way, or sets a savepoint. These puts get their index then, and later ones get theirs at once. A transaction
/// that only adds to a queue never pays for an index.
final class EngineWriting: StorageWriting {
  private var batch: IndexedWriteBatch
  private var appended = WriteBatch(capacity: 0)
  /// Stamped puts that have no index yet.
  private var unindexed = WriteBatch(capacity: 0)
  /// The family of `unindexed`, or nil if it is empty.
  private var unindexedFamily: StorageFamily?
  /// Whether stamped puts get their index at once.
  private var indexesAtOnce = false
  /// The size of `batch`, and that of `appended` and `unindexed`, which are read at each write. They are atomics
  /// because fields would be checked for exclusive access.
  private let batchSize = Atomic<Int>(0)
  private let sizeWithoutIndex = Atomic<Int>(0)
  /// The positions in `appended` at which savepoints were set.
  private var appendedMarks: [WriteBatch.Mark] = []
  /// Where the last change of each key of `appended` is, for each family of which this was asked.
  private var appendedIndexes: [UInt32: AppendedIndex] = [:]
  /// The families of `appended`, each with the number of entries that it had before the family's first entry.
  private var appendedFamilies: [(number: UInt32, start: Int)] = []
  private var scratchFamilies: [UInt32] = []
  private let backend: EngineBackend
  private let snapshot: EngineBackendSnapshot

  init(_ snapshot: EngineBackendSnapshot, _ backend: EngineBackend) {
    batch = IndexedWriteBatch(backend.engine, snapshot: snapshot.snapshot)
    self.backend = backend
    self.snapshot = snapshot
  }

  var isEmpty: Bool { batch.isEmpty && appended.isEmpty && unindexed.isEmpty }
  var byteCount: Int { batchSize.load(ordering: .relaxed) &+ sizeWithoutIndex.load(ordering: .relaxed) }

  /// Changes the batch and updates its size.
  @inline(__always)
  private func change(_ body: (inout IndexedWriteBatch) throws(EngineError) -> Void) throws(EngineError) {
    try Self.change(&batch, batchSize, body)
  }

  /// Changes the batch in a single access, so that exclusivity is checked only once.
  @inline(__always)
  private static func change(
    _ batch: inout IndexedWriteBatch, _ size: borrowing Atomic<Int>,
    _ body: (inout IndexedWriteBatch) throws(EngineError) -> Void
  ) throws(EngineError) {
    try body(&batch)
    size.store(batch.limitedByteCount, ordering: .relaxed)
  }

  @inline(__always)
  private func noteSize(of batch: borrowing IndexedWriteBatch) {
    batchSize.store(batch.limitedByteCount, ordering: .relaxed)
  }

  /// Returns the batch that the commit writes, with room for `room` more bytes.
  func packed(room: Int) throws(EngineError) -> WriteBatch {
    var packed = try batch.packed(room: room + unindexed.byteCount + appended.byteCount)
    // Later entries of the family would have given these an index, so all that are in `batch` are earlier.
    if !unindexed.isEmpty { try packed.append(unindexed) }
    if !appended.isEmpty { try packed.append(appended) }
    return packed
  }

  // MARK: - Puts without an index

  /// The puts of a family get an index, because it is looked at, or written to in another way.
  @inline(__always)
  private func ensureIndexed(_ family: StorageFamily) throws {
    if unindexedFamily?.number == family.number { try indexAll() }
  }

  @inline(never)
  private func indexAll() throws {
    indexesAtOnce = true
    guard let family = unindexedFamily else { return }
    let column = try snapshot.family(family)
    try mapped { () throws(EngineError) in
      try change { (batch) throws(EngineError) in try batch.append(unindexed, of: column) }
    }
    unindexedFamily = nil
    unindexed = WriteBatch(capacity: 0)
    noteSizeWithoutIndex()
  }

  @inline(__always)
  private func noteSizeWithoutIndex() {
    sizeWithoutIndex.store(appended.byteCount &+ unindexed.byteCount, ordering: .relaxed)
  }

  // MARK: - Writing

  func put(_ key: RawSpan, _ value: RawSpan, in family: StorageFamily) throws {
    try ensureIndexed(family)
    let family = try snapshot.family(family)
    try mapped { () throws(EngineError) in
      try change { (batch) throws(EngineError) in try batch.put(key, value, in: family) }
    }
  }

  func delete(_ key: [UInt8], in family: StorageFamily) throws {
    try ensureIndexed(family)
    let family = try snapshot.family(family)
    try mapped { () throws(EngineError) in
      try change { (batch) throws(EngineError) in try batch.delete(key, in: family) }
    }
  }

  func singleDelete(_ key: [UInt8], in family: StorageFamily) throws {
    try ensureIndexed(family)
    let family = try snapshot.family(family)
    try mapped { () throws(EngineError) in
      try change { (batch) throws(EngineError) in try batch.singleDelete(key, in: family) }
    }
  }

  func add(_ number: Int64, by rule: CounterRule, to key: [UInt8], in family: StorageFamily) throws {
    try ensureIndexed(family)
    let family = try snapshot.family(family)
    guard rule == .sum else {
      return try mapped { () throws(EngineError) in
        try change { (batch) throws(EngineError) in try batch.merge(key, rule.bytes(number), in: family) }
      }
    }
    try mapped { () throws(EngineError) in
      try unsafe withUnsafeBytes(of: number.littleEndian) { (bytes) throws(EngineError) in
        try change { (batch) throws(EngineError) in
          try unsafe batch.merge(key.span.bytes, RawSpan(_unsafeBytes: bytes), in: family)
        }
      }
    }
  }

  func putStamped(_ key: [UInt8], _ value: [UInt8], at position: StampPosition, in family: StorageFamily) throws {
    let column = try snapshot.family(family)
    if !indexesAtOnce, unindexedFamily.map({ $0.number == family.number }) ?? !isScratch(family) {
      try mapped { () throws(EngineError) in
        try unindexed.putStamped(key, value, at: position.ofEngine, in: column)
      }
      if unindexedFamily == nil { unindexedFamily = family }
      return noteSizeWithoutIndex()
    }
    try mapped { () throws(EngineError) in
      try change { (batch) throws(EngineError) in
        try batch.putStamped(key, value, at: position.ofEngine, in: column)
      }
    }
  }

  func markAsScratch(_ family: StorageFamily) throws {
    try ensureIndexed(family)
    let column = try snapshot.family(family)
    try mapped { () throws(EngineError) in
      try change { (batch) throws(EngineError) in try batch.markAsScratch(column) }
    }
    if !scratchFamilies.contains(family.number) { scratchFamilies.append(family.number) }
  }

  func isScratch(_ family: StorageFamily) -> Bool { scratchFamilies.contains(family.number) }

  func deleteRange(_ range: StorageRange, in family: StorageFamily) throws {
    guard !range.isEmpty else { return }
    try ensureIndexed(family)
    let column = try snapshot.family(family)
    if let upper = range.upper {
      return try mapped { () throws(EngineError) in
        try change { (batch) throws(EngineError) in
          try batch.deleteRange(from: range.lower, to: upper, in: column)
        }
      }
    }
    // The engine's range deletes need an upper bound, so the range ends after the last key that exists.
    let page = try view(of: family).page(
      range, in: family, isReverse: true, keysOnly: true, byteLimit: 1, rowLimit: 1)
    guard page.count > 0 else { return }
    let last = page.key(0)
    try mapped { () throws(EngineError) in
      guard last.count == backend.limits.keySize else {
        return try change { (batch) throws(EngineError) in
          try batch.deleteRange(from: range.lower, to: last + [0], in: column)
        }
      }
      // A key of the maximum size is deleted by itself, because an upper bound after it would be too long.
      try change { (batch) throws(EngineError) in
        try batch.deleteRange(from: range.lower, to: last, in: column)
        try batch.delete(last, in: column)
      }
    }
  }

  // MARK: - Appending

  func append(
    _ operation: StorageBatch.Operation, _ key: RawSpan, _ value: RawSpan, in family: StorageFamily
  ) throws {
    let column = try snapshot.family(family)
    let count = appended.count
    switch operation {
    case .put: try mapped { () throws(EngineError) in try appended.put(key, value, in: column) }
    case .delete: try mapped { () throws(EngineError) in try appended.delete(key, in: column) }
    case .deleteRange:
      try mapped { () throws(EngineError) in try appended.deleteRange(from: key, to: value, in: column) }
    case .deleteToEnd: try appendDelete(from: key.copied, family, column)
    case .singleDelete: try mapped { () throws(EngineError) in try appended.singleDelete(key, in: column) }
    case .add, .putStamped:
      throw DatabaseError(.invalidArgument, "an operation of the kind \(operation) is not appended")
    }
    noteAppended(family, after: count)
  }

  func appendStamped(_ key: [UInt8], _ value: [UInt8], at position: StampPosition, in family: StorageFamily) throws {
    let column = try snapshot.family(family)
    let count = appended.count
    try mapped { () throws(EngineError) in try appended.putStamped(key, value, at: position.ofEngine, in: column) }
    noteAppended(family, after: count)
  }

  func hasAppended(to family: StorageFamily) -> Bool { appendedFamilies.contains { $0.number == family.number } }

  func appendedChange(of key: [UInt8], in family: StorageFamily) throws -> AppendedChange? {
    guard hasAppended(to: family) else { return nil }
    return try mapped { () throws(EngineError) in
      let number = family.number
      guard let offset = try appendedIndexes[number, default: AppendedIndex()].offset(of: key, in: number, of: appended)
      else { return nil }
      return try appended.value(at: offset).map { .put($0) } ?? .delete
    }
  }

  @inline(__always)
  private func noteAppended(_ family: StorageFamily, after count: Int) {
    noteSizeWithoutIndex()
    // Most transactions append to one family.
    if appendedFamilies.first?.number == family.number || hasAppended(to: family) || appended.count == count { return }
    appendedFamilies.append((family.number, count))
  }

  /// Appends a delete from a key to the end of a family. The engine's range deletes need an upper bound, so the range
  /// ends after the last key that exists or was appended.
  private func appendDelete(from lower: [UInt8], _ family: StorageFamily, _ column: ColumnFamily) throws {
    let page = try view(of: family).page(
      StorageRange(lower: lower), in: family, isReverse: true, keysOnly: true, byteLimit: 1, rowLimit: 1)
    let committed = page.count > 0 ? page.key(0) : nil
    let lastAppended = appended.lastKey(in: column).flatMap { ByteOrder.precedes($0, lower) ? nil : $0 }
    let keys = [committed, lastAppended].compactMap(\.self)
    guard let last = keys.max(by: ByteOrder.precedes) else { return }
    try mapped { () throws(EngineError) in
      guard last.count == backend.limits.keySize else {
        return try appended.deleteRange(from: lower, to: last + [0], in: column)
      }
      // A key of the maximum size is deleted by itself, because an upper bound after it would be too long.
      try appended.deleteRange(from: lower, to: last, in: column)
      try appended.delete(last, in: column)
    }
  }

  // MARK: - Reading

  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
    try ensureIndexed(family)
    let family = try snapshot.family(family)
    do {
      let _: Void? = unsafe try batch.withValue(forKey: key.span.bytes, in: family, body)
    } catch let error as EngineError {
      throw DatabaseError(error)
    }
  }

  func visitFirst(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws {
    guard !range.isEmpty else { return }
    try ensureIndexed(family)
    let family = try snapshot.family(family)
    do {
      if let upper = range.upper {
        _ = unsafe try batch.withFirst(from: range.lower.span.bytes, to: upper.span.bytes, in: family, body)
      } else {
        _ = unsafe try batch.withFirst(from: range.lower.span.bytes, to: nil, in: family, body)
      }
    } catch let error as EngineError {
      throw DatabaseError(error)
    }
  }

  func visitRows(
    of range: StorageRange, in family: StorageFamily, _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws {
    guard !range.isEmpty else { return }
    try ensureIndexed(family)
    let family = try snapshot.family(family)
    do {
      if let upper = range.upper {
        unsafe try batch.forEachEntry(from: range.lower.span.bytes, to: upper.span.bytes, in: family, body)
      } else {
        unsafe try batch.forEachEntry(from: range.lower.span.bytes, to: nil, in: family, body)
      }
    } catch let error as EngineError {
      throw DatabaseError(error)
    }
  }

  func decides(_ key: [UInt8], in family: StorageFamily) -> Bool {
    guard (try? ensureIndexed(family)) != nil, let family = try? snapshot.family(family) else { return false }
    return batch.decides(key, in: family)
  }

  func view(of family: StorageFamily) -> any StorageReading {
    guard let column = try? snapshot.family(family) else { return snapshot }
    do {
      try ensureIndexed(family)
      return EngineView(try mapped { () throws(EngineError) in try batch.view(of: column) })
    } catch {
      return RefusedView(error)
    }
  }

  // MARK: - Savepoints

  func setSavepoint() throws {
    try indexAll()
    batch.setSavepoint()
    appendedMarks.append(appended.mark)
  }

  // Ending a savepoint fails only if none was set, and each savepoint is ended exactly once.
  func releaseSavepoint() {
    try? batch.releaseSavepoint()
    appendedMarks.removeLast()
  }

  func rollBack() {
    try? batch.rollbackToSavepoint()
    noteSize(of: batch)
    let mark = appendedMarks.removeLast()
    if mark.count == appended.count { return }
    appended.cut(to: mark)
    for number in appendedIndexes.keys { appendedIndexes[number]?.cut(to: appended.byteCount) }
    noteSizeWithoutIndex()
    appendedFamilies.removeAll { $0.start >= mark.count }
  }
}

/// A family as a transaction saw it.
private final class EngineView: StorageReading, @unchecked Sendable {
  // Sendable: the view never changes, and it never reads entries that were added later.
  private let view: BatchView

  init(_ view: BatchView) { self.view = view }

  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
    let page = try page(
      StorageRange(lower: key, upper: key + [0]), in: family, isReverse: false, keysOnly: false, byteLimit: 1,
      rowLimit: 1)
    guard page.count > 0 else { return }
    let value = page.value(0)
    unsafe try body(value.span.bytes)
  }

  func page(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws -> StoragePage {
    do {
      var cursor = try view.cursor(bounds: CursorBounds(lower: range.lower, upper: range.upper))
      return try StoragePage(
        &cursor, isReverse: isReverse, keysOnly: keysOnly, byteLimit: byteLimit, rowLimit: rowLimit)
    } catch {
      throw DatabaseError(error)
    }
  }
}

/// A view of a family that could not be opened: each read throws the reason.
private final class RefusedView: StorageReading {
  private let error: any Error

  init(_ error: any Error) { self.error = error }

  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws { throw error }

  func page(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws -> StoragePage { throw error }
}

extension StoragePage {
  /// Reads rows of a cursor from the beginning of its range, or from the end. If damage is met after the first row, the
  /// page has the rows before it, and reading the next page throws.
  init(
    _ cursor: inout EngineCursor, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws(EngineError) {
    // The buffer gets its full capacity at once. A buffer that grew to its limit by doubling would be copied at each
    // step, and its last allocation might be so large that the allocator maps memory again for each page.
    let capacity = min(byteLimit, FamilyCursor.pageSizeMaximum)
    self.init(capacity: capacity + 1_024, rowCount: min(rowLimit, capacity / 64))
    if isReverse { try cursor.seekToLast() } else { try cursor.seekToFirst() }
    while cursor.isValid, count < rowLimit, byteCount < byteLimit || count == 0 {
      cursor.withEntry { append(key: $0, value: keysOnly ? RawSpan() : $1) }
      do {
        if isReverse { try cursor.previous() } else { try cursor.next() }
      } catch {
        guard error.code == .corruption else { throw error }
        return
      }
    }
    isLast = !cursor.isValid
  }
}
