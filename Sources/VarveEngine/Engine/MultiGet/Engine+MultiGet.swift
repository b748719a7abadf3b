/// Lookups of several keys at once.
extension Engine {
  /// Returns the values of several keys, all from one snapshot, in the order of the keys.
  ///
  /// Throws the errors of `get`. One call with several keys takes less time than several calls: while the processor
  /// waits for the memory of one key, it fetches that of others (`LookupWindow`).
  ///
  /// The call retains only the memtables and tables of the view that it reads, until it returns.
  public func multiGet(
    _ keys: [[UInt8]], in family: ColumnFamily? = nil, snapshot: EngineSnapshot? = nil
  ) throws(EngineError) -> [[UInt8]?] {
    try core.findAll(keys, family, snapshot)
  }
}

extension EngineCore {
  /// The implementation of `Engine.multiGet`.
  fileprivate func findAll(
    _ keys: [[UInt8]], _ family: ColumnFamily?, _ snapshot: EngineSnapshot?
  ) throws(EngineError) -> [[UInt8]?] {
    try requireOpen()
    let state = state(of: family)
    if state.isDropped { throw CommitPipeline.droppedError(state) }
    let mark = epochs.enter()
    let start = epochs.countIsSample(mark, keys: keys.count) ? beginTimed() : 0
    defer { if start != 0 { endTimed(.multiGet, from: start) } }
    let (pinned, sequence) = unsafe pin(state, snapshot)
    // The view is retained, so that the epoch ends here: a call with many keys may read many blocks from files.
    let view = unsafe pinned.takeUnretainedValue()
    epochs.leave(mark)
    defer { withExtendedLifetime(view) {} }
    if keys.count < LookupWindow.keyCountMinimum || view.hasRangeTombstones || sequence < view.floor {
      return try findEach(keys, view, sequence)
    }
    return try findTogether(keys, view, sequence)
  }

  private func findEach(
    _ keys: [[UInt8]], _ view: ReadView, _ sequence: SequenceNumber
  ) throws(EngineError) -> [[UInt8]?] {
    var values: [[UInt8]?] = []
    values.reserveCapacity(keys.count)
    for key in keys {
      let mark = epochs.enter()
      defer { epochs.leave(mark) }
      values.append(
        try key.withByteView { (key) throws(EngineError) in try find(key, view, sequence) { $0?.bytes } })
    }
    return values
  }

  /// Finds the values of several keys in a view without range tombstones.
  ///
  /// It searches each key in the memtables, and the rest in the tables, a few at a time, each time in an epoch. After a
  /// run of keys in one block, the next key is probably in the block after it. That key is found alone, so that its
  /// block has the keys that follow.
  private func findTogether(
    _ keys: [[UInt8]], _ view: ReadView, _ sequence: SequenceNumber
  ) throws(EngineError) -> [[UInt8]?] {
    var values = [[UInt8]?](repeating: nil, count: keys.count)
    var window = LookupWindow(at: sequence)
    var isRun = false
    func receive(_ index: Int, _ key: ByteView, _ trailer: Trailer, _ value: ByteView) throws(EngineError) {
      values[index] = try answer(trailer, value, key, view, sequence) { $0?.bytes }
    }
    for first in stride(from: 0, to: keys.count, by: LookupWindow.keyCountMaximum) {
      let mark = epochs.enter()
      defer { epochs.leave(mark) }
      for index in first..<min(first + LookupWindow.keyCountMaximum, keys.count) {
        try keys[index].withByteView { (key) throws(EngineError) in
          if let hit = view.memTable.get(key, at: sequence) ?? Self.findFrozen(key, view, sequence) {
            try receive(index, key, hit.trailer, hit.value)
          } else if !view.version.isEmpty {
            let isFound = try window.add(index, key, view.version, tree, receive)
            if isRun && !isFound { try window.find(keys, receive) }
            isRun = isFound
          }
        }
      }
      try window.find(keys, receive)
    }
    return values
  }
}
