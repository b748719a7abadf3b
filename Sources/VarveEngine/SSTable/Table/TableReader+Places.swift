/// Where in a table a key lies, as its index tells without reading data.
extension TableReader {
  /// The place of a key: in which data block the entries from it on begin.
  struct Place {
    /// The bytes of data before that block.
    let offset: UInt64
    /// The block's bytes; 0 after the last one.
    let blockSize: UInt64
  }

  /// The place of a user key. Reads the root index, and one partition where there are any.
  func place(of userKey: ByteView) throws(EngineError) -> Place {
    // Before every entry of the key.
    let target = Trailer(word: .max)
    let root = try root()
    let rootRow = root.lowerBound(userKey, target)
    if rootRow == root.rowCount { return end }
    let handle = root.entries.handle(rootRow)
    if footer.indexLevelCount == 1 { return Self.place(handle) }
    let pin = try block(handle, .index)
    let partition = IndexBlock(validated: pin.content)
    let row = partition.lowerBound(userKey, target)
    return row == partition.rowCount ? end : Self.place(partition.entries.handle(row))
  }

  private static func place(_ handle: BlockHandle) -> Place {
    Place(offset: handle.offset, blockSize: UInt64(handle.fileSize))
  }

  private var end: Place { Place(offset: footer.dataSize, blockSize: 0) }
}
