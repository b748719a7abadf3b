/// Walks the keys of a family in order, both ways, all at one instant.
///
/// ```swift
/// var cursor = try engine.cursor(bounds: .prefix(Array("user/".utf8)))
/// try cursor.seekToFirst()
/// while cursor.isValid {
///   print(cursor.keyBytes, cursor.valueBytes)
///   try cursor.next()
/// }
/// ```
///
/// A cursor begins as not valid. `next` and `previous` need a valid one; walking over either end of the
/// bounds makes it not valid. After an error it is not valid, and a later seek may succeed.
///
/// It shows what was visible when it was made, or at its snapshot, whatever is written meanwhile, and
/// goes on also where its family is dropped. It keeps old versions of what changes from being dropped, but not
/// the files and memtables that it walks on: those of a cursor that is old or idle are taken back, and its
/// next move costs a seek more. What it keeps then is the block, or the memtable, of the entry it stands on;
/// and all files of its family where that was dropped.
/// Complexity: a seek O(log n) in each memtable and table that it looks into, a step amortised O(1).
/// A cursor belongs to one thread at a time.
///
/// # Safety
/// `owned` is released by `deinit` alone, so it lives as long as the cursor.
@safe
public struct EngineCursor: ~Copyable {
  /// Owned: counted once when the cursor is made, and never for a move.
  private let owned: Unmanaged<CursorHolder>
  // Of the entry that the cursor stands on. Kept here, because the iterator may be taken away.
  private var isPlaced = false
  private var currentKey = ByteView()
  private var currentValue = ByteView()

  init(_ holder: CursorHolder) { unsafe owned = Unmanaged.passRetained(holder) }

  deinit { unsafe owned.takeRetainedValue().close() }

  /// The last commit that the cursor sees.
  public var sequence: SequenceNumber { unsafe owned.withGuaranteed { $0.snapshot.sequence } }

  /// Whether the cursor stands on a key.
  @inline(__always)
  public var isValid: Bool { isPlaced }

  /// The key, valid until the cursor moves. Requires: valid.
  public var key: RawSpan {
    @_lifetime(borrow self)
    get {
      requireValid()
      return unsafe overrideLifetime(currentKey.rawSpan, borrowing: self)
    }
  }

  /// The value, valid until the cursor moves. Requires: valid.
  public var value: RawSpan {
    @_lifetime(borrow self)
    get {
      requireValid()
      return unsafe overrideLifetime(currentValue.rawSpan, borrowing: self)
    }
  }

  /// A copy of the key. Requires: valid.
  public var keyBytes: [UInt8] {
    requireValid()
    return currentKey.bytes
  }

  /// A copy of the value. Requires: valid.
  public var valueBytes: [UInt8] {
    requireValid()
    return currentValue.bytes
  }

  /// Calls `body` with key and value, which are valid inside of it. Requires: valid.
  public func withEntry<R, E: Error>(_ body: (RawSpan, RawSpan) throws(E) -> R) throws(E) -> R {
    requireValid()
    return unsafe try body(currentKey.rawSpan, currentValue.rawSpan)
  }

  @inline(__always)
  private func requireValid() {
    guard isPlaced else { fatalError("the cursor stands on no key; ask isValid first") }
  }

  // MARK: - Moves

  /// To the first key within the bounds.
  public mutating func seekToFirst() throws(EngineError) {
    try seek { (iterator) throws(EngineError) in try iterator.seekToFirst() }
  }

  /// To the last key within the bounds.
  public mutating func seekToLast() throws(EngineError) {
    try seek { (iterator) throws(EngineError) in try iterator.seekToLast() }
  }

  /// To the first key at or after `key`, within the bounds.
  public mutating func seek(_ key: RawSpan) throws(EngineError) {
    let start = unsafe owned.withGuaranteed { $0.snapshot.countSeekIsSample() ? $0.snapshot.beginTimed() : 0 }
    try key.withByteView { (key) throws(EngineError) in
      try seek { (iterator) throws(EngineError) in try iterator.seek(key) }
    }
    if start != 0 { unsafe owned.withGuaranteed { $0.snapshot.endTimed(.seek, from: start) } }
  }

  /// To the first key at or after `key`, within the bounds.
  public mutating func seek(_ key: [UInt8]) throws(EngineError) { try unsafe seek(key.span.bytes) }

  /// To the last key at or before `key`, within the bounds.
  public mutating func seekForPrevious(_ key: RawSpan) throws(EngineError) {
    try key.withByteView { (key) throws(EngineError) in
      try seek { (iterator) throws(EngineError) in try iterator.seekForPrevious(key) }
    }
  }

  /// To the last key at or before `key`, within the bounds.
  public mutating func seekForPrevious(_ key: [UInt8]) throws(EngineError) {
    try unsafe seekForPrevious(key.span.bytes)
  }

  /// To the next key. Requires: valid.
  @inline(__always)
  public mutating func next() throws(EngineError) {
    requireValid()
    try move(from: currentKey) { (iterator) throws(EngineError) in try iterator.next() }
  }

  /// To the key before. Requires: valid.
  @inline(__always)
  public mutating func previous() throws(EngineError) {
    requireValid()
    try move(from: currentKey) { (iterator) throws(EngineError) in try iterator.previous() }
  }

  @inline(__always)
  private mutating func seek(
    _ move: (inout VisibleIterator<MergeSource>) throws(EngineError) -> Void
  ) throws(EngineError) {
    try self.move(from: nil, move)
  }

  /// Moves the iterator and notes where it stands then. A move that goes on from a key has to find it again
  /// where the view was taken back.
  @inline(__always)
  private mutating func move(
    from key: ByteView?, _ move: (inout VisibleIterator<MergeSource>) throws(EngineError) -> Void
  ) throws(EngineError) {
    isPlaced = false
    let owned = unsafe owned
    unsafe try owned.withGuaranteed { (holder) throws(EngineError) in
      defer { holder.end() }
      if !holder.begin() { try holder.renew(at: key) }
      try move(&holder.iterator)
      guard holder.iterator.isValid else { return }
      currentKey = holder.iterator.userKey
      currentValue = holder.iterator.value
      isPlaced = true
    }
  }
}

extension Engine {
  /// A cursor over the keys of a family that lie within `bounds`, at a snapshot or at this instant.
  public func cursor(
    in family: ColumnFamily? = nil, bounds: CursorBounds = .all, snapshot: EngineSnapshot? = nil
  ) throws(EngineError) -> EngineCursor {
    try cursor(in: family, bounds: bounds, snapshot: snapshot, own: nil)
  }

  func cursor(
    in family: ColumnFamily?, bounds: CursorBounds, snapshot: EngineSnapshot?, own: OwnWrites?
  ) throws(EngineError) -> EngineCursor {
    checkOpen()
    let state = state(of: family)
    if state.isDropped { throw CommitPipeline.droppedError(state) }
    let deadRuns = snapshot == nil && own == nil ? background.deadRuns : nil
    let (view, held) = retainView(of: state, snapshot)
    return EngineCursor(
      CursorHolder(
        state, held, tree, bounds, background.cursors, view: views == nil ? nil : view, own: own, deadRuns: deadRuns))
  }
}
