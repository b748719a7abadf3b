/// Iterates the keys of a family in order, in both directions, from one snapshot.
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
/// A new cursor is not valid until a seek. `next` and `previous` require a valid cursor; moving past either end of the
/// bounds makes it invalid. After an error it is invalid, and a later seek can succeed. If the error is `.mergeFailed`,
/// because the operands of one key can't be folded, `unreadableKey` is that key, and `next` and `previous` continue
/// from there.
///
/// It shows the state at its creation, or that of its snapshot, whatever is written later, and continues if its family
/// is dropped. It keeps old versions of changed keys from being dropped, but not the files and memtables that it
/// iterates: the engine takes back those of an old or idle cursor, and its next move costs an additional seek. The
/// cursor then keeps the block, or the memtable, of its current entry, and all files of its family if the family was
/// dropped.
///
/// Complexity: a seek is O(log n) in each memtable and table that it searches, a step amortized O(1).
/// A cursor belongs to one thread at a time.
///
/// # Safety
/// `owned` is released only by `deinit`, so it lives as long as the cursor.
@safe
public struct EngineCursor: ~Copyable {
  /// The holder, retained once when the cursor is made, and never for a move.
  private let owned: Unmanaged<CursorHolder>
  // The state of the current entry is stored here because the iterator may be taken away.
  private var isPlaced = false
  /// Whether `currentKey` is the key whose operands the last move could not fold.
  private var isAtUnreadable = false
  private var currentKey = ByteView()
  private var currentValue = ByteView()

  init(_ holder: CursorHolder) { unsafe owned = Unmanaged.passRetained(holder) }

  deinit { unsafe owned.takeRetainedValue().close() }

  /// The last commit that the cursor sees.
  public var sequence: SequenceNumber { unsafe owned.withGuaranteed { $0.snapshot.sequence } }

  /// A Boolean value that indicates whether the cursor is at a key.
  @inline(__always)
  public var isValid: Bool { isPlaced }

  /// The key whose merge operands the last move could not fold, or nil if that did not happen. The next step continues
  /// from this key.
  public var unreadableKey: [UInt8]? { isAtUnreadable ? currentKey.bytes : nil }

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

  /// Calls `body` with key and value, which are valid only inside of it. Requires: valid.
  public func withEntry<R, E: Error>(_ body: (RawSpan, RawSpan) throws(E) -> R) throws(E) -> R {
    requireValid()
    return unsafe try body(currentKey.rawSpan, currentValue.rawSpan)
  }

  @inline(__always)
  private func requireValid() {
    guard isPlaced else { fatalError("the cursor stands on no key; ask isValid first") }
  }

  @inline(__always)
  private func requirePosition() {
    guard isPlaced || isAtUnreadable else { fatalError("the cursor stands on no key; ask isValid first") }
  }

  // MARK: - Movement

  /// Moves to the first key within the bounds.
  public mutating func seekToFirst() throws(EngineError) {
    try seek { (iterator) throws(EngineError) in try iterator.seekToFirst() }
  }

  /// Moves to the last key within the bounds.
  public mutating func seekToLast() throws(EngineError) {
    try seek { (iterator) throws(EngineError) in try iterator.seekToLast() }
  }

  /// Moves to the first key at or after `key`, within the bounds.
  public mutating func seek(_ key: RawSpan) throws(EngineError) {
    let start = unsafe owned.withGuaranteed { $0.snapshot.countSeekIsSample() ? $0.snapshot.beginTimed() : 0 }
    try key.withByteView { (key) throws(EngineError) in
      try seek { (iterator) throws(EngineError) in try iterator.seek(key) }
    }
    if start != 0 { unsafe owned.withGuaranteed { $0.snapshot.endTimed(.seek, from: start) } }
  }

  /// Moves to the first key at or after `key`, within the bounds.
  public mutating func seek(_ key: [UInt8]) throws(EngineError) { try unsafe seek(key.span.bytes) }

  /// Moves to the last key at or before `key`, within the bounds.
  public mutating func seekForPrevious(_ key: RawSpan) throws(EngineError) {
    try key.withByteView { (key) throws(EngineError) in
      try seek { (iterator) throws(EngineError) in try iterator.seekForPrevious(key) }
    }
  }

  /// Moves to the last key at or before `key`, within the bounds.
  public mutating func seekForPrevious(_ key: [UInt8]) throws(EngineError) {
    try unsafe seekForPrevious(key.span.bytes)
  }

  /// Moves to the next key. Requires: valid, or at an unreadable key.
  @inline(__always)
  public mutating func next() throws(EngineError) {
    requirePosition()
    try move(from: currentKey) { (iterator) throws(EngineError) in try iterator.next() }
  }

  /// Moves to the previous key. Requires: valid, or at an unreadable key.
  @inline(__always)
  public mutating func previous() throws(EngineError) {
    requirePosition()
    try move(from: currentKey) { (iterator) throws(EngineError) in try iterator.previous() }
  }

  @inline(__always)
  private mutating func seek(
    _ move: (inout VisibleIterator<MergeSource>) throws(EngineError) -> Void
  ) throws(EngineError) {
    try self.move(from: nil, move)
  }

  /// Moves the iterator and stores its new position. A move relative to a key has to find that key again if the view
  /// was taken back.
  @inline(__always)
  private mutating func move(
    from key: ByteView?, _ move: (inout VisibleIterator<MergeSource>) throws(EngineError) -> Void
  ) throws(EngineError) {
    (isPlaced, isAtUnreadable) = (false, false)
    let owned = unsafe owned
    unsafe try owned.withGuaranteed { (holder) throws(EngineError) in
      if holder.hasOwn { try holder.requireBatch() }
      defer { holder.end() }
      if !holder.begin() { try holder.renew(at: key) }
      if key == nil, holder.iterator.hasMetDeadKeys { holder.rememberDeadRun() }
      do throws(EngineError) { try move(&holder.iterator) } catch {
        if let key = holder.iterator.failedKey {
          currentKey = key
          isAtUnreadable = true
        }
        throw error
      }
      guard holder.iterator.isValid else { return }
      currentKey = holder.iterator.userKey
      currentValue = holder.iterator.value
      isPlaced = true
    }
  }
}

// MARK: - Cursors of a batch

extension EngineCursor {
  /// The family that the cursor iterates.
  var family: FamilyState { unsafe owned.withGuaranteed { $0.family } }

  /// Makes the cursor show the current writes of its batch. The cursor is not valid until its next seek.
  ///
  /// Stops the process if the cursor does not belong to that batch.
  mutating func refresh(_ writes: UncommittedWrites) {
    (isPlaced, isAtUnreadable) = (false, false)
    let owned = unsafe owned
    unsafe owned.withGuaranteed { $0.refresh(writes) }
  }

  /// Changes the bounds of a cursor with its own writes. The cursor is not valid until its next seek.
  mutating func setBounds(from lower: RawSpan, to upper: RawSpan?) throws(EngineError) {
    (isPlaced, isAtUnreadable) = (false, false)
    let owned = unsafe owned
    try lower.withByteView { (lower) throws(EngineError) in
      guard let upper else {
        return unsafe try owned.withGuaranteed { (holder) throws(EngineError) in try holder.setBounds(lower, nil) }
      }
      try upper.withByteView { (upper) throws(EngineError) in
        unsafe try owned.withGuaranteed { (holder) throws(EngineError) in try holder.setBounds(lower, upper) }
      }
    }
  }
}

extension Engine {
  /// Returns a cursor over the keys of a family within `bounds`, from a snapshot or from the current state.
  public func cursor(
    in family: ColumnFamily? = nil, bounds: CursorBounds = .all, snapshot: EngineSnapshot? = nil
  ) throws(EngineError) -> EngineCursor {
    try core.cursor(in: family, bounds: bounds, snapshot: snapshot, own: nil)
  }
}

extension EngineCore {
  /// Returns a cursor that shows `own` over the committed entries. Throws `.closed` and `.familyDropped`.
  func cursor(
    in family: ColumnFamily?, bounds: CursorBounds, snapshot: EngineSnapshot?, own: UncommittedWrites?
  ) throws(EngineError) -> EngineCursor {
    try requireOpen()
    let state = state(of: family)
    if state.isDropped { throw CommitPipeline.droppedError(state) }
    let deadRuns = snapshot == nil && own == nil ? background.deadRuns : nil
    let (view, held) = retainView(of: state, snapshot)
    return EngineCursor(
      CursorHolder(
        state, held, tree, bounds, background.cursors, view: views == nil ? nil : view, own: own, deadRuns: deadRuns))
  }
}
