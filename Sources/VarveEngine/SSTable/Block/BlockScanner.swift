/// Finds the blocks of a table one after the other if no index gives their locations.
///
/// A block does not contain its size, but its checksum determines it: of the bytes from its start on, only the right
/// number, followed by the codec and the checksum, verifies. So the end of an intact block is found in one pass over
/// it. After damage the next start is not known either: every offset is tried, each for a block of at most
/// `resyncSizeMinimum` bytes or twice the largest block found, whichever is larger, within a bound of work for the
/// whole table.
///
/// A scanner belongs to one thread. The views that it returns are valid while `bytes` are, and contents while the
/// block lives.
struct BlockScanner {
  /// An intact block.
  struct Found {
    let start: Int
    let end: Int
    /// The content, or nil for a block that verifies but has no rows: a block of a filter, an index or the
    /// properties.
    let content: Content?
    /// The decompressed content of such a block.
    var other: Content?
  }

  struct Content {
    let bytes: BlockBytes
    let size: Int
    var view: ByteView { bytes.view(size) }
  }

  private let bytes: ByteView
  /// The offset of `bytes` in the file.
  private let fileOffset: UInt64
  private let tableID: UInt64
  /// The number of checksum steps that may still be made to find a block's start after damage.
  private var workLeft: Int
  private var largestFound = 0

  static let resyncSizeMinimum = 16 << 10
  /// The bound of work, in checksum steps: about a second.
  static let workMaximum = 1 << 28

  init(_ bytes: ByteView, fileOffset: UInt64, tableID: UInt64, work: Int = Self.workMaximum) {
    self.bytes = bytes
    self.fileOffset = fileOffset
    self.tableID = tableID
    workLeft = work
  }

  /// Returns the block that begins at `start`, of any size, or nil if none verifies.
  mutating func block(at start: Int) -> Found? {
    guard let end = end(ofBlockAt: start, limit: bytes.count) else { return nil }
    return decode(start, end)
  }

  /// Returns the next block that begins after `start`, or nil if there is none or the work is used up.
  mutating func next(after start: Int) -> Found? {
    let limit = max(Self.resyncSizeMinimum, 2 * largestFound)
    var position = start + 1
    while position + BlockTrailer.size <= bytes.count, workLeft > 0 {
      if let end = end(ofBlockAt: position, limit: limit) { return decode(position, end) }
      workLeft -= min(limit, bytes.count - position)
      position += 1
    }
    return nil
  }

  private mutating func decode(_ start: Int, _ end: Int) -> Found {
    largestFound = max(largestFound, end - start)
    let payload = bytes.slice(start, end - BlockTrailer.size)
    guard let codec = Compression(rawValue: bytes[end - BlockTrailer.size]),
      let content = codec.decompress(payload, sizeMaximum: TableFormat.contentSizeMaximum)
    else { return Found(start: start, end: end, content: nil) }
    let found = Content(bytes: content.memory, size: content.size)
    do throws(EngineError) { try Block.validate(found.view) } catch {
      return Found(start: start, end: end, content: nil, other: found)
    }
    return Found(start: start, end: end, content: found)
  }

  /// Returns the end, including the trailer, of the block of at most `limit` bytes at `start`, or nil if none
  /// verifies.
  private func end(ofBlockAt start: Int, limit: Int) -> Int? {
    let last = min(bytes.count - BlockTrailer.size, start + min(limit, bytes.count))
    guard start <= last else { return nil }
    let location = CRC32C.seed(tableID, fileOffset + UInt64(start))
    let codecMaximum = UInt8(Compression.allCases.count)
    var checksum: UInt32 = 0
    for position in start...last {
      let next = CRC32C.extend(checksum, bytes.slice(position, position + 1))
      if bytes[position] < codecMaximum, next ^ location == bytes.load(position + 1, as: UInt32.self) {
        return position + BlockTrailer.size
      }
      checksum = next
    }
    return nil
  }
}
