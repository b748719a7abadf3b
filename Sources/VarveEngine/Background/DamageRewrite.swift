/// Writes a new table from the blocks of a damaged table that can be read.
///
/// Readable entries keep their key, sequence number, kind and value, so every reader sees them as before. The entries
/// of unreadable blocks are lost, and the report lists their key ranges.
///
/// An instance rewrites one table, and is used by one thread.
final class DamageRewrite {
  private let background: BackgroundWork
  private let family: FamilyState
  private let table: TableMetadata
  private let level: Int
  private var output: TableOutput?
  private var lastKey = ByteWriter()
  private var lastTrailer = Trailer(word: 0)
  private var entryCount: UInt64 = 0
  private var tombstoneCount: UInt64 = 0

  init(_ background: BackgroundWork, _ family: FamilyState, _ table: TableMetadata, level: Int) {
    self.background = background
    self.family = family
    self.table = table
    self.level = level
  }

  private var path: String { background.tree.path(.table(table.number)) }

  /// Writes the new table, and syncs it and its directory. Returns no table if no part of the old one can be read.
  func run() throws(EngineError) -> (table: TableMetadata?, report: GivenUpDamage) {
    do throws(EngineError) {
      let report = try copy()
      guard let output else { return (nil, report) }
      let written = try output.finish()
      self.output = nil
      do throws(EngineError) {
        try background.tree.environment.fileSystem.syncDirectory(background.tree.directory)
      } catch {
        background.tree.removeTables([written.number])
        throw error
      }
      return (written, report)
    } catch {
      output?.discard()
      output = nil
      throw error
    }
  }

  private func copy() throws(EngineError) -> GivenUpDamage {
    let file: any File
    do throws(EngineError) {
      file = try background.tree.environment.fileSystem.openFile(path, writable: false)
    } catch {
      guard error.code == .notFound else { throw error }
      return report([whole("the file is missing")], rangeTombstones: 0)
    }
    defer { file.close() }
    let salvage = try TableSalvage(file, number: table.number, tableID: table.tableID)
    try salvage.run { (key, trailer, value) throws(EngineError) in try add(key, trailer, value) }
    let tombstones = salvage.rangeTombstones
    if !tombstones.isEmpty {
      let builder = try begin().builder
      for index in 0..<tombstones.count {
        builder.addRangeTombstone(tombstones.start(index), tombstones.end(index), tombstones.sequences(index))
      }
    }
    var parts = salvage.parts.map { part in
      GivenUpDamage.Part(
        offsets: part.start..<max(part.start, part.end), message: part.message, holdsEntries: part.holdsEntries,
        firstKey: part.keyBefore ?? table.smallestKey, lastKey: part.keyAfter ?? table.largestKey)
    }
    let size = try file.size()
    if size < table.fileSize {
      parts.append(
        part("the file has \(size) bytes, not \(table.fileSize)", size..<table.fileSize, holdsEntries: true))
    }
    return report(parts, rangeTombstones: UInt64(tombstones.tombstoneCount))
  }

  /// Adds an entry if it sorts after the last one that was added. Otherwise the entry is skipped, and counts as lost.
  ///
  /// `TableBuilder` stops the process at an entry out of order. A block that verifies can contain such entries: they
  /// were wrong before its checksum was computed, or a search for blocks found bytes that verify by chance.
  private func add(_ key: ByteView, _ trailer: Trailer, _ value: ByteView) throws(EngineError) {
    if entryCount > 0 {
      guard InternalKey(lastKey.view, lastTrailer).compare(InternalKey(key, trailer)) < 0 else { return }
      if entryCount.isMultiple(of: 1024) { try check() }
    }
    let builder = try begin().builder
    try builder.add(key, trailer, value)
    lastKey.removeAll()
    lastKey.append(key)
    lastTrailer = trailer
    entryCount += 1
    if trailer.isTombstone { tombstoneCount += 1 }
  }

  private func check() throws(EngineError) {
    if background.isClosing { throw EngineError(.canceled, "the engine closes") }
    if family.isDropped { throw EngineError(.canceled, "the column family was dropped") }
    output?.updateCharge()
  }

  private func begin() throws(EngineError) -> TableOutput {
    if let output { return output }
    let made = try TableOutput(background, family, level: level, origin: .compaction)
    output = made
    return made
  }

  // MARK: - The report

  private func part(_ message: String, _ offsets: Range<UInt64>, holdsEntries: Bool) -> GivenUpDamage.Part {
    GivenUpDamage.Part(
      offsets: offsets, message: message, holdsEntries: holdsEntries, firstKey: table.smallestKey,
      lastKey: table.largestKey)
  }

  private func whole(_ message: String) -> GivenUpDamage.Part { part(message, 0..<table.fileSize, holdsEntries: true) }

  /// Returns the report of the losses. Entries that the MANIFEST counts and that were not read are lost.
  private func report(_ parts: [GivenUpDamage.Part], rangeTombstones: UInt64) -> GivenUpDamage {
    GivenUpDamage(
      family: family.name, file: path, parts: parts, entryCount: table.entryCount - min(entryCount, table.entryCount),
      tombstoneCount: table.tombstoneCount - min(tombstoneCount, table.tombstoneCount),
      rangeTombstoneCount: table.rangeTombstoneCount - min(rangeTombstones, table.rangeTombstoneCount))
  }
}
