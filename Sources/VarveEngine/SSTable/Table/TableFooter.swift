/// The last 128 bytes of a table, in the format that `TableFormat` describes.
struct TableFooter: Hashable, Sendable {
  var tableID: UInt64 = 0
  var fileSize: UInt64 = 0
  var rootIndex = BlockHandle.none
  var properties = BlockHandle.none
  var rangeTombstones = BlockHandle.none
  var filterOffset: UInt64 = 0
  var filterLineCount: UInt32 = 0
  var filterProbeCount: UInt8 = 0
  var filterKind: UInt8 = 0
  var requiredFeatures: UInt64 = 0
  var transformID: UInt32 = 0
  var indexLevelCount: UInt8 = 1
  var dataSize: UInt64 = 0

  /// Whether `rangeTombstones` is their index.
  var hasTombstoneIndex: Bool { requiredFeatures & TableFormat.tombstoneIndexFeature != 0 }

  func append(to writer: inout ByteWriter) {
    let start = writer.count
    writer.append(integer: tableID)
    writer.append(integer: fileSize)
    rootIndex.append(to: &writer)
    properties.append(to: &writer)
    rangeTombstones.append(to: &writer)
    writer.append(integer: filterOffset)
    writer.append(integer: filterLineCount)
    writer.append(integer: filterProbeCount)
    writer.append(integer: filterKind)
    writer.append(integer: UInt16(0))
    writer.append(integer: requiredFeatures)
    writer.append(integer: transformID)
    writer.append(integer: indexLevelCount)
    writer.append(repeating: 0, count: 3)
    writer.append(integer: dataSize)
    writer.append(integer: UInt64(0))
    writer.append(integer: TableFormat.version)
    writer.append(integer: UInt32(0))
    writer.append(integer: TableFormat.magic)
    let footer = writer.view.dropFirst(start)
    writer.patch(integer: TableFooter.checksum(footer, tableID, fileSize), at: start + 116)
  }

  private static func checksum(_ footer: ByteView, _ tableID: UInt64, _ fileSize: UInt64) -> UInt32 {
    CRC32C.extend(CRC32C.extend(0, footer.slice(0, 116)), footer.slice(120, 128)) ^ CRC32C.seed(tableID, fileSize)
  }

  /// Reads the footer of a file of `fileSize` bytes.
  init(_ view: ByteView, fileSize: UInt64, path: String) throws(EngineError) {
    let location = fileSize - min(fileSize, UInt64(TableFormat.footerSize))
    func damaged(_ message: String) -> EngineError { .corruption(message, file: path, offset: location) }
    guard view.count == TableFormat.footerSize, view.load(120, as: UInt64.self) == TableFormat.magic else {
      throw damaged("not a table: wrong magic at the end of the file")
    }
    tableID = view.load(0, as: UInt64.self)
    self.fileSize = view.load(8, as: UInt64.self)
    let computed = TableFooter.checksum(view, tableID, self.fileSize)
    let stored = view.load(116, as: UInt32.self)
    guard computed == stored else {
      throw damaged("table footer checksum mismatch: \(CRC32C.mismatch(stored: stored, computed: computed))")
    }
    let version = view.load(112, as: UInt32.self)
    guard version == TableFormat.version else {
      throw EngineError(
        .unsupportedFormat, "table has format version \(version); expected \(TableFormat.version)", file: path)
    }
    guard self.fileSize == fileSize else {
      throw damaged("table file has \(fileSize) bytes; its footer says \(self.fileSize)")
    }
    rootIndex = BlockHandle(view.slice(16, 32))
    properties = BlockHandle(view.slice(32, 48))
    rangeTombstones = BlockHandle(view.slice(48, 64))
    filterOffset = view.load(64, as: UInt64.self)
    filterLineCount = view.load(72, as: UInt32.self)
    filterProbeCount = view.load(76, as: UInt8.self)
    filterKind = view.load(77, as: UInt8.self)
    requiredFeatures = view.load(80, as: UInt64.self)
    transformID = view.load(88, as: UInt32.self)
    indexLevelCount = view.load(92, as: UInt8.self)
    dataSize = view.load(96, as: UInt64.self)
    try validate(view, path: path, location: location)
  }

  private func validate(_ view: ByteView, path: String, location: UInt64) throws(EngineError) {
    guard requiredFeatures & ~TableFormat.knownFeatures == 0, transformID == 0 else {
      throw EngineError(
        .unsupportedFormat,
        "table requires features \(requiredFeatures) and transform \(transformID); this version knows features \(TableFormat.knownFeatures) and transform 0",
        file: path)
    }
    let isReservedZero =
      view.load(78, as: UInt16.self) == 0 && view.slice(93, 96).bytes == [0, 0, 0]
      && view.load(104, as: UInt64.self) == 0
    guard isReservedZero, indexLevelCount == 1 || indexLevelCount == 2,
      filterLineCount == 0 || (filterKind == BloomFilter.kind && filterProbeCount <= BloomFilter.probeCountMaximum)
    else {
      throw EngineError(.unsupportedFormat, "table footer has fields that this version does not know", file: path)
    }
    guard (rangeTombstones != .none) == (requiredFeatures & TableFormat.rangeTombstoneFeature != 0),
      !hasTombstoneIndex || rangeTombstones != .none
    else {
      throw .corruption(
        "table footer is inconsistent: its features and its range tombstones contradict each other", file: path,
        offset: location)
    }
    // The sections follow each other in this order, and none overlaps another.
    guard dataSize <= filterOffset, filterOffset <= location, filterEnd <= rootIndex.offset,
      let rootEnd = rootIndex.end, let tombstonesEnd = rangeTombstones == .none ? rootEnd : rangeTombstones.end,
      rangeTombstones == .none || rangeTombstones.offset >= rootEnd, tombstonesEnd <= properties.offset,
      let propertiesEnd = properties.end, propertiesEnd <= location
    else {
      throw .corruption(
        "table footer names sections that overlap or lie outside the file", file: path, offset: location)
    }
  }

  /// The offset of the first byte after the filter. A filter has at most 2^32 lines.
  var filterEnd: UInt64 { filterOffset &+ TableFilter.fileSize(lineCount: filterLineCount) }

  init() {}
}
