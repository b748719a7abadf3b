/// Entries that were encoded before they got an index.
extension IndexedWriteBatch {
  /// Adds the entries of a batch, which all belong to one family, in their order: reads see them from now on.
  ///
  /// Throws `.limitExceeded` and `.noMemory`; some of the entries may have been added then. Stops the process for an
  /// entry of another family. Complexity: that of adding each of them.
  package mutating func append(_ other: borrowing WriteBatch, of family: ColumnFamily) throws(EngineError) {
    let state = engine.state(of: family)
    // A list of first entries has no stamps.
    try buildTrees()
    var reader = BatchReader(other.payload.view)
    var stamps = other.stamps[...]
    while let entry = try reader.next() {
      precondition(entry.family == state.id, "an entry of another column family has no index here")
      try addPoint(state, entry.kind, entry.key, entry.value)
      if let stamp = stamps.first, stamp < reader.position {
        stamps.removeFirst()
        note(location(of: stamp, entry, endingAt: reader.position))
      }
    }
  }

  /// Where a stamp lies within an entry, which ends with its value; before that are the value's size and the key.
  private func location(of stamp: Int, _ entry: BatchReader.Entry, endingAt end: Int) -> StampLocation {
    let valueStart = end - entry.value.count
    if stamp >= valueStart { return .value(stamp - valueStart) }
    return .key(stamp - (valueStart - Varint.size(UInt64(entry.value.count)) - entry.key.count))
  }
}
