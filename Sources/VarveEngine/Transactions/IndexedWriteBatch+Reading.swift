/// Reads of an indexed batch over the committed entries.
extension IndexedWriteBatch {
  /// Returns the value of a key, with the batch over the committed entries, or `nil` if it has none.
  ///
  /// Throws the errors of `Engine.get`.
  public func get(_ key: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) -> [UInt8]? {
    var value: [UInt8]?
    try unsafe visit(key.span.bytes, family) { value = $0.bytes }
    return value
  }

  /// Calls `body` with the value of a key, which is valid only inside of it, and returns its result.
  ///
  /// Returns `nil` if the key has no value. Throws the errors of `Engine.get`, and those of `body`.
  @inlinable
  public func withValue<R>(
    forKey key: RawSpan, in family: ColumnFamily? = nil, _ body: (RawSpan) throws -> R
  ) throws -> R? {
    // The function is inlined for the reason given at `Engine.withValue`.
    var result: R?
    var failure: (any Error)?
    try visitSpan(key, family) { value in
      do { result = try body(value) } catch { failure = error }
    }
    if let failure { throw failure }
    return result
  }

  @usableFromInline
  func visitSpan(_ key: RawSpan, _ family: ColumnFamily?, _ body: (RawSpan) -> Void) throws(EngineError) {
    try visit(key, family) { unsafe body($0.rawSpan) }
  }

  /// Returns whether a key has a value. Copies no value that is in memory.
  ///
  /// Throws the errors of `Engine.get`.
  public func contains(_ key: RawSpan, in family: ColumnFamily? = nil) throws(EngineError) -> Bool {
    var isThere = false
    try visit(key, family) { _ in isThere = true }
    return isThere
  }

  /// Calls `body` with the value of a key, if it has one.
  private func visit(
    _ key: RawSpan, _ family: ColumnFamily?, _ body: (ByteView) -> Void
  ) throws(EngineError) {
    let state = try readable(family)
    let answer = key.withByteView { key in
      let answer = newest(key, state.id)
      if case .value(let value) = answer { body(value) }
      return answer
    }
    switch answer {
    case .value, .nothing: return
    case .operands: if let index = index(of: state.id), try visitFolded(key, index, family, body) { return }
    case nil: break
    }
    try engine.visitValue(key, family, snapshot, body)
  }

  /// Returns the state of a readable family. Throws `.closed` and `.familyDropped`.
  @inline(__always)
  private func readable(_ family: ColumnFamily?) throws(EngineError) -> FamilyState {
    try engine.requireOpen()
    let state = engine.state(of: family)
    if state.isDropped { throw CommitPipeline.droppedError(state) }
    return state
  }

  /// The result for a key from the batch alone.
  private enum Answer {
    case value(ByteView), nothing
    /// Merge operands, which have to be folded.
    case operands

    var isFinal: Bool {
      if case .operands = self { return false }
      return true
    }
  }

  /// Returns the batch's result for a key, or `nil` if the batch has no entry of it.
  private func newest(_ key: ByteView, _ family: FamilyID) -> Answer? {
    if first.isOpen {
      guard let found = first.find(key, in: family) else { return nil }
      return found.kind == .put ? .value(found.value) : .nothing
    }
    guard let index = index(of: family) else { return nil }
    let last = SequenceNumber.pending(nextNumber - 1)
    if let hit = families[index].newest(key, at: last, undone) {
      switch hit.trailer.kind {
      case .put: return .value(hit.value)
      case .merge: return .operands
      default: return .nothing
      }
    }
    return families[index].covers(key, at: last) ? .nothing : nil
  }

  /// Folds the batch's operands of a key over the older entries, and calls `body` with the result.
  ///
  /// Returns false if there are no operands.
  private func visitFolded(
    _ key: RawSpan, _ index: Int, _ column: ColumnFamily?, _ body: (ByteView) -> Void
  ) throws(EngineError) -> Bool {
    let family = families[index]
    let last = SequenceNumber.pending(nextNumber - 1)
    var operands = OperandStack()
    var base: (kind: EntryKind, value: ByteView)?
    let isCovered = key.withByteView { key in
      family.forEachEntry(of: key, at: last, undone) { kind, value in
        if kind != .merge {
          base = (kind, value)
          return false
        }
        operands.push(value, Trailer(last, .merge))
        return true
      }
      return family.covers(key, at: last)
    }
    if operands.isEmpty { return false }
    var isDone = false
    var folded = MergeValue()
    func fold(_ existing: ByteView?) {
      isDone = key.withByteView {
        family.state.merge?.merge($0, existing: existing, &operands, into: &folded) ?? false
      }
    }
    if let base {
      fold(base.kind == .put ? base.value : nil)
    } else if isCovered {
      fold(nil)
    } else {
      var hasValue = false
      try engine.visitValue(key, column, snapshot) { value in
        hasValue = true
        fold(value)
      }
      if !hasValue { fold(nil) }
    }
    guard isDone else { throw key.withByteView { MergeFunction.failure(family.state.merge, $0, operands) } }
    body(folded.view)
    return true
  }

  /// Returns whether the batch alone determines the value of a key, because no committed entry contributes to it.
  public func decides(_ key: [UInt8], in family: ColumnFamily? = nil) -> Bool {
    let id = engine.state(of: family).id
    return key.withByteView { newest($0, id)?.isFinal ?? false }
  }

  // MARK: - Cursors

  /// Returns a cursor over the keys of a family within `bounds`, with the batch over the committed entries.
  ///
  /// These are the entries committed now, or at the batch's snapshot. Throws the errors of `Engine.cursor`.
  public mutating func cursor(
    in family: ColumnFamily? = nil, bounds: CursorBounds = .all
  ) throws(EngineError) -> EngineCursor {
    try buildTrees()
    return try engine.cursor(in: family, bounds: bounds, snapshot: snapshot, own: own(engine.state(of: family)))
  }

  /// Makes a cursor of this batch show the batch's current entries.
  ///
  /// The committed state that it shows does not change. The cursor is not valid until its next seek.
  ///
  /// It is cheaper than a new cursor: the committed state is not opened again. A cursor that threw `.cursorEnded` can
  /// be used again. Stops the process if the cursor does not belong to this batch.
  public mutating func refresh(_ cursor: inout EngineCursor) { cursor.refresh(own(cursor.family)) }

  /// Returns the current state of a family, with the batch over the committed entries, for cursors that are made later.
  ///
  /// Throws `.noMemory`. Complexity: constant.
  public mutating func view(of family: ColumnFamily? = nil) throws(EngineError) -> BatchView {
    try buildTrees()
    return BatchView(engine: engine, snapshot: snapshot, family: family, own: own(engine.state(of: family)))
  }

  /// Calls `body` with the first key from `lower` (included) to `upper` (excluded), and its value.
  ///
  /// Returns the result of `body`, or `nil` if the range is empty. An `upper` of `nil` means the end of the family.
  ///
  /// The search ends at `upper`, whatever follows, and sees all entries of the batch. A batch with a snapshot keeps a
  /// cursor for the next call. Throws the errors of `cursor`, and those of `body`. Complexity: a seek.
  @inlinable
  public mutating func withFirst<R>(
    from lower: RawSpan, to upper: RawSpan?, in family: ColumnFamily? = nil, _ body: (RawSpan, RawSpan) throws -> R
  ) throws -> R? {
    var result: R?
    var failure: (any Error)?
    try visitFirst(from: lower, to: upper, in: family) { key, value in
      do { result = try body(key, value) } catch { failure = error }
    }
    if let failure { throw failure }
    return result
  }

  @usableFromInline
  mutating func visitFirst(
    from lower: RawSpan, to upper: RawSpan?, in family: ColumnFamily?, _ body: (RawSpan, RawSpan) -> Void
  ) throws(EngineError) {
    try visit(from: lower, to: upper, in: family) { key, value in
      body(key, value)
      return false
    }
  }

  /// Calls `body` with the keys from `lower` (included) to `upper` (excluded), and their values, in order, until it
  /// returns false.
  ///
  /// It is like `withFirst`; `body` must not use the batch. Complexity: a seek, and a step for each key.
  public mutating func forEachEntry(
    from lower: RawSpan, to upper: RawSpan?, in family: ColumnFamily? = nil,
    _ body: (RawSpan, RawSpan) throws -> Bool
  ) throws {
    var failure: (any Error)?
    try visit(from: lower, to: upper, in: family) { key, value in
      do { return try body(key, value) } catch {
        failure = error
        return false
      }
    }
    if let failure { throw failure }
  }

  private mutating func visit(
    from lower: RawSpan, to upper: RawSpan?, in family: ColumnFamily?, _ body: (RawSpan, RawSpan) -> Bool
  ) throws(EngineError) {
    let state = try readable(family)
    try buildTrees()
    let look: KeptCursor
    if let old = kept[state.id] {
      look = old
      look.cursor.refresh(own(state, isKept: false))
    } else {
      let own = own(state, isKept: false)
      look = KeptCursor(try engine.cursor(in: family, bounds: .all, snapshot: snapshot, own: own))
      if snapshot != nil { kept[state.id] = look }
    }
    try look.cursor.setBounds(from: lower, to: upper)
    try look.cursor.seekToFirst()
    while look.cursor.isValid {
      var continues = false
      look.cursor.withEntry { continues = body($0, $1) }
      guard continues else { return }
      try look.cursor.next()
    }
  }

  /// Returns the first key from `lower` (included) to `upper` (excluded), with its value, or `nil` if there is none.
  ///
  /// An `upper` of `nil` means the end of the family.
  public mutating func first(
    from lower: [UInt8], to upper: [UInt8]?, in family: ColumnFamily? = nil
  ) throws -> (key: [UInt8], value: [UInt8])? {
    func copy(_ key: RawSpan, _ value: RawSpan) -> (key: [UInt8], value: [UInt8]) {
      (key.withByteView { $0.bytes }, value.withByteView { $0.bytes })
    }
    guard let upper else { return try unsafe withFirst(from: lower.span.bytes, to: nil, in: family, copy) }
    return try unsafe withFirst(from: lower.span.bytes, to: upper.span.bytes, in: family, copy)
  }
}

/// The state of a family with a batch over it, at the creation of the view. Later entries of the batch are not visible.
///
/// Without a snapshot in the batch, the committed state is that at the creation of a cursor. A view may outlive the
/// batch. A view that was created after a savepoint which was then undone throws `.cursorEnded`.
public struct BatchView {
  fileprivate let engine: EngineCore
  fileprivate let snapshot: EngineSnapshot?
  fileprivate let family: ColumnFamily?
  fileprivate let own: UncommittedWrites

  /// Returns a cursor over the keys within `bounds`. Throws the errors of `Engine.cursor`, and `.cursorEnded`.
  public func cursor(bounds: CursorBounds = .all) throws(EngineError) -> EngineCursor {
    try engine.cursor(in: family, bounds: bounds, snapshot: snapshot, own: own)
  }
}

/// A cursor that is reused.
final class KeptCursor {
  var cursor: EngineCursor
  init(_ cursor: consuming EngineCursor) { self.cursor = cursor }
}

extension PendingFamily {
  /// Returns whether a range delete of the batch covers a key.
  func covers(_ key: ByteView, at last: SequenceNumber) -> Bool {
    table.hasTombstones && table.rangeTombstones.sequence(covering: key, at: last) != .zero
  }
}
