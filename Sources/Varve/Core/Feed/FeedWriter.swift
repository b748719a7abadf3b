/// Writes the entries of one commit, as `FeedEntry` draws them.
///
/// It goes over the rows twice, once to see how many of them each part takes, and copies each key once: it runs where a
/// commit is made.
struct FeedWriter {
  /// A stretch of a collection's rows that one part takes.
  private struct Piece {
    let changes: CollectionChanges
    /// The index of its first entry in the table.
    let begin: Int
    var count = 0
    let isFirst: Bool
  }

  private let pending: PendingChangeSet
  private let partSize: Int
  private var parts: [[Piece]] = [[]]
  /// What the part that is planned takes so far.
  private var rowCount = 0
  private var size = 0

  /// Plans the parts. `partSize` is how many bytes the rows of one take, or those of its only row.
  init(_ pending: PendingChangeSet, partSize: Int = ChangeLimits.partSize) {
    self.pending = pending
    self.partSize = partSize
    for changes in pending.changes.collections.values.sorted(by: { $0.info.record.id < $1.info.record.id }) {
      plan(changes)
    }
  }

  private mutating func plan(_ changes: CollectionChanges) {
    let entries = changes.rows.entries
    var piece = Piece(changes: changes, begin: 0, isFirst: true)
    for index in entries.indices where entries[index].value != nil {
      let rowSize = entries[index].key.count + 4
      if rowCount == ChangeLimits.partRows || rowCount > 0 && size + rowSize > partSize {
        parts[parts.count - 1].append(piece)
        parts.append([])
        piece = Piece(changes: changes, begin: index, isFirst: false)
        rowCount = 0
        size = 0
      }
      piece.count += 1
      rowCount += 1
      size += rowSize
    }
    parts[parts.count - 1].append(piece)
  }

  /// The values of the entries, in the order of the parts. `offset` is how many bytes of the segment stand before the
  /// first.
  func entries(offset: UInt64) -> [[UInt8]] {
    var offset = offset
    return parts.indices.map { index in
      let entry = entry(index, offset)
      offset += UInt64(FeedKey.size + entry.count)
      return entry
    }
  }

  private func entry(_ part: Int, _ offset: UInt64) -> [UInt8] {
    let isFirst = part == 0
    let label = isFirst ? pending.label : nil
    let custom = isFirst ? pending.custom : nil
    var flags: UInt8 = part == parts.count - 1 ? FeedEntry.lastPart : 0
    if isFirst && pending.changes.isEverythingRemoved { flags |= FeedEntry.everythingCleared }
    if label != nil { flags |= FeedEntry.hasLabel }
    if custom != nil { flags |= FeedEntry.hasCustom }
    var bytes: [UInt8] = []
    let rowCount = parts[part].reduce(0) { $0 + $1.count }
    bytes.reserveCapacity(40 + parts[part].count * 12 + (custom?.count ?? 0) + min(rowCount * 32, partSize))
    bytes.append(FeedEntry.format)
    bytes.append(flags)
    Varint.append(offset, to: &bytes)
    Varint.append(UInt64(max(0, pending.time)), to: &bytes)
    if let label { Self.append(Array(label.utf8)[...], to: &bytes) }
    if let custom { Self.append(custom[...], to: &bytes) }
    Varint.append(UInt64(parts[part].count), to: &bytes)
    for piece in parts[part] { Self.append(piece, to: &bytes) }
    return bytes
  }

  private static func append(_ piece: Piece, to bytes: inout [UInt8]) {
    let prefixSize = piece.changes.info.prefix.count
    let isCleared = piece.isFirst && piece.changes.isCleared
    Varint.append(UInt64(piece.changes.info.record.id), to: &bytes)
    Varint.append(UInt64(piece.count) << 1 | (isCleared ? 1 : 0), to: &bytes)
    let entries = piece.changes.rows.entries
    var left = piece.count
    var index = piece.begin
    while left > 0 {
      if let state = entries[index].value {
        bytes.append(state.bits)
        append(entries[index].key[prefixSize...], to: &bytes)
        left -= 1
      }
      index += 1
    }
  }

  private static func append(_ content: ArraySlice<UInt8>, to bytes: inout [UInt8]) {
    Varint.append(UInt64(content.count), to: &bytes)
    bytes.append(contentsOf: content)
  }
}
