/// A table of a damaged database: whose it is, whether it is whole, and its entries as far as they can be read.
struct DamagedTableReader {
  let number: FileNumber
  let path: String
  /// What the MANIFEST says of it, where that can be read.
  let known: ManifestEvidence.Table?
  /// What the table says of itself, where that can be read.
  private(set) var properties: TableProperties?
  private(set) var fileSize: UInt64 = 0
  private(set) var tableID: UInt64?
  /// Nil: every checksum, order and count is right, and the MANIFEST agrees.
  private(set) var fault: EngineError?
  private(set) var isMissing = false

  /// Looks at the table; with `verifies` at all of it.
  init(_ number: FileNumber, _ survey: DatabaseSurvey, verifies: Bool) throws(EngineError) {
    self.number = number
    path = survey.path(.table(number))
    known = survey.evidence.tables[number]
    tableID = known?.metadata.tableID
    guard survey.tables[number] != nil else {
      isMissing = true
      fault = .corruption("table file is missing", file: path)
      return
    }
    do throws(EngineError) { try look(survey.fileSystem, verifies: verifies) } catch {
      fault = try error.requireDamage()
    }
  }

  private mutating func look(_ fileSystem: any FileSystem, verifies: Bool) throws(EngineError) {
    let file = try fileSystem.openFile(path, writable: false)
    defer { file.close() }
    fileSize = try file.size()
    if let known, known.metadata.fileSize != fileSize {
      throw .corruption("table file has \(fileSize) bytes; expected \(known.metadata.fileSize)", file: path)
    }
    let reader = try TableReader.open(
      file: file, number: number, fileSize: fileSize, cache: BlockCache(capacity: 1 << 20),
      tableID: known?.metadata.tableID)
    tableID = reader.tableID
    properties = try reader.properties()
    if verifies { try reader.verify() }
    if let properties, let known { try TableAgreement.check(properties, known.metadata, file: path) }
  }

  /// The family, by the MANIFEST or by the table.
  var family: FamilyID? { known?.family ?? properties?.family }

  /// Whether it is of a volatile family: those are emptied at an open, and no MANIFEST names their tables.
  var isVolatile: Bool {
    known == nil && FamilyFlags(options: properties?.familyOptions ?? []).contains(.volatile)
  }

  /// The bounds and counts of a whole table.
  var metadata: TableMetadata? {
    if let known { return known.metadata }
    guard let properties, let tableID else { return nil }
    return TableMetadata(
      number: number, TableSummary(fileSize: fileSize, tableID: tableID, properties: properties))
  }

  /// Visits the entries that can be read, in order, then hands over the range tombstones, and returns what
  /// can't be read. Throws what `visit` throws.
  func read(
    _ fileSystem: any FileSystem, family name: String, _ visit: TableSalvage.Visit,
    tombstones: (RangeTombstoneList) throws(EngineError) -> Void
  ) throws(EngineError) -> [DamagedPart] {
    if isMissing { return [wholeLoss(fault?.message ?? "", name)] }
    let file: any File
    do throws(EngineError) { file = try fileSystem.openFile(path, writable: false) } catch {
      return [wholeLoss("the table can't be opened: \(try error.requireDamage().message)", name)]
    }
    defer { file.close() }
    let salvage: TableSalvage
    do throws(EngineError) { salvage = try TableSalvage(file, number: number, tableID: tableID) } catch {
      return [wholeLoss("the table can't be read: \(try error.requireDamage().message)", name)]
    }
    try salvage.run(visit)
    try tombstones(salvage.rangeTombstones)
    var losses = salvage.parts.map { DamagedPart($0, file: path, family: name) }
    if let known, known.metadata.fileSize > fileSize {
      var lost = DamagedPart("the file ends here", file: path, offsets: fileSize..<known.metadata.fileSize)
      lost.family = name
      lost.holdsEntries =
        salvage.entryCount < known.metadata.entryCount
        || UInt64(salvage.rangeTombstones.tombstoneCount) < known.metadata.rangeTombstoneCount
      losses.append(lost)
    }
    if losses.isEmpty, let fault {
      // Every block can be read, and yet the table contradicts itself or the MANIFEST.
      var lost = DamagedPart(fault.message, file: path)
      lost.holdsEntries = false
      losses.append(lost)
    }
    return losses
  }

  private func wholeLoss(_ message: String, _ name: String) -> DamagedPart {
    guard let metadata = known?.metadata else {
      var lost = DamagedPart(message, file: path)
      lost.family = name
      return lost
    }
    return DamagedPart(message, wholeTable: metadata, file: path, family: name)
  }
}

/// What the MANIFEST says of a table must be what the table says of itself.
enum TableAgreement {
  static func check(_ properties: TableProperties, _ table: TableMetadata, file: String) throws(EngineError) {
    func require(_ isSame: Bool, _ what: String) throws(EngineError) {
      guard isSame else { throw .corruption("table does not match the MANIFEST: its \(what)", file: file) }
    }
    try require(properties.entryCount == table.entryCount, "count of entries")
    try require(properties.tombstoneCount == table.tombstoneCount, "count of tombstones")
    try require(properties.rangeTombstoneCount == table.rangeTombstoneCount, "count of range tombstones")
    try require(properties.keysSize &+ properties.valuesSize == table.rawSize, "bytes of keys and values")
    try require(
      properties.smallestKey == table.smallestKey && properties.smallestTrailer == table.smallestTrailer,
      "smallest key")
    try require(
      properties.largestKey == table.largestKey && properties.largestTrailer == table.largestTrailer, "largest key")
    try require(
      properties.smallestSequence == table.smallestSequence && properties.largestSequence == table.largestSequence,
      "sequences")
  }
}
