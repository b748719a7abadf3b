/// Several keys at once.
extension Engine {
  /// The values of several keys, all at the same instant, in the order of the keys.
  ///
  /// Throws as `get`. Several keys take less time than each by itself: while the processor waits for the memory that one
  /// needs, it asks for that of others (`LookupWindow`).
  public func multiGet(
    _ keys: [[UInt8]], in family: ColumnFamily? = nil, snapshot: EngineSnapshot? = nil
  ) throws(EngineError) -> [[UInt8]?] {
    checkOpen()
    let state = state(of: family)
    if state.isDropped { throw CommitPipeline.droppedError(state) }
    let mark = epochs.enter()
    let start = epochs.countIsSample(mark, keys: keys.count) ? beginTimed() : 0
    defer {
      epochs.leave(mark)
      if start != 0 { endTimed(.multiGet, from: start) }
    }
    let (view, sequence) = unsafe pin(state, snapshot)
    return try unsafe view.withGuaranteed { (view) throws(EngineError) in
      if keys.count < LookupWindow.keyCountMinimum || view.hasRangeTombstones {
        return try findEach(keys, view, sequence)
      }
      return try findTogether(keys, view, sequence)
    }
  }

  private func findEach(
    _ keys: [[UInt8]], _ view: ReadView, _ sequence: SequenceNumber
  ) throws(EngineError) -> [[UInt8]?] {
    var values: [[UInt8]?] = []
    values.reserveCapacity(keys.count)
    for key in keys {
      values.append(
        try key.withByteView { (key) throws(EngineError) in try find(key, view, sequence) { $0?.bytes } })
    }
    return values
  }

  /// Where no range tombstone covers anything: each key in the memtables, and the rest in the tables, some at a time.
  private func findTogether(
    _ keys: [[UInt8]], _ view: ReadView, _ sequence: SequenceNumber
  ) throws(EngineError) -> [[UInt8]?] {
    var values = [[UInt8]?](repeating: nil, count: keys.count)
    var window = LookupWindow(at: sequence)
    for index in keys.indices {
      try keys[index].withByteView { (key) throws(EngineError) in
        if let hit = view.memTable.get(key, at: sequence) ?? Self.findFrozen(key, view, sequence) {
          values[index] = try answer(hit.trailer, hit.value, key, view, sequence) { $0?.bytes }
        } else if !view.version.isEmpty {
          try window.add(index, key, view.version, tree)
        }
      }
      if window.isFull || index == keys.count - 1 {
        try window.find(keys) { (index, key, hit) throws(EngineError) in
          values[index] = try answer(hit.trailer, hit.value, key, view, sequence) { $0?.bytes }
        }
      }
    }
    return values
  }
}
