/// The Bloom filter of a table, in pages.
///
/// # Format
/// The lines that `BloomFilter` describes, 64 in each page; the last page may be shorter. A page is a block that is
/// never compressed: 4,096 bytes and a trailer. The page of a key follows from its hash, so no search is needed. The
/// number of lines and probes are in the footer of the table.
///
/// The filter of a large table takes megabytes. In one piece it would be read whole for one lookup and would evict
/// everything else from a small cache; a page is read in a microsecond.
enum TableFilter {
  // On disk: never change.
  static let pageLineCount = 64
  static let pageSize = pageLineCount * BloomFilter.lineSize

  /// Returns the number of bytes that the pages of a filter take.
  static func fileSize(lineCount: UInt32) -> UInt64 {
    let lines = UInt64(lineCount)
    let pages = (lines + UInt64(pageLineCount) - 1) / UInt64(pageLineCount)
    return lines * UInt64(BloomFilter.lineSize) + pages * UInt64(BlockTrailer.size)
  }

  /// Returns the number of a hash's page, and the offset of the key's line in it.
  @inline(__always)
  static func location(_ hash: UInt64, _ footer: TableFooter) -> (page: Int, line: Int) {
    let lineOffset = BloomFilter.lineOffset(hash, Int(footer.filterLineCount))
    return (lineOffset / pageSize, lineOffset & (pageSize - 1))
  }

  static func pageCount(_ footer: TableFooter) -> Int {
    (Int(footer.filterLineCount) + pageLineCount - 1) / pageLineCount
  }

  @inline(__always)
  static func handle(_ page: Int, _ footer: TableFooter) -> BlockHandle {
    let rest = Int(footer.filterLineCount) &* BloomFilter.lineSize &- page &* pageSize
    let size = UInt32(truncatingIfNeeded: min(rest, pageSize))
    let offset = footer.filterOffset &+ UInt64(truncatingIfNeeded: page &* (pageSize &+ BlockTrailer.size))
    return BlockHandle(offset: offset, storedSize: size, contentSize: size)
  }

  /// Writes the filter of the collected keys and records its location in the footer.
  static func write(
    _ builder: inout BloomFilterBuilder, to file: inout TableFileWriter, _ footer: inout TableFooter
  ) throws(EngineError) {
    footer.filterOffset = file.size
    guard builder.count > 0 else { return }
    var filter = ByteWriter(capacity: builder.estimatedSize)
    builder.finish(appendingTo: &filter)
    var end = ByteReader(filter.view.dropFirst(filter.count - BloomFilter.footerSize))
    footer.filterLineCount = try end.integer(UInt32.self)
    footer.filterProbeCount = try end.integer(UInt8.self)
    footer.filterKind = try end.integer(UInt8.self)
    var start = 0
    let size = filter.count - BloomFilter.footerSize
    while start < size {
      let next = min(start + pageSize, size)
      _ = try file.append(packed: filter.view.slice(start, next), .none, contentSize: UInt32(next - start))
      start = next
    }
  }
}
