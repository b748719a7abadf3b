/// The first key of a range.
extension Engine {
  /// Calls `body` with the first key within `bounds` and its value, which it may not keep, as of a snapshot. Returns
  /// false, and does not call it, if no key is there.
  ///
  /// It takes less time than a cursor that seeks once: nothing can take the files back meanwhile, so nothing has to be
  /// noted for that. They are kept until it returns; it must not close the engine.
  ///
  /// Throws `.familyDropped`, `.corruption` and `.inputOutput`. Complexity: O(log n) in each memtable, and a block of each
  /// table that is not outside the bounds. Safe from any thread.
  public func visitFirst(
    in family: ColumnFamily? = nil, bounds: CursorBounds = .all, snapshot: EngineSnapshot,
    _ body: (_ key: RawSpan, _ value: RawSpan) -> Void
  ) throws(EngineError) -> Bool {
    try core.visitFirst(family, bounds, snapshot) { key, value in unsafe body(key.rawSpan, value.rawSpan) }
  }
}

extension EngineCore {
  fileprivate func visitFirst(
    _ family: ColumnFamily?, _ bounds: CursorBounds, _ snapshot: EngineSnapshot, _ body: (ByteView, ByteView) -> Void
  ) throws(EngineError) -> Bool {
    try requireOpen()
    let state = state(of: family)
    if state.isDropped { throw CommitPipeline.droppedError(state) }
    let mark = epochs.enter()
    let (pinned, sequence) = unsafe pin(state, snapshot)
    // Counted, so that the epoch ends here: the way to a first key may lead over many that are dead.
    let view = unsafe pinned.takeUnretainedValue()
    epochs.leave(mark)
    defer { withExtendedLifetime(view) {} }
    var iterator = view.iterator(tree, at: sequence, bounds)
    try iterator.seekToFirst()
    guard iterator.isValid else { return false }
    body(iterator.userKey, iterator.value)
    return true
  }
}
