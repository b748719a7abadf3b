/// The information in the readable records of a MANIFEST, regardless of how damaged the file is.
///
/// If the whole file can be read, or can be after single wrong bytes were corrected by their checksums
/// (`ManifestCorrection`), the result is the state. Otherwise every record that still verifies is taken, even
/// after damage, and edits whose neighbors are lost are applied as far as they are consistent: each table with its
/// family, tables and families that were permanently removed, and the sequences that are in tables.
///
/// A damaged header can be read if the file's id, which seeds the checksums, is wrong in at most one bit.
struct ManifestEvidence: Sendable {
  struct Family: Sendable {
    var name: String
    var options: [UInt8]
  }

  struct Table: Sendable {
    var family: FamilyID
    var level: Int
    var metadata: TableMetadata
  }

  /// The state, if every record up to the end can be read. The end may be torn.
  var state: ManifestState?
  /// Whether no record can be missing: everything up to a mark is readable.
  var isComplete = false
  var parts: [UnreadablePart] = []
  /// The number of records read.
  var recordCount = 0

  var databaseID: UInt64?
  var incarnation: UInt64?
  /// Families that were created and not dropped.
  var families: [FamilyID: Family] = [:]
  /// Tables that were added and not deleted.
  var tables: [FileNumber: Table] = [:]
  /// Tables that are certainly obsolete.
  var deletedTables: Set<FileNumber> = []
  var flushed: [FamilyID: SequenceNumber] = [:]
  var lastSequence = SequenceNumber.zero
  var nextFileNumber = FileNumber(1)
  var nextFamilyID = FamilyID.default
  var oldestLog: FileNumber?
  var logCuts: [FileNumber: VersionEdit.LogCut] = [:]
  private var droppedFamilies: Set<FamilyID> = []
  /// The `nextFamilyID` of the snapshot: every id below it that has no family was dropped.
  private var familyLimit = FamilyID.default

  /// Creates evidence without any information.
  init() {}

  /// Reads the bytes of the MANIFEST with the given number.
  init(_ bytes: ByteView, number: FileNumber, file: String) {
    do throws(EngineError) {
      try readWhole(bytes, number: number, file: file)
    } catch {
      self = ManifestEvidence()
      if readCorrected(bytes, number: number, file: file) { return }
      self = ManifestEvidence()
      readRecords(bytes, number: number, file: file)
    }
  }

  /// Whether the family was certainly dropped.
  func isDropped(_ family: FamilyID) -> Bool {
    droppedFamilies.contains(family) || (family < familyLimit && families[family] == nil)
  }

  // MARK: - A whole file

  private mutating func readWhole(_ bytes: ByteView, number: FileNumber, file: String) throws(EngineError) {
    var reader = try ManifestReader(bytes, number: number, file: file)
    var replay = ManifestReplay(databaseID: reader.header.databaseID, file: file)
    while let record = try reader.next() {
      try replay.add(record)
      add(record.edit, isSnapshot: record.kind == .snapshot)
    }
    state = try replay.finish()
    switch reader.ending {
    case .marked: isComplete = true
    case .torn(let offset):
      // Either the last record is torn, or only its mark is lost.
      if Int(offset) < bytes.count {
        parts = [
          UnreadablePart(start: offset, end: UInt64(bytes.count), message: "the last record of the MANIFEST is torn")
        ]
      }
    case nil: break
    }
  }

  // MARK: - A damaged file

  /// Reads the whole file with single wrong bytes corrected. Returns false if it cannot be read even then.
  private mutating func readCorrected(_ bytes: ByteView, number: FileNumber, file: String) -> Bool {
    guard let correction = ManifestCorrection(bytes, number: number, file: file) else { return false }
    var copy = ManifestEvidence()
    let isRead = correction.bytes.withByteView { view in
      do throws(EngineError) { try copy.readWhole(view, number: number, file: file) } catch { return false }
      return true
    }
    guard isRead else { return false }
    self = copy
    parts = correction.parts + parts
    return true
  }

  private mutating func readRecords(_ bytes: ByteView, number: FileNumber, file: String) {
    guard let header = findHeader(bytes, number, file) else {
      parts = [
        UnreadablePart(start: 0, end: UInt64(bytes.count), message: "no record of the MANIFEST can be read")
      ]
      return
    }
    databaseID = header.databaseID
    let reader = ManifestReader(bytes, header: header, file: file)
    var position = ManifestFormat.headerSize
    var good = position
    var isMarked = false
    while position + ManifestFormat.recordHeaderSize <= bytes.count {
      guard case .valid(let kind, let payload) = reader.frame(at: position), let edit = decode(payload) else {
        position += ManifestFormat.alignment
        continue
      }
      if position > good { addPart(good, position) }
      position += ManifestFormat.recordHeaderSize + ManifestFormat.paddedSize(payload.count)
      good = position
      isMarked = kind == .mark
      guard kind != .mark else { continue }
      recordCount += 1
      add(edit, isSnapshot: kind == .snapshot)
    }
    // The rest of a longer append may follow the mark.
    if good < bytes.count, !isMarked { addPart(good, bytes.count) }
  }

  private mutating func addPart(_ start: Int, _ end: Int) {
    parts.append(
      UnreadablePart(start: UInt64(start), end: UInt64(end), message: "no record of the MANIFEST can be read"))
  }

  private func decode(_ payload: ByteView) -> VersionEdit? {
    do throws(EngineError) { return try VersionEdit(decoding: payload) } catch { return nil }
  }

  /// Returns the header, or the header with one bit of the file's id flipped: the first flip with which some record
  /// verifies.
  private mutating func findHeader(_ bytes: ByteView, _ number: FileNumber, _ file: String) -> ManifestFormat.Header? {
    do throws(EngineError) { return try ManifestFormat.decodeHeader(bytes, number: number, file: file) } catch {}
    guard bytes.count >= ManifestFormat.headerSize + ManifestFormat.recordHeaderSize else { return nil }
    let written = bytes.load(24, as: UInt64.self)
    for fileID in [written] + (0..<64).map({ written ^ (1 << UInt64($0)) }) {
      let header = ManifestFormat.Header(
        requiredFeatures: 0, fileID: fileID, databaseID: bytes.load(32, as: UInt64.self), number: number)
      let reader = ManifestReader(bytes, header: header, file: file)
      for offset in stride(
        from: ManifestFormat.headerSize, through: bytes.count - ManifestFormat.recordHeaderSize,
        by: ManifestFormat.alignment)
      {
        guard case .valid = reader.frame(at: offset) else { continue }
        parts.append(
          UnreadablePart(
            start: 0, end: UInt64(ManifestFormat.headerSize), message: "the header of the MANIFEST is damaged"))
        return header
      }
    }
    return nil
  }

  // MARK: - Edits

  private mutating func add(_ edit: VersionEdit, isSnapshot: Bool) {
    if let id = edit.databaseID { databaseID = id }
    if let id = edit.incarnation { incarnation = id }
    for created in edit.createdFamilies {
      families[created.family] = Family(name: created.name, options: created.options)
      nextFamilyID = max(nextFamilyID, FamilyID(created.family.value &+ 1))
    }
    for changed in edit.changedOptions { families[changed.family]?.options = changed.options }
    for deleted in edit.deletedTables {
      tables[deleted.number] = nil
      deletedTables.insert(deleted.number)
    }
    for added in edit.addedTables {
      tables[added.table.number] = Table(family: added.family, level: added.level, metadata: added.table)
      deletedTables.remove(added.table.number)
      raiseFileNumber(above: added.table.number)
    }
    for dropped in edit.droppedFamilies {
      families[dropped] = nil
      droppedFamilies.insert(dropped)
      for (number, table) in tables where table.family == dropped {
        tables[number] = nil
        deletedTables.insert(number)
      }
    }
    addNumbers(edit)
    if isSnapshot { familyLimit = nextFamilyID }
  }

  private mutating func addNumbers(_ edit: VersionEdit) {
    for item in edit.flushedSequences {
      flushed[item.family] = max(flushed[item.family] ?? .zero, item.sequence)
      lastSequence = max(lastSequence, item.sequence)
    }
    if let number = edit.nextFileNumber { nextFileNumber = max(nextFileNumber, number) }
    if let id = edit.nextFamilyID { nextFamilyID = max(nextFamilyID, id) }
    if let sequence = edit.lastSequence { lastSequence = max(lastSequence, sequence) }
    if let oldest = edit.oldestLog, oldest.value > 0 { oldestLog = max(oldestLog ?? oldest, oldest) }
    for cut in edit.logCuts { logCuts[cut.segment] = cut }
  }

  private mutating func raiseFileNumber(above number: FileNumber) {
    nextFileNumber = max(nextFileNumber, FileNumber(number.value + 1))
  }
}
