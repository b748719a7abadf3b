/// The read path: a lookup searches the active memtable, the frozen memtables from the newest, level 0 from the newest,
/// and one table of each deeper level. The first visible entry decides.
extension Engine {
  /// Returns a copy of the value of a key, or nil if the key has no value.
  ///
  /// Throws `.familyDropped`, `.corruption` and `.inputOutput`. Complexity: O(log n) in each memtable, a filter for
  /// each table that could contain the key, and a block of the one that does.
  public func get(
    _ key: RawSpan, in family: ColumnFamily? = nil, snapshot: EngineSnapshot? = nil
  ) throws(EngineError) -> [UInt8]? {
    try key.withByteView { (key) throws(EngineError) in
      try core.lookUp(key, family, snapshot) { $0?.bytes }
    }
  }

  /// Returns a copy of the value of a key given as an array, or nil if the key has no value.
  public func get(
    _ key: [UInt8], in family: ColumnFamily? = nil, snapshot: EngineSnapshot? = nil
  ) throws(EngineError) -> [UInt8]? {
    try unsafe get(key.span.bytes, in: family, snapshot: snapshot)
  }

  /// Calls `body` with the value of a key, without copying the value. Returns nil if the key has no value.
  ///
  /// `body` should be short: the memory and files that the read uses are kept until it returns. It must not close the
  /// engine.
  @inlinable
  public func withValue<R>(
    forKey key: RawSpan, in family: ColumnFamily? = nil, snapshot: EngineSnapshot? = nil,
    _ body: (RawSpan) throws -> R
  ) throws -> R? {
    // Inlined, so that the caller's `R` is known: unspecialized, checking the type `R?` took a fifth of a memtable
    // lookup.
    var result: R?
    var failure: (any Error)?
    try visit(key, family, snapshot) { value in
      do { result = try body(value) } catch { failure = error }
    }
    if let failure { throw failure }
    return result
  }

  @usableFromInline
  func visit(
    _ key: RawSpan, _ family: ColumnFamily?, _ snapshot: EngineSnapshot?, _ body: (RawSpan) -> Void
  ) throws(EngineError) {
    try key.withByteView { (key) throws(EngineError) in
      try core.lookUp(key, family, snapshot) { value in
        if let value { unsafe body(RawSpan(_unsafeStart: value.base, byteCount: value.count)) }
      }
    }
  }

  /// Returns whether a key has a value.
  public func contains(
    _ key: RawSpan, in family: ColumnFamily? = nil, snapshot: EngineSnapshot? = nil
  ) throws(EngineError) -> Bool {
    try key.withByteView { (key) throws(EngineError) in try core.lookUp(key, family, snapshot) { $0 != nil } }
  }

  /// Returns whether a key given as an array has a value.
  public func contains(
    _ key: [UInt8], in family: ColumnFamily? = nil, snapshot: EngineSnapshot? = nil
  ) throws(EngineError) -> Bool {
    try unsafe contains(key.span.bytes, in: family, snapshot: snapshot)
  }

  /// The lowest sequence that a snapshot or a cursor reads at, now or later, or the last visible one if there is none.
  ///
  /// Complexity: O(1). Safe from any thread.
  public var oldestReadSequence: SequenceNumber {
    core.snapshots.oldest(orVisible: { core.pipeline.visible })
  }

  /// Returns a snapshot of the current state of the database, for reads.
  public func snapshot() -> EngineSnapshot {
    core.checkOpen()
    return core.makeSnapshot()
  }

  /// Runs `body`, during which reads on this thread access no file.
  ///
  /// A read that the memtables and the cache cannot answer throws `.wouldReadFile`. Returns `nil` if a read threw it,
  /// whether or not `body` handled the error. Repeat the reads in that case where waiting is allowed.
  ///
  /// ```swift
  /// if let found = try engine.withoutFileReads({ try engine.get(key) }) { return found }
  /// return try await engine.async.get(key)
  /// ```
  ///
  /// Use it in callers that must not wait for a disk, such as tasks on Swift's cooperative pool. It applies to all
  /// engines, and to `get`, `multiGet`, `contains`, `withValue` and cursors. Writes inside `body` may still wait. Calls
  /// can be nested. Throws what `body` throws. Cost: a few nanoseconds.
  public func withoutFileReads<Result>(_ body: () throws -> Result) throws -> Result? {
    try FileReadBan.run(body)
  }
}

/// The implementation of the read path.
extension EngineCore {
  /// Calls `body` with the value of a key, if it has one: see `Engine.withValue`.
  func visitValue(
    _ key: RawSpan, _ family: ColumnFamily?, _ snapshot: EngineSnapshot?, _ body: (ByteView) -> Void
  ) throws(EngineError) {
    try key.withByteView { (key) throws(EngineError) in
      try lookUp(key, family, snapshot) { value in if let value { body(value) } }
    }
  }

  @inline(__always)
  fileprivate func lookUp<R>(
    _ key: ByteView, _ family: ColumnFamily?, _ snapshot: EngineSnapshot?, _ body: (ByteView?) -> R
  ) throws(EngineError) -> R {
    try requireOpen()
    let state = state(of: family)
    if state.isDropped { throw CommitPipeline.droppedError(state) }
    let mark = epochs.enter()
    let start = epochs.countIsSample(mark) ? beginTimed() : 0
    defer {
      epochs.leave(mark)
      if start != 0 { endTimed(.get, from: start) }
    }
    let (view, sequence) = unsafe pin(state, snapshot)
    return try unsafe view.withGuaranteed { (view) throws(EngineError) in
      try find(key, view, sequence, body)
    }
  }

  /// Returns a view and the sequence to read it at.
  ///
  /// The view did not change while the sequence was loaded. So no entry that is visible at the sequence was dropped
  /// from the view, and it has every entry up to the sequence.
  @inline(__always)
  func pin(
    _ state: FamilyState, _ snapshot: EngineSnapshot?
  ) -> (Unmanaged<ReadView>, SequenceNumber) {
    var identity = state.viewIdentity
    if let snapshot {
      if let view = snapshot.held?.view(of: state) { return (unsafe .passUnretained(view), snapshot.sequence) }
      return (unsafe state.view(identity), snapshot.sequence)
    }
    while true {
      let sequence = pipeline.visible
      let again = state.viewIdentity
      if again == identity { return (unsafe state.view(identity), sequence) }
      identity = again
    }
  }

  @inline(__always)
  func find<R>(
    _ key: ByteView, _ view: ReadView, _ sequence: SequenceNumber, _ body: (ByteView?) -> R
  ) throws(EngineError) -> R {
    if sequence < view.floor { return body(nil) }
    if view.hasRangeTombstones { return try findCovered(key, view, sequence, body) }
    if let hit = view.memTable.get(key, at: sequence) {
      return try answer(hit.trailer, hit.value, key, view, sequence, body)
    }
    if !view.frozen.isEmpty, let hit = Self.findFrozen(key, view, sequence) {
      return try answer(hit.trailer, hit.value, key, view, sequence, body)
    }
    if view.version.isEmpty { return body(nil) }
    return try findInTables(key, view, sequence, body)
  }

  @inline(never)
  static func findFrozen(_ key: ByteView, _ view: ReadView, _ sequence: SequenceNumber) -> MemTableHit? {
    for table in view.frozen {
      if let hit = table.get(key, at: sequence) { return hit }
    }
    return nil
  }

  @inline(__always)
  private func findInTables<R>(
    _ key: ByteView, _ view: ReadView, _ sequence: SequenceNumber, _ body: (ByteView?) -> R
  ) throws(EngineError) -> R {
    let hash = KeyHash.hash(key)
    prefetchFilters(key, hash, view, sequence)
    var result: R?
    try view.version.forEachTable(thatMayHold: key, at: sequence) { (table) throws(EngineError) in
      let reader = unsafe try tree.borrowReader(table)
      return try unsafe reader.withGuaranteed { (reader) throws(EngineError) in
        guard let hit = try reader.get(key, hash: hash, at: sequence) else { return true }
        result = try answer(hit.trailer, hit.value, key, view, sequence, body)
        return false
      }
    }
    return result ?? body(nil)
  }

  /// Prefetches the lines of the filters that a lookup is about to read, so that their misses overlap. With few tables
  /// there is no gain.
  @inline(__always)
  private func prefetchFilters(_ key: ByteView, _ hash: UInt64, _ view: ReadView, _ sequence: SequenceNumber) {
    guard view.version.searchedCount > 2 else { return }
    view.version.forEachTable(thatMayHold: key, at: sequence) { table in
      // A table that is not open stays closed: a prefetch does not open it.
      if let reader = unsafe table.slot.present {
        unsafe reader._withUnsafeGuaranteedRef { $0.prefetchFilterLookup(hash) }
      }
      return true
    }
  }

  /// Returns the result for the newest visible entry of a key, which no range tombstone covers.
  @inline(__always)
  func answer<R>(
    _ trailer: Trailer, _ value: ByteView, _ key: ByteView, _ view: ReadView, _ sequence: SequenceNumber,
    _ body: (ByteView?) -> R
  ) throws(EngineError) -> R {
    switch trailer.kind {
    case .put: return body(value)
    case .delete, .singleDelete: return body(nil)
    case .merge: return try findMerged(key, view, sequence, body)
    case .rangeDelete, nil: throw Self.unreadable(trailer)
    }
  }

  /// Returns the value of a key whose newest entry is a merge operand, by iterating over its entries in all sources.
  @inline(never)
  private func findMerged<R>(
    _ key: ByteView, _ view: ReadView, _ sequence: SequenceNumber, _ body: (ByteView?) -> R
  ) throws(EngineError) -> R {
    var iterator = view.iterator(tree, at: sequence)
    try iterator.seek(key)
    return body(iterator.isValid && iterator.userKey == key ? iterator.value : nil)
  }

  /// Finds a key in a view with range tombstones.
  ///
  /// Each source, newest first, returns its entry of the key and the sequence of the newest tombstone over it. The
  /// first source with either decides: all others are older.
  @inline(never)
  private func findCovered<R>(
    _ key: ByteView, _ view: ReadView, _ sequence: SequenceNumber, _ body: (ByteView?) -> R
  ) throws(EngineError) -> R {
    switch Self.findInMemTables(key, view, sequence) {
    case .deleted: return body(nil)
    case .hit(let hit): return try answer(hit.trailer, hit.value, key, view, sequence, body)
    case .nothing: break
    }
    let hash = KeyHash.hash(key)
    prefetchFilters(key, hash, view, sequence)
    var result: R?
    try view.version.forEachTable(thatMayHold: key, at: sequence) { (table) throws(EngineError) in
      let reader = unsafe try tree.borrowReader(table)
      return try unsafe reader.withGuaranteed { (reader) throws(EngineError) in
        let covered = try reader.tombstone(covering: key, at: sequence)
        guard let hit = try reader.get(key, hash: hash, at: sequence) else {
          if covered != .zero { result = body(nil) }
          return covered == .zero
        }
        if hit.trailer.sequence < covered {
          result = body(nil)
        } else {
          result = try answer(hit.trailer, hit.value, key, view, sequence, body)
        }
        return false
      }
    }
    return result ?? body(nil)
  }

  private enum MemTableAnswer {
    case nothing, deleted, hit(MemTableHit)
  }

  @inline(never)
  private static func findInMemTables(
    _ key: ByteView, _ view: ReadView, _ sequence: SequenceNumber
  ) -> MemTableAnswer {
    var index = -1
    while index < view.frozen.count {
      let table = index < 0 ? view.memTable : view.frozen[index]
      let covered = table.rangeTombstones.sequence(covering: key, at: sequence)
      if let hit = table.get(key, at: sequence), hit.trailer.sequence >= covered { return .hit(hit) }
      if covered != .zero { return .deleted }
      index += 1
    }
    return .nothing
  }

  @inline(never)
  private static func unreadable(_ trailer: Trailer) -> EngineError {
    EngineError(
      .unsupportedFormat,
      "an entry at sequence \(trailer.sequence) has kind \(trailer.rawKind), unknown to this version")
  }
}

extension Engine {
  /// Runs `body`, during which long reads and copies on this thread throw `.canceled` once the calling task is
  /// cancelled: those that pass many deleted keys, and checkpoints while they copy files.
  ///
  /// Applies to all engines. Cost: a few nanoseconds.
  package static func endingIfCancelled<Result>(_ body: () throws -> Result) rethrows -> Result {
    try TaskCancellation.ends(body)
  }
}
