// The encoding of a VersionEdit: the payload of a MANIFEST record.
//
// # Format
// A sequence of fields until the payload ends. Integers are varints unless a size is given, fixed
// ones little-endian, `bytes` is a varint count and that many bytes:
//
//     field:  varint (tag * 2 + skippable) | varint size | size bytes
//
//     tag | content
//      1  | database id: 8 bytes
//      2  | format version
//      3  | required features: 8 bytes, one bit a feature
//      4  | next file number
//      5  | last sequence
//      6  | next family id
//      7  | family created: id, bytes name (UTF-8), bytes options
//      8  | family dropped: id
//      9  | family options: id, bytes options
//     10  | table deleted: family, level, number
//     11  | table added: family, level, number, file size, table id (8 bytes),
//         |   bytes smallest key, smallest trailer (8 bytes), bytes largest key, largest trailer
//         |   (8 bytes), smallest sequence, largest sequence, entries, tombstones,
//         |   range tombstones, raw size
//     12  | flushed sequence: family, sequence
//     13  | oldest live log segment: number
//     14  | log cut: segment, life id (8 bytes), end offset
//     15  | log segment dropped: number; reserved
//     16  | log segment pooled: number; reserved
//     17  | incarnation: 8 bytes
//     18  | hidden entries, skippable: family, number, groups (HiddenEntries) of a table that
//         |   the same edit adds
//     19  | shadowed bytes, skippable: family, number, estimated bytes that the tombstones of a
//         |   table hide, which the same edit adds
//
// The engine does not write the reserved tags 15 and 16, and they change nothing. A reader only checks that their
// segments are before the oldest live one.
//
// On disk: never change a tag or its content; an addition to a content gets its own tag.
//
// # Invariants
// 1. The writer emits fields in one order, so an edit has only one encoding: identity and numbers, families created,
//    options changed, tables deleted, tables added, hidden entries, shadowed bytes, flushed sequences, families
//    dropped, the log. A reader accepts any order; `VersionEdit` states the order of application.
// 2. A tag that the reader does not know is skipped if its field is marked skippable; otherwise it is
//    `.unsupportedFormat`: the writer knew something without which the state is wrong.
// 3. A known field is read to its last byte; remaining bytes are damage.

/// The tags of the fields. On disk: never change a number.
private enum Tag: UInt64 {
  case databaseID = 1
  case formatVersion = 2
  case requiredFeatures = 3
  case nextFileNumber = 4
  case lastSequence = 5
  case nextFamilyID = 6
  case familyCreated = 7
  case familyDropped = 8
  case familyOptions = 9
  case tableDeleted = 10
  case tableAdded = 11
  case flushedSequence = 12
  case oldestLog = 13
  case logCut = 14
  case logDropped = 15
  case logPooled = 16
  case incarnation = 17
  case hiddenEntries = 18
  case shadowedSize = 19

  /// Whether a reader that does not know the field may skip it.
  var isSkippable: Bool { self == .hiddenEntries || self == .shadowedSize }
}

extension VersionEdit {
  /// Appends the edit's bytes.
  func encode(appendingTo writer: inout ByteWriter) {
    var field = ByteWriter(capacity: 256)
    encodeIdentity(&writer, &field)
    encodeFamilies(&writer, &field)
    encodeTables(&writer, &field)
    for dropped in droppedFamilies { Self.put(.familyDropped, UInt64(dropped.value), &writer, &field) }
    encodeLog(&writer, &field)
  }

  private func encodeIdentity(_ writer: inout ByteWriter, _ field: inout ByteWriter) {
    if let databaseID {
      field.append(integer: databaseID)
      Self.finish(.databaseID, &writer, &field)
    }
    if let incarnation {
      field.append(integer: incarnation)
      Self.finish(.incarnation, &writer, &field)
    }
    if let formatVersion { Self.put(.formatVersion, UInt64(formatVersion), &writer, &field) }
    if let requiredFeatures {
      field.append(integer: requiredFeatures)
      Self.finish(.requiredFeatures, &writer, &field)
    }
    if let nextFileNumber { Self.put(.nextFileNumber, nextFileNumber.value, &writer, &field) }
    if let lastSequence { Self.put(.lastSequence, lastSequence.value, &writer, &field) }
    if let nextFamilyID { Self.put(.nextFamilyID, UInt64(nextFamilyID.value), &writer, &field) }
  }

  private func encodeFamilies(_ writer: inout ByteWriter, _ field: inout ByteWriter) {
    for created in createdFamilies {
      field.append(varint: UInt64(created.family.value))
      let name = [UInt8](created.name.utf8)
      field.append(varint: UInt64(name.count))
      field.append(name)
      field.append(varint: UInt64(created.options.count))
      field.append(created.options)
      Self.finish(.familyCreated, &writer, &field)
    }
    for changed in changedOptions {
      field.append(varint: UInt64(changed.family.value))
      field.append(varint: UInt64(changed.options.count))
      field.append(changed.options)
      Self.finish(.familyOptions, &writer, &field)
    }
  }

  private func encodeTables(_ writer: inout ByteWriter, _ field: inout ByteWriter) {
    for deleted in deletedTables {
      field.append(varint: UInt64(deleted.family.value))
      field.append(varint: UInt64(deleted.level))
      field.append(varint: deleted.number.value)
      Self.finish(.tableDeleted, &writer, &field)
    }
    for added in addedTables {
      field.append(varint: UInt64(added.family.value))
      field.append(varint: UInt64(added.level))
      added.table.encode(appendingTo: &field)
      Self.finish(.tableAdded, &writer, &field)
    }
    for added in addedTables where !added.table.hidden.isEmpty {
      field.append(varint: UInt64(added.family.value))
      field.append(varint: added.table.number.value)
      added.table.hidden.encode(appendingTo: &field)
      Self.finish(.hiddenEntries, &writer, &field)
    }
    for added in addedTables {
      guard let size = added.table.shadowedSize else { continue }
      field.append(varint: UInt64(added.family.value))
      field.append(varint: added.table.number.value)
      field.append(varint: size)
      Self.finish(.shadowedSize, &writer, &field)
    }
    for flushed in flushedSequences {
      field.append(varint: UInt64(flushed.family.value))
      field.append(varint: flushed.sequence.value)
      Self.finish(.flushedSequence, &writer, &field)
    }
  }

  private func encodeLog(_ writer: inout ByteWriter, _ field: inout ByteWriter) {
    if let oldestLog { Self.put(.oldestLog, oldestLog.value, &writer, &field) }
    for cut in logCuts {
      field.append(varint: cut.segment.value)
      field.append(integer: cut.lifeID)
      field.append(varint: cut.endOffset)
      Self.finish(.logCut, &writer, &field)
    }
    for log in droppedLogs { Self.put(.logDropped, log.value, &writer, &field) }
    for log in pooledLogs { Self.put(.logPooled, log.value, &writer, &field) }
  }

  private static func put(_ tag: Tag, _ value: UInt64, _ writer: inout ByteWriter, _ field: inout ByteWriter) {
    field.append(varint: value)
    finish(tag, &writer, &field)
  }

  private static func finish(_ tag: Tag, _ writer: inout ByteWriter, _ field: inout ByteWriter) {
    writer.append(varint: tag.rawValue << 1 | (tag.isSkippable ? 1 : 0))
    writer.append(lengthPrefixed: field.view)
    field.removeAll()
  }
}

extension VersionEdit {
  /// Decodes an edit. `file` and `fileOffset` are the source of the bytes.
  init(decoding bytes: ByteView, file: String? = nil, fileOffset: UInt64 = 0) throws(EngineError) {
    self.init()
    var additions = TableAdditions()
    var reader = ByteReader(bytes, file: file, fileOffset: fileOffset)
    while !reader.isAtEnd {
      let word = try reader.varint()
      let size = try reader.count(limit: reader.remaining)
      let contentOffset = fileOffset + UInt64(reader.position)
      let content = try reader.bytes(size)
      guard let tag = Tag(rawValue: word >> 1) else {
        if word & 1 == 1 { continue }
        throw EngineError(
          .unsupportedFormat, "a field of a VersionEdit with the unknown tag \(word >> 1); a newer version wrote it",
          file: file, offset: contentOffset)
      }
      var field = ByteReader(content, file: file, fileOffset: contentOffset)
      if tag.isSkippable { try additions.decode(tag, &field) } else { try decode(tag, &field) }
      guard field.isAtEnd else { throw field.corruption("a field with tag \(tag.rawValue) has bytes left over") }
    }
    try additions.apply(to: &addedTables, file: file)
  }

  /// What an edit says about the tables that it adds, in fields that a reader may skip.
  private struct TableAdditions {
    private struct Table: Hashable {
      let family: FamilyID
      let number: FileNumber
    }

    private var hidden: [Table: HiddenEntries] = [:]
    private var shadowed: [Table: UInt64] = [:]

    mutating func decode(_ tag: Tag, _ field: inout ByteReader) throws(EngineError) {
      let table = Table(family: try field.familyID(), number: try field.fileNumber())
      let isNew =
        tag == .hiddenEntries
        ? hidden.updateValue(try HiddenEntries(&field), forKey: table) == nil
        : shadowed.updateValue(try field.size(), forKey: table) == nil
      guard isNew else {
        throw field.corruption("a field with tag \(tag.rawValue) of table \(table.number) is given twice")
      }
    }

    mutating func apply(to tables: inout [TableAddition], file: String?) throws(EngineError) {
      if hidden.isEmpty, shadowed.isEmpty { return }
      for index in tables.indices {
        let added = tables[index]
        let table = Table(family: added.family, number: added.table.number)
        let entries = hidden.removeValue(forKey: table)
        let size = shadowed.removeValue(forKey: table)
        guard entries != nil || size != nil else { continue }
        tables[index].table = TableMetadata(added.table, hidden: entries ?? .none, shadowedSize: size)
      }
      if let table = hidden.keys.first ?? shadowed.keys.first {
        throw .corruption("an edit has a field of table \(table.number), which it does not add", file: file)
      }
    }
  }

  private mutating func decode(_ tag: Tag, _ field: inout ByteReader) throws(EngineError) {
    switch tag {
    case .databaseID: databaseID = try field.integer(UInt64.self)
    case .formatVersion: formatVersion = try field.number32()
    case .requiredFeatures: requiredFeatures = try field.integer(UInt64.self)
    case .nextFileNumber: nextFileNumber = try field.fileNumber()
    case .lastSequence: lastSequence = try field.sequence()
    case .nextFamilyID: nextFamilyID = try field.familyID()
    case .familyCreated: createdFamilies.append(try FamilyCreation(&field))
    case .familyDropped: droppedFamilies.append(try field.familyID())
    case .familyOptions:
      changedOptions.append(
        FamilyOptionsChange(family: try field.familyID(), options: try field.lengthPrefixed().bytes))
    case .tableDeleted:
      deletedTables.append(
        TableDeletion(family: try field.familyID(), level: try field.level(), number: try field.fileNumber()))
    case .tableAdded:
      addedTables.append(
        TableAddition(family: try field.familyID(), level: try field.level(), table: try TableMetadata(&field)))
    case .flushedSequence:
      flushedSequences.append(FlushedSequence(family: try field.familyID(), sequence: try field.sequence()))
    case .oldestLog: oldestLog = try field.fileNumber()
    case .logCut:
      logCuts.append(
        LogCut(
          segment: try field.fileNumber(), lifeID: try field.integer(UInt64.self), endOffset: try field.varint()))
    case .logDropped: droppedLogs.append(try field.fileNumber())
    case .logPooled: pooledLogs.append(try field.fileNumber())
    case .incarnation: incarnation = try field.integer(UInt64.self)
    case .hiddenEntries, .shadowedSize: break  // read by the caller
    }
  }
}

extension VersionEdit.FamilyCreation {
  fileprivate init(_ field: inout ByteReader) throws(EngineError) {
    family = try field.familyID()
    let text = try field.lengthPrefixed().bytes
    guard let name = String(validating: text, as: UTF8.self), text.count <= Limits.familyNameSizeMaximum else {
      throw field.corruption("a family name that is not UTF-8 or too long")
    }
    self.name = name
    options = try field.lengthPrefixed().bytes
  }
}

extension TableMetadata {
  /// Appends everything except the family and the level.
  fileprivate func encode(appendingTo field: inout ByteWriter) {
    field.append(varint: number.value)
    field.append(varint: fileSize)
    field.append(integer: tableID)
    field.append(lengthPrefixed: smallest)
    field.append(integer: smallestTrailer.word)
    field.append(lengthPrefixed: largest)
    field.append(integer: largestTrailer.word)
    field.append(varint: smallestSequence.value)
    field.append(varint: largestSequence.value)
    field.append(varint: entryCount)
    field.append(varint: tombstoneCount)
    field.append(varint: rangeTombstoneCount)
    field.append(varint: rawSize)
  }

  fileprivate convenience init(_ field: inout ByteReader) throws(EngineError) {
    let number = try field.fileNumber()
    let fileSize = try field.size()
    let tableID = try field.integer(UInt64.self)
    let smallestKey = try field.userKey()
    let smallestTrailer = Trailer(word: try field.integer(UInt64.self))
    let largestKey = try field.userKey()
    let largestTrailer = Trailer(word: try field.integer(UInt64.self))
    let smallestSequence = try field.sequence()
    let largestSequence = try field.sequence()
    guard InternalKey(smallestKey, smallestTrailer).compare(InternalKey(largestKey, largestTrailer)) <= 0 else {
      throw field.corruption("the bounds of table \(number) are in the wrong order")
    }
    guard smallestSequence <= largestSequence else {
      throw field.corruption("the sequences of table \(number) are in the wrong order")
    }
    self.init(
      number: number, fileSize: fileSize, tableID: tableID,
      smallestKey: smallestKey, smallestTrailer: smallestTrailer,
      largestKey: largestKey, largestTrailer: largestTrailer,
      smallestSequence: smallestSequence, largestSequence: largestSequence,
      entryCount: try field.size(), tombstoneCount: try field.size(),
      rangeTombstoneCount: try field.size(), rawSize: try field.size())
  }
}

extension ByteReader {
  fileprivate mutating func number32() throws(EngineError) -> UInt32 {
    guard let value = UInt32(exactly: try varint()) else { throw corruption("a number above 32 bits") }
    return value
  }

  fileprivate mutating func familyID() throws(EngineError) -> FamilyID { FamilyID(try number32()) }

  fileprivate mutating func level() throws(EngineError) -> Int { try count(limit: Limits.levelCount - 1) }

  fileprivate mutating func fileNumber() throws(EngineError) -> FileNumber {
    let value = try varint()
    // A counter that starts near the end of 64 bits would wrap. No database reaches such a number by counting.
    guard value < 1 << 62 else { throw corruption("a file number of \(value)") }
    return FileNumber(value)
  }

  /// Reads the bytes or entries of one table. They are limited so that the sum over all tables can't overflow.
  fileprivate mutating func size() throws(EngineError) -> UInt64 {
    let value = try varint()
    guard value < 1 << 48 else { throw corruption("a size or count of \(value) in a table") }
    return value
  }

  fileprivate mutating func sequence() throws(EngineError) -> SequenceNumber {
    let value = try varint()
    guard value <= SequenceNumber.maximum.value else { throw corruption("a sequence above 56 bits") }
    return SequenceNumber(value)
  }

  fileprivate mutating func userKey() throws(EngineError) -> ByteView {
    let key = try lengthPrefixed()
    guard key.count <= Limits.keySizeMaximum else { throw corruption("a key of \(key.count) bytes") }
    return key
  }
}
