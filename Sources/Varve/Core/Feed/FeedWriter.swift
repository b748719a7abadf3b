/// Writes the entries of one commit, in the format of `FeedEntry`.
///
/// It iterates over the rows twice, the first time to determine how many of them each part takes, and copies each key
/// once, to its position in the entry, because it runs within a commit.
struct FeedWriter {
  /// A range of a collection's rows that one part takes.
  private struct Piece {
    /// The index in `collections`.
    let collection: Int
    /// The number of the part, from zero.
    let part: Int
    /// The index of the piece's first entry in the table.
    let begin: Int
    var count = 0
    let isFirst: Bool
  }

  private let label: String?
  private let custom: [UInt8]?
  private let time: UInt64
  private let isEverythingRemoved: Bool
  private let collections: [CollectionChanges]
  private let partSize: Int
  /// The pieces, in the order of the parts.
  private var pieces: [Piece] = []
  private var partCount = 1

  /// Plans the parts. `partSize` is the maximum number of bytes of a part's rows, unless it has only one row.
  init(_ pending: borrowing PendingChangeSet, partSize: Int = ChangeLimits.partSize) {
    label = pending.label
    custom = pending.custom
    time = UInt64(max(0, pending.time))
    isEverythingRemoved = pending.changes.isEverythingRemoved
    self.partSize = partSize
    collections = pending.changes.collections.ordered
    plan()
  }

  private mutating func plan() {
    pieces.reserveCapacity(collections.count)
    // The number of rows and bytes in the part that is being planned.
    var rowCount = 0
    var size = 0
    for collection in collections.indices {
      var piece = Piece(collection: collection, part: partCount - 1, begin: 0, isFirst: true)
      let rows = collections[collection].rows
      for index in rows.indices where rows.value(at: index) != nil {
        let rowSize = rows.keySize(at: index) + 4
        if rowCount == ChangeLimits.partRows || rowCount > 0 && size + rowSize > partSize {
          pieces.append(piece)
          piece = Piece(collection: collection, part: partCount, begin: index, isFirst: false)
          partCount += 1
          rowCount = 0
          size = 0
        }
        piece.count += 1
        rowCount += 1
        size += rowSize
      }
      pieces.append(piece)
    }
  }

  /// Calls `body` with each part's number, and with a function that appends the value of its entry; `body` returns the
  /// number of bytes of that value. `offset` is the number of bytes of the segment before the first entry.
  @inline(__always)
  func forEachEntry(
    offset: UInt64, _ body: (_ part: Int, _ write: (inout [UInt8]) -> Void) throws -> Int
  ) rethrows {
    var offset = offset
    var next = 0
    for part in 0..<partCount {
      let first = next
      while next < pieces.count, pieces[next].part == part { next += 1 }
      let size = try body(part) { write(part, pieces[first..<next], offset, to: &$0) }
      offset += UInt64(FeedKey.size + size)
    }
  }

  private func write(_ part: Int, _ pieces: ArraySlice<Piece>, _ offset: UInt64, to bytes: inout [UInt8]) {
    let isFirst = part == 0
    let label = isFirst ? label : nil
    let custom = isFirst ? custom : nil
    var flags: UInt8 = part == partCount - 1 ? FeedEntry.lastPart : 0
    if isFirst && isEverythingRemoved { flags |= FeedEntry.everythingCleared }
    if label != nil { flags |= FeedEntry.hasLabel }
    if custom != nil { flags |= FeedEntry.hasCustom }
    bytes.append(FeedEntry.format)
    bytes.append(flags)
    Varint.append(offset, to: &bytes)
    Varint.append(time, to: &bytes)
    if let label { Self.append(Array(label.utf8)[...], to: &bytes) }
    if let custom { Self.append(custom[...], to: &bytes) }
    Varint.append(UInt64(pieces.count), to: &bytes)
    for piece in pieces { append(piece, to: &bytes) }
  }

  private func append(_ piece: Piece, to bytes: inout [UInt8]) {
    let changes = collections[piece.collection]
    let prefixSize = changes.info.prefix.count
    let isCleared = piece.isFirst && changes.isCleared
    Varint.append(UInt64(changes.info.record.id), to: &bytes)
    Varint.append(UInt64(piece.count) << 1 | (isCleared ? 1 : 0), to: &bytes)
    let rows = changes.rows
    var left = piece.count
    var index = piece.begin
    while left > 0 {
      if let state = rows.value(at: index) {
        bytes.append(state.bits)
        let key = rows.key(at: index)
        Self.append(key[(key.startIndex + prefixSize)...], to: &bytes)
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
