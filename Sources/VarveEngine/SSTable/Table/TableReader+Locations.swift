/// The positions of keys in a table, determined from its index without reading data.
extension TableReader {
  /// The position of a key: the data block in which the entries from the key on begin.
  struct Location {
    /// The number of bytes of data before that block.
    let offset: UInt64
    /// The size of the block, or 0 after the last one.
    let blockSize: UInt64
  }

  /// Returns the position of a user key. Reads the root index, and one partition if there are any.
  func location(of userKey: ByteView) throws(EngineError) -> Location {
    // The target is before every entry of the key.
    let target = Trailer(word: .max)
    let root = try root()
    let rootRow = root.lowerBound(userKey, target)
    if rootRow == root.rowCount { return end }
    let handle = root.entries.handle(rootRow)
    if footer.indexLevelCount == 1 { return Self.location(handle) }
    let pin = try block(handle, .index)
    let partition = IndexBlock(validated: pin.content)
    let row = partition.lowerBound(userKey, target)
    return row == partition.rowCount ? end : Self.location(partition.entries.handle(row))
  }

  /// The average entry of a data block.
  struct AverageEntry {
    /// The bytes of the file that one entry takes.
    let size: Double
    /// The share of the entries that are tombstones.
    let tombstoneShare: Double
  }

  /// Returns the average entry of the data block that has the entries of a user key, or nil if the table has none.
  ///
  /// A value that is larger than a block has a block of its own, so it is not averaged. `hash` is that of the key.
  /// Reads a page of the filter, the root index, and one partition if there are any; no data. Where the filter is
  /// wrong, the result is that of another key.
  func averageEntry(of userKey: ByteView, hash: UInt64) throws(EngineError) -> AverageEntry? {
    guard try mayContain(hash) else { return nil }
    let target = Trailer(word: .max)
    let root = try root()
    let rootRow = root.lowerBound(userKey, target)
    if rootRow == root.rowCount { return nil }
    if footer.indexLevelCount == 1 { return average(root.entries.entry(rootRow)) }
    let pin = try block(root.entries.handle(rootRow), .index)
    let partition = IndexBlock(validated: pin.content)
    let row = partition.lowerBound(userKey, target)
    return row == partition.rowCount ? nil : average(partition.entries.entry(row))
  }

  private func average(_ entry: IndexEntry) -> AverageEntry {
    let count = Double(max(entry.rowCount, 1))
    return AverageEntry(
      size: Double(entry.handle.fileSize) / count * sizePerDataByte,
      tombstoneShare: min(Double(entry.tombstoneCount) / count, 1))
  }

  /// The bytes of the file for each byte of data: its filter and index are shared out evenly.
  var sizePerDataByte: Double { Double(footer.fileSize) / Double(max(footer.dataSize, 1)) }

  private static func location(_ handle: BlockHandle) -> Location {
    Location(offset: handle.offset, blockSize: UInt64(handle.fileSize))
  }

  private var end: Location { Location(offset: footer.dataSize, blockSize: 0) }
}
