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
/// goes on also where its family is dropped. It keeps memtables and files alive: let it go soon.
/// Complexity: a seek O(log n) in each memtable and table that it looks into, a step amortised O(1).
/// A cursor belongs to one thread at a time.
public struct EngineCursor: ~Copyable {
  private var iterator: VisibleIterator<MergeSource>
  /// Keeps memtables and tables alive.
  private let view: ReadView
  /// Keeps the versions that the cursor sees from being dropped.
  private let snapshot: EngineSnapshot

  init(_ view: ReadView, _ snapshot: EngineSnapshot, _ tree: Tree, _ bounds: CursorBounds) {
    self.view = view
    self.snapshot = snapshot
    iterator = view.iterator(tree, at: snapshot.sequence, bounds)
  }

  /// The last commit that the cursor sees.
  public var sequence: SequenceNumber { snapshot.sequence }

  /// Whether the cursor stands on a key.
  @inline(__always)
  public var isValid: Bool { iterator.isValid }

  /// The key, valid until the cursor moves. Requires: valid.
  public var key: RawSpan {
    @_lifetime(borrow self)
    get {
      requireValid()
      return unsafe overrideLifetime(iterator.userKey.rawSpan, borrowing: self)
    }
  }

  /// The value, valid until the cursor moves. Requires: valid.
  public var value: RawSpan {
    @_lifetime(borrow self)
    get {
      requireValid()
      return unsafe overrideLifetime(iterator.value.rawSpan, borrowing: self)
    }
  }

  /// A copy of the key. Requires: valid.
  public var keyBytes: [UInt8] {
    requireValid()
    return iterator.userKey.bytes
  }

  /// A copy of the value. Requires: valid.
  public var valueBytes: [UInt8] {
    requireValid()
    return iterator.value.bytes
  }

  /// Calls `body` with key and value, which are valid inside of it. Requires: valid.
  public func withEntry<R, E: Error>(_ body: (RawSpan, RawSpan) throws(E) -> R) throws(E) -> R {
    requireValid()
    return unsafe try body(iterator.userKey.rawSpan, iterator.value.rawSpan)
  }

  @inline(__always)
  private func requireValid() {
    guard iterator.isValid else { fatalError("the cursor stands on no key; ask isValid first") }
  }

  /// To the first key within the bounds.
  public mutating func seekToFirst() throws(EngineError) { try iterator.seekToFirst() }
  /// To the last key within the bounds.
  public mutating func seekToLast() throws(EngineError) { try iterator.seekToLast() }

  /// To the first key at or after `key`, within the bounds.
  public mutating func seek(_ key: RawSpan) throws(EngineError) {
    try key.withByteView { (key) throws(EngineError) in try iterator.seek(key) }
  }

  /// To the first key at or after `key`, within the bounds.
  public mutating func seek(_ key: [UInt8]) throws(EngineError) { try unsafe seek(key.span.bytes) }

  /// To the last key at or before `key`, within the bounds.
  public mutating func seekForPrevious(_ key: RawSpan) throws(EngineError) {
    try key.withByteView { (key) throws(EngineError) in try iterator.seekForPrevious(key) }
  }

  /// To the last key at or before `key`, within the bounds.
  public mutating func seekForPrevious(_ key: [UInt8]) throws(EngineError) {
    try unsafe seekForPrevious(key.span.bytes)
  }

  /// To the next key. Requires: valid.
  @inline(__always)
  public mutating func next() throws(EngineError) {
    requireValid()
    try iterator.next()
  }

  /// To the key before. Requires: valid.
  @inline(__always)
  public mutating func previous() throws(EngineError) {
    requireValid()
    try iterator.previous()
  }
}

extension Engine {
  /// A cursor over the keys of a family that lie within `bounds`, at a snapshot or at this instant.
  public func cursor(
    in family: ColumnFamily? = nil, bounds: CursorBounds = .all, snapshot: EngineSnapshot? = nil
  ) throws(EngineError) -> EngineCursor {
    checkOpen()
    let state = state(of: family)
    if state.isDropped { throw CommitPipeline.droppedError(state) }
    let (view, snapshot) = retainView(of: state, snapshot)
    return EngineCursor(view, snapshot, tree, bounds)
  }
}
