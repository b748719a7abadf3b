/// Prints a table as text, for the tool's `dump sst` and the text cases of the tests.
///
/// It prints one line for each record, with fields as `name value`, and keys and values in quotes with escapes. No
/// bytes in the file can stop the process: a fault becomes an error, as in every read.
struct TableDump {
  /// The parts of a table that are printed.
  struct Parts: OptionSet, Sendable {
    let rawValue: Int
    static let footer = Parts(rawValue: 1)
    static let properties = Parts(rawValue: 2)
    static let index = Parts(rawValue: 4)
    /// The shape of each data block: prefixes, widths of columns, bundles.
    static let blocks = Parts(rawValue: 8)
    static let rows = Parts(rawValue: 16)
    static let rangeTombstones = Parts(rawValue: 32)
    static let all: Parts = [.footer, .properties, .rangeTombstones, .index, .blocks, .rows]
  }

  let table: TableReader
  let parts: Parts
  private let line: (String) -> Void

  /// Calls `line` with each line, without its line terminator.
  static func run(_ table: TableReader, _ parts: Parts = .all, _ line: (String) -> Void) throws(EngineError) {
    try withoutActuallyEscaping(line) { line throws(EngineError) in
      try TableDump(table: table, parts: parts, line: line).run()
    }
  }

  private init(table: TableReader, parts: Parts, line: @escaping (String) -> Void) {
    self.table = table
    self.parts = parts
    self.line = line
  }

  private func run() throws(EngineError) {
    if parts.contains(.footer) { dumpFooter() }
    if parts.contains(.properties) { dumpProperties(try table.properties()) }
    if parts.contains(.rangeTombstones) { try dumpRangeTombstones() }
    guard !parts.isDisjoint(with: [.index, .blocks, .rows]) else { return }
    let root = try table.root()
    if table.footer.indexLevelCount == 1 { return try dumpIndex(root, indent: "") }
    for row in 0..<root.rowCount {
      let entry = root.entries.entry(row)
      if parts.contains(.index) { line("partition \(describe(root, row, entry))") }
      let memory = try table.read(entry.handle, .index)
      let content = memory.view.slice(0, Int(entry.handle.contentSize))
      try dumpIndex(IndexBlock(validated: content), indent: "  ")
    }
  }

  private func dumpFooter() {
    let footer = table.footer
    line("table \(hex(footer.tableID)) version \(TableFormat.version) size \(footer.fileSize) data \(footer.dataSize)")
    line(
      "features \(hex(footer.requiredFeatures)) transform \(footer.transformID) index levels \(footer.indexLevelCount)")
    line("root \(describe(footer.rootIndex))")
    line("filter at \(footer.filterOffset) lines \(footer.filterLineCount) probes \(footer.filterProbeCount)")
    line("properties \(describe(footer.properties))")
  }

  private func dumpProperties(_ properties: TableProperties) {
    let from = describe(properties.smallestKey, properties.smallestTrailer)
    let to = describe(properties.largestKey, properties.largestTrailer)
    line("entries \(properties.entryCount) keys \(properties.keyCount) tombstones \(properties.tombstoneCount)")
    line("key bytes \(properties.keysSize) value bytes \(properties.valuesSize) content \(properties.contentSize)")
    line("data blocks \(properties.dataBlockCount) copied \(properties.copiedBlockCount)")
    line("sequences \(properties.smallestSequence)...\(properties.largestSequence)")
    line("from \(from) to \(to)")
    let codec = Compression(rawValue: properties.compression).map { "\($0)" } ?? "\(properties.compression)"
    let origin = TableOrigin(rawValue: properties.origin).map { "\($0)" } ?? "\(properties.origin)"
    line("codec \(codec) block size \(properties.blockSize) bloom bits \(properties.bloomBitsPerKey)")
    line("made by \(origin) for level \(properties.level) at \(properties.createdAt)")
    if let family = properties.family {
      line("family \(family) \(String(decoding: properties.familyName ?? [], as: UTF8.self))")
    }
  }

  private func dumpRangeTombstones() throws(EngineError) {
    guard table.footer.rangeTombstones != .none else { return }
    line("range tombstones \(describe(table.footer.rangeTombstones))")
    let list = try table.readRangeTombstones()
    for index in 0..<list.count {
      let sequences = list.sequences(index).map { "\($0)" }.joined(separator: " ")
      line("  from \(list.start(index).printable) to \(list.end(index).printable) at \(sequences)")
    }
  }

  private func dumpIndex(_ index: IndexBlock, indent: String) throws(EngineError) {
    for row in 0..<index.rowCount {
      let entry = index.entries.entry(row)
      if parts.contains(.index) { line(indent + "block \(describe(index, row, entry))") }
      guard !parts.isDisjoint(with: [.blocks, .rows]) else { continue }
      let memory = try table.read(entry.handle, .data)
      let content = memory.view.slice(0, Int(entry.handle.contentSize))
      dumpBlock(content, indent: indent + "  ")
    }
  }

  private func dumpBlock(_ content: ByteView, indent: String) {
    let block = Block(validated: content)
    let layout = BlockLayout(content)
    if parts.contains(.blocks) {
      line(
        indent + "rows \(block.rowCount) prefix \(block.prefix.printable) keys \(layout.keysSize)"
          + " values \(layout.valuesSize) widths suffix \(layout.suffixWidth) value \(layout.offsetWidth)"
          + " sequence \(layout.sequenceWidth) kind \(layout.kindWidth)")
    }
    for row in 0..<block.rowCount {
      let bundle = block.bundle(row >> Block.bundleShift)
      if parts.contains(.blocks), row % Block.bundleSize == 0 {
        line(indent + "bundle \(row >> Block.bundleShift) prefix \(bundle.prefix.printable)")
      }
      guard parts.contains(.rows) else { continue }
      var key = ByteWriter()
      block.appendKey(row, to: &key)
      line(indent + "  \(describe(key.bytes, block.trailer(row))) = \(block.value(row).printable)")
    }
  }

  private func describe(_ index: IndexBlock, _ row: Int, _ entry: IndexEntry) -> String {
    var key = ByteWriter()
    index.separators.appendKey(row, to: &key)
    let trailer = index.separators.trailer(row)
    var text = "up to \(key.view.printable)"
    if trailer.word != 0 { text += "@\(trailer.sequence)" }
    text += " \(describe(entry.handle)) rows \(entry.rowCount) tombstones \(entry.tombstoneCount)"
    text += " sequences \(entry.smallestSequence)...\(entry.largestSequence)"
    if entry.flags & IndexEntry.severalVersions != 0 { text += " several-versions" }
    if entry.flags & IndexEntry.continuesBefore != 0 { text += " continues-before" }
    if entry.flags & IndexEntry.continuesAfter != 0 { text += " continues-after" }
    return text
  }

  private func describe(_ handle: BlockHandle) -> String {
    "at \(handle.offset) stored \(handle.storedSize) content \(handle.contentSize)"
  }

  private func describe(_ key: [UInt8], _ trailer: Trailer) -> String {
    let kind = trailer.kind.map { "\($0)" } ?? "kind \(trailer.rawKind)"
    return "\(key.withByteView { $0.printable })@\(trailer.sequence) \(kind)"
  }

  private func hex(_ number: UInt64) -> String { "0x" + String(number, radix: 16) }
}
