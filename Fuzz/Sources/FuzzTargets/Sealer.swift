@testable import VarveEngine

/// Corrects the checksums of a damaged input. Otherwise a checksum would stop almost every input, and the code after it
/// would never be tested.
///
/// It traverses the format as a reader does, as far as it can, and corrects checksums on the way.
enum Sealer {
  static func seal(_ bytes: inout [UInt8], _ target: FuzzTarget) {
    switch target {
    case .footer: sealFooter(&bytes, end: bytes.count)
    case .log: sealLog(&bytes)
    case .manifest: sealManifest(&bytes)
    case .table: sealTable(&bytes)
    case .batch, .block, .catalog, .compression, .feed, .filter, .index, .jsonValue, .key, .keyRange, .properties,
      .propertyList, .rangeTombstones, .rowHeader, .value, .versionEdit:
      break
    }
  }

  private static func checksum(_ bytes: [UInt8], _ range: Range<Int>, from start: UInt32) -> UInt32 {
    bytes.withByteView { CRC32C.extend(start, $0.slice(range.lowerBound, range.upperBound)) }
  }

  private static func load<T: FixedWidthInteger & BitwiseCopyable>(
    _ bytes: [UInt8], _ offset: Int, as type: T.Type
  ) -> T {
    bytes.withByteView { $0.load(offset, as: T.self) }
  }

  private static func store(_ value: UInt32, _ bytes: inout [UInt8], at offset: Int) {
    for index in 0..<4 { bytes[offset + index] = UInt8(truncatingIfNeeded: value >> UInt32(8 * index)) }
  }

  // MARK: - Tables

  private static func sealFooter(_ bytes: inout [UInt8], end: Int) {
    let start = end - TableFormat.footerSize
    guard start >= 0 else { return }
    let seed = CRC32C.seed(load(bytes, start, as: UInt64.self), load(bytes, start + 8, as: UInt64.self))
    let head = checksum(bytes, start..<start + 116, from: 0)
    store(checksum(bytes, start + 120..<end, from: head) ^ seed, &bytes, at: start + 116)
  }

  /// Corrects the footer, the blocks that it points to, and the blocks that the index names.
  private static func sealTable(_ bytes: inout [UInt8]) {
    let start = bytes.count - TableFormat.footerSize
    guard start >= 0 else { return }
    sealFooter(&bytes, end: bytes.count)
    let tableID = load(bytes, start, as: UInt64.self)
    let root = handle(bytes, start + 16)
    sealBlock(&bytes, root, tableID)
    sealBlock(&bytes, handle(bytes, start + 32), tableID)
    if handle(bytes, start + 48) != .none { sealBlock(&bytes, handle(bytes, start + 48), tableID) }
    let filterOffset = load(bytes, start + 64, as: UInt64.self)
    sealPages(&bytes, filterOffset, lineCount: load(bytes, start + 72, as: UInt32.self), tableID)
    var handles = entries(bytes, root)
    for handle in handles { sealBlock(&bytes, handle, tableID) }
    if bytes[start + 92] == 2 {
      handles = handles.flatMap { entries(bytes, $0) }
      for handle in handles { sealBlock(&bytes, handle, tableID) }
    }
  }

  private static func handle(_ bytes: [UInt8], _ offset: Int) -> BlockHandle {
    bytes.withByteView { BlockHandle($0.slice(offset, offset + BlockHandle.size)) }
  }

  private static func sealPages(
    _ bytes: inout [UInt8], _ offset: UInt64, lineCount: UInt32, _ tableID: UInt64
  ) {
    var rest = Int(lineCount) * BloomFilter.lineSize
    var location = offset
    while rest > 0, location < UInt64(bytes.count) {
      let size = UInt32(min(rest, TableFilter.pageSize))
      sealBlock(&bytes, BlockHandle(offset: location, storedSize: size, contentSize: size), tableID)
      location += UInt64(Int(size) + BlockTrailer.size)
      rest -= Int(size)
    }
  }

  private static func sealBlock(_ bytes: inout [UInt8], _ handle: BlockHandle, _ tableID: UInt64) {
    guard let end = handle.end, end <= UInt64(bytes.count) else { return }
    let covered = Int(end) - 4
    let seed = CRC32C.seed(tableID, handle.offset)
    store(checksum(bytes, Int(handle.offset)..<covered, from: 0) ^ seed, &bytes, at: covered)
  }

  /// Returns the handles in an index block if it can be read, at most 200.
  private static func entries(_ bytes: [UInt8], _ handle: BlockHandle) -> [BlockHandle] {
    guard let end = handle.end, end <= UInt64(bytes.count), handle.contentSize <= 1 << 20,
      let codec = Compression(rawValue: bytes[Int(end) - BlockTrailer.size]),
      let memory = try? BlockMemory.allocate(Int(handle.contentSize))
    else { return [] }
    let start = Int(handle.offset)
    do throws(EngineError) {
      try bytes.withByteView { (view) throws(EngineError) in
        unsafe try codec.decompress(view.slice(start, start + Int(handle.storedSize)), into: memory.buffer)
      }
      try IndexBlock.validate(memory.view)
    } catch {
      return []
    }
    let index = IndexBlock(validated: memory.view)
    return (0..<min(index.rowCount, 200)).map { index.entries.handle($0) }
  }

  // MARK: - The log

  private static func sealLog(_ bytes: inout [UInt8]) {
    guard bytes.count >= LogTarget.headerSize else { return }
    let size = Int(load(bytes, 0, as: UInt32.self))
    let middle = min(LogTarget.headerSize + size, bytes.count)
    sealSegment(&bytes, LogTarget.headerSize..<middle)
    sealSegment(&bytes, middle..<bytes.count)
  }

  private static func sealSegment(_ bytes: inout [UInt8], _ range: Range<Int>) {
    guard range.count >= LogFormat.headerBlockSize else { return }
    let start = range.lowerBound
    for copy in [start, start + LogFormat.headerCopyOffset] {
      store(checksum(bytes, copy..<copy + 80, from: 0), &bytes, at: copy + 80)
    }
    let lifeID = load(bytes, start + 24, as: UInt64.self)
    var offset = start + LogFormat.headerBlockSize
    while offset + LogFormat.recordHeaderSize <= range.upperBound {
      let payload = offset + LogFormat.recordHeaderSize
      let size = Int(load(bytes, offset + 4, as: UInt32.self))
      guard size <= range.upperBound - payload else { return }
      let seed = CRC32C.seed(lifeID, UInt64(offset - start))
      store(checksum(bytes, payload..<payload + size, from: seed), &bytes, at: offset + 24)
      store(checksum(bytes, offset + 4..<payload, from: seed), &bytes, at: offset)
      offset += LogFormat.recordSize(payloadSize: size)
    }
  }

  // MARK: - The MANIFEST

  private static func sealManifest(_ bytes: inout [UInt8]) {
    guard bytes.count >= ManifestFormat.headerSize else { return }
    store(checksum(bytes, 0..<60, from: 0), &bytes, at: 60)
    let fileID = load(bytes, 24, as: UInt64.self)
    var offset = ManifestFormat.headerSize
    while offset + ManifestFormat.recordHeaderSize <= bytes.count {
      let body = offset + ManifestFormat.recordHeaderSize
      let size = ManifestFormat.paddedSize(Int(load(bytes, offset + 8, as: UInt32.self)))
      guard size <= bytes.count - body else { return }
      let seed = CRC32C.seed(fileID, UInt64(offset))
      store(checksum(bytes, body..<body + size, from: seed), &bytes, at: offset + 4)
      store(checksum(bytes, offset + 4..<body, from: seed), &bytes, at: offset)
      offset = body + size
    }
  }
}
