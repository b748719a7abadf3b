internal import VarveEngine

/// What a transaction writes, as an indexed batch of the engine: the one copy of it until the commit.
final class EngineWriting: StorageWriting {
  private var batch: IndexedWriteBatch
  private let backend: EngineBackend
  private let snapshot: EngineBackendSnapshot

  init(_ snapshot: EngineBackendSnapshot, _ backend: EngineBackend) {
    batch = IndexedWriteBatch(backend.engine, snapshot: snapshot.snapshot)
    self.backend = backend
    self.snapshot = snapshot
  }

  var isEmpty: Bool { batch.isEmpty }
  var byteCount: Int { batch.byteCount }

  /// What the commit writes, with room for more.
  func packed(room: Int) throws(EngineError) -> WriteBatch { try batch.packed(room: room) }

  // MARK: - Writing

  func put(_ key: RawSpan, _ value: RawSpan, in family: StorageFamily) throws {
    let family = try snapshot.family(family)
    try mapped { () throws(EngineError) in try batch.put(key, value, in: family) }
  }

  func delete(_ key: [UInt8], in family: StorageFamily) throws {
    let family = try snapshot.family(family)
    try mapped { () throws(EngineError) in try batch.delete(key, in: family) }
  }

  func add(_ number: Int64, to key: [UInt8], in family: StorageFamily) throws {
    let family = try snapshot.family(family)
    try mapped { () throws(EngineError) in
      try unsafe withUnsafeBytes(of: number.littleEndian) { (bytes) throws(EngineError) in
        try unsafe batch.merge(key.span.bytes, RawSpan(_unsafeBytes: bytes), in: family)
      }
    }
  }

  func putStamped(_ key: [UInt8], _ value: [UInt8], in family: StorageFamily) throws {
    let family = try snapshot.family(family)
    try mapped { () throws(EngineError) in try batch.putStamped(key, value, at: .key(0), in: family) }
  }

  func deleteRange(_ range: StorageRange, in family: StorageFamily) throws {
    guard !range.isEmpty else { return }
    let column = try snapshot.family(family)
    if let upper = range.upper {
      return try mapped { () throws(EngineError) in try batch.deleteRange(from: range.lower, to: upper, in: column) }
    }
    // The engine's ranges have an end: here after the last key that there is.
    let page = try view(of: family).page(
      range, in: family, isReverse: true, keysOnly: true, byteLimit: 1, rowLimit: 1)
    guard page.count > 0 else { return }
    let last = page.key(0)
    try mapped { () throws(EngineError) in
      guard last.count == backend.limits.keySize else {
        return try batch.deleteRange(from: range.lower, to: last + [0], in: column)
      }
      // The longest key goes by itself: one after it would be too long.
      try batch.deleteRange(from: range.lower, to: last, in: column)
      try batch.delete(last, in: column)
    }
  }

  // MARK: - Reading

  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
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

  func decides(_ key: [UInt8], in family: StorageFamily) -> Bool {
    guard let family = try? snapshot.family(family) else { return false }
    return batch.decides(key, in: family)
  }

  func view(of family: StorageFamily) -> any StorageReading {
    guard let column = try? snapshot.family(family) else { return snapshot }
    return EngineView(batch.view(of: column))
  }

  // MARK: - Savepoints

  func setSavepoint() { batch.setSavepoint() }

  // Only a savepoint that was never set is an error, and each is ended once.
  func releaseSavepoint() { try? batch.releaseSavepoint() }
  func rollBack() { try? batch.rollbackToSavepoint() }
}

/// A family as a transaction saw it.
private final class EngineView: StorageReading, @unchecked Sendable {
  // Sendable: nothing of it changes, and entries that come later are never read.
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

extension StoragePage {
  /// The rows of a cursor from its beginning, or from its end. What lies before damage is in the page; the next
  /// page meets the damage.
  init(
    _ cursor: inout EngineCursor, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws(EngineError) {
    self.init(capacity: min(byteLimit, 4096))
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
