@testable import VarveEngine

/// Builds valid inputs of the MANIFEST: a snapshot and edits that follow it.
enum ManifestInputs {
  /// Returns one edit that is a whole state.
  static func edit(_ random: inout SeededRandom) -> [UInt8] {
    var number: UInt64 = 10
    return encoded(snapshot(databaseID: random.next(), &number, &random))
  }

  static func build(_ random: inout SeededRandom) -> [UInt8] {
    let databaseID = random.next()
    let fileID = random.next()
    var number: UInt64 = 10
    var edits = [snapshot(databaseID: databaseID, &number, &random)]
    var last = edits[0]
    for _ in 0..<random.below(5) {
      last = next(after: last, &number, &random)
      edits.append(last)
    }
    var writer = ByteWriter()
    ManifestFormat.encode(
      ManifestFormat.Header(
        requiredFeatures: 0, fileID: fileID, databaseID: databaseID, number: ManifestTarget.number),
      appendingTo: &writer)
    for (index, edit) in edits.enumerated() {
      encoded(edit).withByteView {
        ManifestFormat.encode(
          index == 0 ? .snapshot : .edit, payload: $0, at: UInt64(writer.count), fileID: fileID, appendingTo: &writer)
      }
    }
    if random.oneIn(2) {
      ManifestFormat.encode(
        .mark, payload: ByteView(), at: UInt64(writer.count), fileID: fileID, appendingTo: &writer)
    }
    return writer.bytes
  }

  private static func encoded(_ edit: VersionEdit) -> [UInt8] {
    var writer = ByteWriter()
    edit.encode(appendingTo: &writer)
    return writer.bytes
  }

  private static func snapshot(
    databaseID: UInt64, _ number: inout UInt64, _ random: inout SeededRandom
  ) -> VersionEdit {
    var edit = VersionEdit()
    edit.databaseID = databaseID
    edit.formatVersion = 1
    edit.requiredFeatures = 0
    edit.createFamily(.default, name: "default", options: [255])
    let familyCount = 1 + random.below(3)
    for family in 1..<max(familyCount, 1) {
      edit.createFamily(
        FamilyID(UInt32(family)), name: "family \(family)", options: FuzzCorpus.bytes(random.below(4), &random))
    }
    for family in 0..<familyCount { addTables(FamilyID(UInt32(family)), to: &edit, &number, &random) }
    edit.oldestLog = FileNumber(number)
    if random.oneIn(2) {
      edit.logCuts = [VersionEdit.LogCut(segment: FileNumber(number), lifeID: random.next(), endOffset: 4_096)]
    }
    edit.nextFamilyID = FamilyID(UInt32(familyCount))
    edit.lastSequence = SequenceNumber(number * 100)
    edit.nextFileNumber = FileNumber(number + 5)
    return edit
  }

  /// Adds tables of level 0 and of one deeper level, where they don't overlap.
  private static func addTables(
    _ family: FamilyID, to edit: inout VersionEdit, _ number: inout UInt64, _ random: inout SeededRandom
  ) {
    for _ in 0..<random.below(3) {
      number += 1
      edit.addTable(table(number, "a", "z", &random), family: family, level: 0)
    }
    let level = 1 + random.below(6)
    for index in 0..<random.below(4) {
      number += 1
      edit.addTable(table(number, "k\(index)", "k\(index)z", &random), family: family, level: level)
    }
    if random.oneIn(2) { edit.setFlushed(SequenceNumber(number * 100), family: family) }
  }

  private static func table(
    _ number: UInt64, _ smallest: String, _ largest: String, _ random: inout SeededRandom
  ) -> TableMetadata {
    // Each table has its own range of sequence numbers, so that tables of level 0 have an order.
    let sequence = SequenceNumber(number * 100)
    let last = SequenceNumber(number * 100 + 50)
    var hidden = HiddenEntries()
    for _ in 0..<random.below(3) { hidden.add(UInt64(random.below(90)), freeAt: SequenceNumber(number * 100 + 10)) }
    return [UInt8](smallest.utf8).withByteView { smallest in
      [UInt8](largest.utf8).withByteView { largest in
        TableMetadata(
          number: FileNumber(number), fileSize: 1_000 + UInt64(random.below(10_000)), tableID: random.next(),
          smallestKey: smallest, smallestTrailer: Trailer(last, .put),
          largestKey: largest,
          largestTrailer: random.oneIn(4) ? TableMetadata.excludedTrailer : Trailer(sequence, .delete),
          smallestSequence: sequence, largestSequence: last, entryCount: 51,
          tombstoneCount: UInt64(random.below(5)), rawSize: 4_000, hidden: hidden,
          shadowedSize: random.oneIn(2) ? UInt64(random.below(90_000)) : nil)
      }
    }
  }

  private static func next(
    after last: VersionEdit, _ number: inout UInt64, _ random: inout SeededRandom
  ) -> VersionEdit {
    var edit = VersionEdit()
    number += 1
    edit.addTable(table(number, "b", "y", &random), family: .default, level: 0)
    if let moved = last.addedTables.last(where: { $0.family == .default && $0.level == 0 }), random.oneIn(2) {
      edit.deleteTable(moved.table.number, family: .default, level: 0)
    }
    edit.setFlushed(SequenceNumber(number * 100 + 50), family: .default)
    edit.nextFileNumber = FileNumber(number + 3)
    edit.lastSequence = SequenceNumber(number * 100 + 60)
    if random.oneIn(3) {
      edit.oldestLog = FileNumber(number + 2)
      edit.droppedLogs = [FileNumber(number)]
      edit.pooledLogs = [FileNumber(number + 1)]
    }
    return edit
  }
}
