/// Where in a table a key lies, as its index tells without reading data.
extension TableReader {
  /// The position of a key: in which data block the entries from it on begin.
  struct Location {
    /// The bytes of data before that block.
    let offset: UInt64
    /// The block's bytes; 0 after the last one.
    let blockSize: UInt64
  }

  /// The position of a user key. Reads the root index, and one partition where there are any.
  func location(of userKey: ByteView) throws(EngineError) -> Location {
    // Before every entry of the key.
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
