/// A table of a damaged database: its family, whether it is intact, and its entries as far as they can be read.
struct DamagedTableReader {
  let number: FileNumber
  let path: String
  /// The entry of the MANIFEST for the table, if that can be read.
  let known: ManifestEvidence.Table?
  /// The properties that the table has stored, if they can be read.
  private(set) var properties: TableProperties?
  private(set) var fileSize: UInt64 = 0
  private(set) var tableID: UInt64?
  /// The first fault found, or `nil` if every checksum, order and count is right, and the MANIFEST agrees.
  private(set) var fault: EngineError?
  private(set) var isMissing = false

  /// Examines the table, and with `verifies` all of its bytes.
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

  /// The family, from the MANIFEST or from the table.
  var family: FamilyID? { known?.family ?? properties?.family }

  /// A Boolean value that indicates whether the table is of a volatile family.
  ///
  /// Such families are emptied by an open, and no MANIFEST names their tables.
  var isVolatile: Bool {
    known == nil && FamilyFlags(options: properties?.familyOptions ?? []).contains(.volatile)
  }

  /// The bounds and counts of an intact table.
  var metadata: TableMetadata? {
    if let known { return known.metadata }
    guard let properties, let tableID else { return nil }
    return TableMetadata(
      number: number, TableSummary(fileSize: fileSize, tableID: tableID, properties: properties))
  }

  /// Visits the entries that can be read, in order, then passes the range tombstones, and returns the unreadable parts.
  ///
  /// Throws what `visit` throws.
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
      // Every block can be read, but the table contradicts itself or the MANIFEST.
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

/// Checks that the entry of the MANIFEST for a table agrees with the properties of the table.
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
    // A build that does not know a field leaves it out of the MANIFEST.
    try require(table.hidden.isEmpty || properties.hidden == table.hidden, "hidden entries")
    try require(table.shadowedSize == nil || properties.shadowedSize == table.shadowedSize, "shadowed bytes")
  }
}
