import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct VersionEditTests {
  /// Returns an edit with a random selection of everything that an edit can contain.
  static func randomEdit(_ random: inout SeededRandom) -> VersionEdit {
    var edit = VersionEdit()
    if random.oneIn(2) { edit.databaseID = random.next() }
    if random.oneIn(2) { edit.incarnation = random.next() }
    if random.oneIn(2) { edit.formatVersion = UInt32(random.below(9)) }
    if random.oneIn(2) { edit.requiredFeatures = random.next() }
    if random.oneIn(2) { edit.nextFileNumber = FileNumber(random.next() >> 2) }
    if random.oneIn(2) { edit.nextFamilyID = FamilyID(UInt32(truncatingIfNeeded: random.next())) }
    if random.oneIn(2) { edit.lastSequence = SequenceNumber(random.next() >> 8) }
    if random.oneIn(2) { edit.oldestLog = FileNumber(random.next() >> 40) }
    for _ in 0..<random.below(3) {
      edit.createFamily(
        FamilyID(UInt32(random.below(99))), name: "familie-ä\(random.below(99))", options: randomKey(&random))
    }
    for _ in 0..<random.below(3) { edit.changedOptions.append(.init(family: 3, options: randomKey(&random))) }
    for _ in 0..<random.below(3) { edit.droppedFamilies.append(FamilyID(UInt32(random.below(1_000_000)))) }
    for _ in 0..<random.below(4) {
      edit.deleteTable(
        FileNumber(random.next() >> 30), family: FamilyID(UInt32(random.below(9))), level: random.below(7))
    }
    for _ in 0..<random.below(4) {
      let keys = [randomKey(&random), randomKey(&random)].sorted { KeyBytes.compare($0, $1) < 0 }
      let first = random.next() >> 9
      let table = Make.table(
        random.next() >> 20, keys[0], keys[1], sequences: first...(first + UInt64(random.below(1_000))),
        size: random.next() >> 20, excluded: keys[0] != keys[1] && random.oneIn(3))
      var hidden = HiddenEntries()
      for _ in 0..<random.below(4) { hidden.add(random.next() >> 30, freeAt: SequenceNumber(random.next() >> 40)) }
      let shadowed = random.oneIn(2) ? random.next() >> 17 : nil
      edit.addTable(
        TableMetadata(table, hidden: hidden, shadowedSize: shadowed), family: FamilyID(UInt32(random.below(9))),
        level: random.below(7))
    }
    for _ in 0..<random.below(3) { edit.setFlushed(SequenceNumber(random.next() >> 8), family: 2) }
    for _ in 0..<random.below(3) {
      edit.logCuts.append(
        .init(segment: FileNumber(random.next() >> 30), lifeID: random.next(), endOffset: random.next()))
    }
    for _ in 0..<random.below(3) { edit.droppedLogs.append(FileNumber(random.next() >> 30)) }
    for _ in 0..<random.below(3) { edit.pooledLogs.append(FileNumber(random.next() >> 30)) }
    return edit
  }

  static func randomKey(_ random: inout SeededRandom) -> [UInt8] {
    (0..<random.below(20)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
  }

  @Test func `an edit is read back as it was written`() throws {
    for seed in UInt64(0)..<500 {
      var random = SeededRandom(seed: seed)
      let edit = Self.randomEdit(&random)
      let bytes = Make.bytes(edit)
      let decoded = try bytes.withByteView { view throws(EngineError) in try VersionEdit(decoding: view) }
      #expect(decoded == edit, "seed \(seed)")
      #expect(Make.bytes(decoded) == bytes, "seed \(seed)")
    }
  }

  @Test func `damaged bytes of an edit throw or read as an edit, and never trap`() {
    for seed in UInt64(0)..<200 {
      var random = SeededRandom(seed: seed)
      var bytes = Make.bytes(Self.randomEdit(&random))
      guard !bytes.isEmpty else { continue }
      for _ in 0..<50 {
        let index = random.below(bytes.count)
        let old = bytes[index]
        bytes[index] = UInt8(truncatingIfNeeded: random.next())
        let code = errorCode {
          _ = try bytes.withByteView { view throws(EngineError) in try VersionEdit(decoding: view) }
        }
        #expect(code == nil || code == .corruption || code == .unsupportedFormat, "seed \(seed)")
        bytes[index] = old
      }
      let cut = random.below(bytes.count)
      let head = Array(bytes[..<cut])
      let code = errorCode { _ = try head.withByteView { view throws(EngineError) in try VersionEdit(decoding: view) } }
      #expect(code == nil || code == .corruption, "seed \(seed)")
    }
  }

  @Test func `an unknown tag is skipped if it is marked skippable and refused otherwise`() throws {
    var writer = ByteWriter()
    writer.append(varint: 900 << 1 | 1)
    writer.append(lengthPrefixed: ByteView())
    var edit = VersionEdit()
    edit.lastSequence = SequenceNumber(7)
    edit.encode(appendingTo: &writer)
    #expect(try VersionEdit(decoding: writer.view) == edit)
    writer.append(varint: 901 << 1)
    writer.append(lengthPrefixed: ByteView())
    let error = #expect(throws: EngineError.self) { try VersionEdit(decoding: writer.view, file: "M", fileOffset: 100) }
    #expect(error?.code == .unsupportedFormat)
    #expect(error?.file == "M")
  }

  @Test func `a field with bytes left over is damage`() {
    // The field has tag 4 (next file number) and two bytes, of which the number takes one.
    let bytes: [UInt8] = [4 << 1, 2, 7, 0]
    #expect(
      errorCode { _ = try bytes.withByteView { view throws(EngineError) in try VersionEdit(decoding: view) } }
        == .corruption)
  }

  @Test func `a table's shadowed bytes survive an edit and are skipped by a reader without the field`() throws {
    var edit = VersionEdit()
    edit.addTable(Make.table(5, "a", "m"), family: .default, level: 0)
    edit.addTable(Make.table(6, "n", "z", tombstones: 10, shadowed: 300), family: .default, level: 0)
    edit.addTable(Make.table(7, "n", "z", sequences: 2...2, tombstones: 10, shadowed: 0), family: .default, level: 0)
    let bytes = Make.bytes(edit)
    func decode(_ bytes: [UInt8]) throws -> VersionEdit {
      try bytes.withByteView { view throws(EngineError) in try VersionEdit(decoding: view) }
    }
    let decoded = try decode(bytes)
    #expect(decoded == edit)
    #expect(decoded.addedTables.map(\.table.shadowedSize) == [nil, 300, 0])
    // Tag 19, skippable: family, number, size.
    let fields: [UInt8] = [19 << 1 | 1, 4, 0, 6, 0xac, 2, 19 << 1 | 1, 3, 0, 7, 0]
    #expect(Array(bytes.suffix(fields.count)) == fields)
    let older = try decode(Array(bytes.dropLast(fields.count)))
    #expect(older.addedTables.allSatisfy { $0.table.shadowedSize == nil })
    // A field of a table that the edit does not add, one that is given twice, and one that is too large.
    let large = [19 << 1 | 1, 10, 0, 6] + [UInt8](repeating: 0xff, count: 7) + [1]
    for wrong in [bytes + [19 << 1 | 1, 3, 0, 8, 1], bytes + fields, bytes.dropLast(fields.count) + large] {
      #expect(errorCode { _ = try decode(wrong) } == .corruption)
    }
  }

  @Test func `the bytes of an edit never change`() {
    var edit = VersionEdit()
    edit.nextFileNumber = FileNumber(300)
    edit.createFamily(1, name: "a", options: [9])
    edit.addTable(Make.table(5, "k", "m", sequences: 3...4, size: 200, entries: 2), family: 1, level: 6)
    edit.droppedLogs = [FileNumber(2)]
    let id = (0..<8).map { UInt8(truncatingIfNeeded: (5 &* 0x9e37_79b9_7f4a_7c15 as UInt64) >> UInt64($0 * 8)) }
    var expected: [UInt8] = [8, 2, 0xac, 0x02, 14, 5, 1, 1, 0x61, 1, 9]
    expected += [22, 40, 1, 6, 5, 0xc8, 1] + id + [1, 0x6b, 1, 4, 0, 0, 0, 0, 0, 0]
    expected += [1, 0x6d, 1, 3, 0, 0, 0, 0, 0, 0, 3, 4, 2, 0, 0, 0x90, 3, 30, 1, 2]
    #expect(Make.bytes(edit) == expected)
  }
}
