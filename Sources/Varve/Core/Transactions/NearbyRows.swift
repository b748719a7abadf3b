/// The rows of many keys that lie near each other, read by one scan: a step costs a fraction of a lookup.
struct NearbyRows {
  /// The rows in the order of the keys, with `nil` for a key without a row.
  private(set) var rows: [PresentRow?]
  /// The ends of runs, as numbers of rows. No other row of the collection lies between the rows of a run.
  private(set) var runs: [Int] = []

  /// The minimum number of keys for a scan. Fewer keys are looked up.
  private static let minimum = 64

  /// Reads the rows of keys that are in ascending order. Returns `nil` if there are few keys, or if they lie too far
  /// from each other.
  init?(_ keys: [[UInt8]], _ info: CollectionInfo, _ transaction: WriteTransaction) throws {
    // What a concurrent transaction reads is checked at the commit, so it should read no more than necessary.
    guard keys.count >= Self.minimum, transaction.reads == nil, transaction.rowsAreNearby(info) else { return nil }
    let needsBytes = transaction.needsBytes(of: info)
    rows = Array(repeating: nil, count: keys.count)
    var index = 0
    var count = 0
    var others = 0
    let range = StorageRange(lower: keys[0], upper: keys[keys.count - 1] + [0])
    try transaction.visitRows(of: range, in: info.objects) { key, value in
      var order = -1
      while index < keys.count {
        let own = keys[index]
        order = unsafe ByteOrder.compare(own.span.bytes, key)
        if order >= 0 { break }
        index += 1
      }
      guard order == 0 else {
        others += 1
        if count > (runs.last ?? 0) { runs.append(count) }
        return others <= keys.count
      }
      rows[index] = PresentRow(header: try RowHeader.read(value).header, bytes: needsBytes ? value.copied : [])
      index += 1
      count += 1
      return index < keys.count
    }
    if others > keys.count {
      transaction.noteRowsFarApart(info)
      return nil
    }
    if count > (runs.last ?? 0) { runs.append(count) }
  }
}
