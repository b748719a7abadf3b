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

  private static func location(_ handle: BlockHandle) -> Location {
    Location(offset: handle.offset, blockSize: UInt64(handle.fileSize))
  }

  private var end: Location { Location(offset: footer.dataSize, blockSize: 0) }
}
