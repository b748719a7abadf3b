internal import VarveEngine

/// The positions of the last changes of a family's keys in a batch of appended changes.
///
/// Most transactions never look at what they have appended. So the index is made when it is first needed, and extended
/// by what was appended since at each use.
struct AppendedIndex {
  private var offsets = ByteTable<Int>()
  /// The number of bytes of the batch that are in the index.
  private var end = 0

  /// Returns the offset of the last put or delete of a key, or nil if it was not changed.
  mutating func offset(
    of key: [UInt8], in family: UInt32, of batch: borrowing WriteBatch
  ) throws(EngineError) -> Int? {
    if end < batch.byteCount {
      try batch.forEachChange(from: end) { offset, number, key in
        if number == family { offsets.set(offset, for: key.copied) }
      }
      end = batch.byteCount
    }
    return offsets[key]
  }

  /// Forgets the index if the batch was cut to fewer bytes than it has.
  mutating func cut(to byteCount: Int) {
    if end > byteCount { self = AppendedIndex() }
  }
}
