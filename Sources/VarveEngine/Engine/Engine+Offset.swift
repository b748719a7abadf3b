/// The entry at an offset of a range.
extension Engine {
  /// Calls `body` with the key at an offset within `bounds` and its value, as of a snapshot; `body` must not keep them.
  ///
  /// Returns the number of keys before the offset: `offset` if `body` was called, and otherwise the number of keys
  /// within the bounds. With an offset that no key has, for example `Int.max`, it counts them.
  ///
  /// It is faster than a cursor that makes as many steps: files can't be taken back during the call, so nothing has to
  /// be recorded for that case. They are kept until the call returns, so a long range is better counted by a cursor;
  /// `body` must not close the engine.
  ///
  /// Throws `.invalidArgument` for a negative offset, `.familyDropped`, `.corruption` and `.inputOutput`. Complexity:
  /// O(log n) in each memtable, a block of each table that is not outside the bounds, and a step for each key before
  /// the offset. Safe from any thread.
  public func visitEntry(
    at offset: Int, in family: ColumnFamily? = nil, bounds: CursorBounds = .all, snapshot: EngineSnapshot,
    _ body: (_ key: RawSpan, _ value: RawSpan) -> Void
  ) throws(EngineError) -> Int {
    guard offset >= 0 else { throw EngineError(.invalidArgument, "the offset \(offset) of an entry is negative") }
    return try core.visitEntry(offset, family, bounds, snapshot) { key, value in
      unsafe body(key.rawSpan, value.rawSpan)
    }
  }
}

extension EngineCore {
  fileprivate func visitEntry(
    _ offset: Int, _ family: ColumnFamily?, _ bounds: CursorBounds, _ snapshot: EngineSnapshot,
    _ body: (ByteView, ByteView) -> Void
  ) throws(EngineError) -> Int {
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
    var passed = 0
    while iterator.isValid, passed < offset {
      passed += 1
      try iterator.next()
    }
    if iterator.hasMetDeadKeys, let run = iterator.takeLongestDeadRun() {
      state.remember(run, at: sequence, in: view, tree)
    }
    if iterator.isValid { body(iterator.userKey, iterator.value) }
    return passed
  }
}
