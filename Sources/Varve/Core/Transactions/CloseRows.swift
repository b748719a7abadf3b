/// The rows of many keys that lie close to each other, read by one scan: a step costs a fraction of a look.
struct CloseRows {
  /// By the keys; nil where there is no row.
  private(set) var rows: [PresentRow?]
  /// How many rows there were where the collection has another one next, and at the end: no row lies between those of a run.
  private(set) var runs: [Int] = []

  /// So few keys are looked up.
  private static let minimum = 64

  /// The keys are in their order. Nil where they are few, or lie too far from each other.
  init?(_ keys: [[UInt8]], _ info: CollectionInfo, _ transaction: WriteTransaction) throws {
    // What a transaction beside others reads is checked, and should be no more than it has to be.
    guard keys.count >= Self.minimum, transaction.reads == nil, transaction.rowsLieClose(info) else { return nil }
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
