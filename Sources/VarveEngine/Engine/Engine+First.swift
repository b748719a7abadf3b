/// The first key of a range.
extension Engine {
  /// Calls `body` with the first key within `bounds` and its value, as of a snapshot; `body` must not keep them.
  ///
  /// Returns false, without calling `body`, if there is no key.
  ///
  /// It is faster than a cursor that seeks once: files can't be taken back during the call, so nothing has to be
  /// recorded for that case. They are kept until the call returns; `body` must not close the engine.
  ///
  /// Throws `.familyDropped`, `.corruption` and `.inputOutput`. Complexity: O(log n) in each memtable, and a block of
  /// each table that is not outside the bounds. Safe from any thread.
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
    // The view is retained, so that the epoch ends here: there may be many dead keys before the first live one.
    let view = unsafe pinned.takeUnretainedValue()
    epochs.leave(mark)
    defer { withExtendedLifetime(view) {} }
    var iterator = view.iterator(tree, at: sequence, bounds)
    try iterator.seekToFirst()
    if iterator.hasMetDeadKeys, let run = iterator.takeLongestDeadRun() {
      state.remember(run, at: sequence, in: view, tree)
    }
    guard iterator.isValid else { return false }
    body(iterator.userKey, iterator.value)
    return true
  }
}
