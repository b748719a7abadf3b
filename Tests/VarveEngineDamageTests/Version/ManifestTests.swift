import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct ManifestTests {
  static let directory = "/database"

  /// Creates an in-memory database with its MANIFEST.
  static func make(_ fileSystem: FaultyFileSystem = FaultyFileSystem()) throws -> (FaultyFileSystem, Manifest) {
    try fileSystem.createDirectory(directory)
    let manifest = try Manifest.create(
      directory: directory, fileSystem: fileSystem, state: ManifestState(databaseID: 77), random: { 0x1234_5678 })
    return (fileSystem, manifest)
  }

  static func recover(_ fileSystem: FaultyFileSystem) throws -> Manifest {
    try Manifest.recover(directory: directory, fileSystem: fileSystem, random: { 0x8765_4321 })
  }

  static func dump(_ state: ManifestState) -> [String] { ManifestDump.lines(state.snapshotEdit()) }

  /// Returns edit number `index` of a long sequence: families, flushes, compactions, log segments.
  static func edit(_ index: Int, _ manifest: Manifest) -> VersionEdit {
    var edit = VersionEdit()
    let number = manifest.allocateFileNumber()
    let sequence = UInt64(index) * 10 + 10
    edit.lastSequence = SequenceNumber(sequence)
    switch index % 6 {
    case 0: edit.createFamily(FamilyID(UInt32(index / 6)), name: "family \(index / 6)", options: [UInt8(index & 255)])
    case 1, 2, 3:
      edit.addTable(
        Make.table(number.value, "a\(index % 6)", "m", sequences: (sequence - 9)...sequence),
        family: FamilyID(UInt32(index / 6)),
        level: 0)
      edit.setFlushed(SequenceNumber(sequence), family: FamilyID(UInt32(index / 6)))
    case 4:
      for table in manifest.state.families[FamilyID(UInt32(index / 6))]?.version.levelZero.tables ?? [] {
        edit.deleteTable(table.number, family: FamilyID(UInt32(index / 6)), level: 0)
      }
      edit.addTable(
        Make.table(number.value, "a", "m", sequences: 1...sequence), family: FamilyID(UInt32(index / 6)), level: 6)
    default:
      edit.oldestLog = number
      edit.logCuts = [.init(segment: number, lifeID: 5, endOffset: sequence)]
      if index % 12 == 11 { edit.droppedFamilies = [FamilyID(UInt32(index / 6))] }
    }
    return edit
  }

  static func bytes(_ path: String, _ fileSystem: FaultyFileSystem) throws -> [UInt8] {
    try Manifest.readAll(fileSystem.base.openFile(path, writable: false)).bytes
  }

  static func replace(_ path: String, _ bytes: [UInt8], _ fileSystem: FaultyFileSystem) throws {
    let file = try fileSystem.base.openFile(path, writable: true)
    try file.truncate(to: 0)
    try bytes.withByteView { view throws(EngineError) in try unsafe file.write(view.buffer, at: 0) }
  }

  static func path(_ manifest: Manifest) -> String { directory + "/" + FileName.manifest(manifest.number).name }

  @Test func `the state is recovered edit by edit`() throws {
    let (fileSystem, manifest) = try Self.make()
    for index in 0..<40 {
      try manifest.append(Self.edit(index, manifest))
      let recovered = try Self.recover(fileSystem)
      #expect(Self.dump(recovered.state) == Self.dump(manifest.state), "edit \(index)")
      #expect(!recovered.mustRoll, "edit \(index)")
    }
    #expect(manifest.state.isDropped(1) && !manifest.state.isDropped(0) && !manifest.state.isDropped(99))
  }

  @Test func `an append is one write and one sync of the edit, and then a mark that is not synced`() throws {
    let (fileSystem, manifest) = try Self.make()
    #expect(
      fileSystem.trace == [
        "create MANIFEST-000001", "write MANIFEST-000001", "sync MANIFEST-000001", "syncDirectory database",
        "create CURRENT.tmp", "write CURRENT.tmp", "sync CURRENT.tmp", "rename CURRENT", "syncDirectory database",
      ])
    fileSystem.reset(failsAt: nil)
    try manifest.append(Self.edit(0, manifest))
    #expect(fileSystem.trace == ["write MANIFEST-000001", "sync MANIFEST-000001", "write MANIFEST-000001"])
  }

  @Test func `a recovered manifest continues after its mark, and rolls where there is none`() throws {
    let (fileSystem, manifest) = try Self.make()
    try manifest.append(Self.edit(0, manifest))
    let second = try Self.recover(fileSystem)
    try second.append(Self.edit(1, second))
    #expect(second.number == manifest.number)
    let whole = try Self.bytes(Self.path(second), fileSystem)
    try Self.replace(Self.path(second), Array(whole.dropLast(16)), fileSystem)
    let third = try Self.recover(fileSystem)
    #expect(third.mustRoll)
    try third.append(Self.edit(2, third))
    #expect(third.number > second.number)
    let fourth = try Self.recover(fileSystem)
    #expect(Self.dump(fourth.state) == Self.dump(third.state))
    #expect(try fileSystem.list(Self.directory).filter { $0.hasPrefix("MANIFEST") }.count == 1)
  }

  /// Appends twelve edits, and returns the file system, the MANIFEST, the state after each edit, and the ends of the
  /// records.
  static func life() throws -> (FaultyFileSystem, Manifest, states: [[String]], ends: [Int]) {
    let (fileSystem, manifest) = try make()
    var states = [dump(manifest.state)]
    var ends = [try bytes(path(manifest), fileSystem).count - 16]
    for index in 0..<12 {
      try manifest.append(edit(index, manifest))
      states.append(dump(manifest.state))
      ends.append(try bytes(path(manifest), fileSystem).count - 16)
    }
    return (fileSystem, manifest, states, ends)
  }

  @Test func `a file cut at any length reads as a prefix of its edits or throws`() throws {
    let (fileSystem, manifest, states, ends) = try Self.life()
    let whole = try Self.bytes(Self.path(manifest), fileSystem)
    for length in 0..<whole.count {
      try Self.replace(Self.path(manifest), Array(whole[..<length]), fileSystem)
      let count = ends.filter { $0 <= length }.count
      if count == 0 {
        #expect(errorCode { _ = try Self.recover(fileSystem) } == .corruption, "length \(length)")
      } else {
        let recovered = try Self.recover(fileSystem)
        #expect(Self.dump(recovered.state) == states[count - 1], "length \(length)")
        #expect(recovered.mustRoll || length >= ends[count - 1] + 16, "length \(length)")
      }
    }
  }

  @Test func `every flipped bit is damage, except in the mark, where nothing is lost`() throws {
    let (fileSystem, manifest, states, ends) = try Self.life()
    let whole = try Self.bytes(Self.path(manifest), fileSystem)
    for bit in 0..<(whole.count * 8) {
      var damaged = whole
      damaged[bit / 8] ^= 1 << UInt8(bit % 8)
      try Self.replace(Self.path(manifest), damaged, fileSystem)
      if bit / 8 < ends[12] {
        #expect(errorCode { _ = try Self.recover(fileSystem) } == .corruption, "bit \(bit)")
      } else {
        #expect(Self.dump(try Self.recover(fileSystem).state) == states[12], "bit \(bit)")
      }
    }
  }

  @Test func `without its mark, a damaged last edit is a torn tail and any other is damage`() throws {
    let (fileSystem, manifest, states, ends) = try Self.life()
    let whole = Array(try Self.bytes(Self.path(manifest), fileSystem).dropLast(16))
    for byte in whole.indices {
      var damaged = whole
      damaged[byte] ^= 0x40
      try Self.replace(Self.path(manifest), damaged, fileSystem)
      if byte < ends[11] {
        #expect(errorCode { _ = try Self.recover(fileSystem) } == .corruption, "byte \(byte)")
      } else {
        #expect(Self.dump(try Self.recover(fileSystem).state) == states[11], "byte \(byte)")
      }
    }
  }

  @Test func `the rest of a torn append over a mark is not damage`() throws {
    let (fileSystem, manifest, states, ends) = try Self.life()
    try manifest.append(Self.edit(12, manifest))
    let whole = try Self.bytes(Self.path(manifest), fileSystem)
    // The first 16 bytes are still those of the old mark, as if their sector had not been written.
    var mark = ByteWriter()
    ManifestFormat.encode(.mark, payload: ByteView(), at: UInt64(ends[12]), fileID: 0x1234_5678, appendingTo: &mark)
    let torn = Array(whole[..<ends[12]]) + mark.bytes + Array(whole[(ends[12] + 16)..<(whole.count - 16)])
    try Self.replace(Self.path(manifest), torn, fileSystem)
    let recovered = try Self.recover(fileSystem)
    #expect(Self.dump(recovered.state) == states[12])
    #expect(!recovered.mustRoll)
  }

  @Test func `bytes of another file never validate`() throws {
    let (fileSystem, manifest, states, ends) = try Self.life()
    let whole = try Self.bytes(Self.path(manifest), fileSystem)
    let other = FaultyFileSystem()
    try other.createDirectory(Self.directory)
    let second = try Manifest.create(
      directory: Self.directory, fileSystem: other, state: ManifestState(databaseID: 77), random: { 99 })
    // The file has the same records at the same offsets, and another file's identifier.
    let foreign = Array(try Self.bytes(Self.path(second), other).dropLast(16)) + Array(whole[ends[0]...])
    try Self.replace(Self.path(second), foreign, other)
    #expect(Self.dump(try Self.recover(other).state) == states[0])
  }

  @Test func `a long manifest is rolled, and the old file goes`() throws {
    let (fileSystem, manifest) = try Self.make()
    let first = manifest.number
    var index = 0
    while manifest.number == first {
      try manifest.append(Self.edit(index, manifest))
      index += 1
      #expect(index < 20_000)
      guard index < 20_000 else { return }
    }
    #expect(
      try fileSystem.list(Self.directory).filter { $0.hasPrefix("MANIFEST") } == [
        FileName.manifest(manifest.number).name
      ])
    let recovered = try Self.recover(fileSystem)
    #expect(Self.dump(recovered.state) == Self.dump(manifest.state))
    #expect(recovered.number == manifest.number)
  }

  @Test(arguments: [false, true]) func `after any failed operation the state is the one before or after the edit`(
    forEver: Bool
  ) throws {
    for rolls in [false, true] {
      for failure in 0..<12 {
        let (fileSystem, manifest) = try Self.make()
        for index in 0..<5 { try manifest.append(Self.edit(index, manifest)) }
        let before = Self.dump(manifest.state).filter { !$0.hasPrefix("next file number") }
        fileSystem.reset(failsAt: failure, forEver: forEver)
        let failed = errorCode {
          if rolls { try manifest.roll() }
          try manifest.append(Self.edit(5, manifest))
        }
        let appended = Self.dump(manifest.state).filter { !$0.hasPrefix("next file number") }
        fileSystem.reset(failsAt: nil)
        let crashed = Self.dump(try Self.recover(fileSystem).state).filter { !$0.hasPrefix("next file number") }
        if failed == nil {
          #expect(crashed == appended, "operation \(failure)")
        } else {
          #expect(appended == before, "operation \(failure)")
          #expect(crashed == before || manifest.isInDoubt, "operation \(failure)")
        }
        // The next edit resolves the doubt, in a new file if the old one cannot be trusted.
        try manifest.append(Self.edit(6, manifest))
        #expect(!manifest.isInDoubt)
        #expect(Self.dump(try Self.recover(fileSystem).state) == Self.dump(manifest.state), "operation \(failure)")
      }
    }
  }

  @Test func `an edit that contradicts the state is refused and nothing is written`() throws {
    let (fileSystem, manifest) = try Self.make()
    for index in 0..<7 { try manifest.append(Self.edit(index, manifest)) }
    let before = Self.dump(manifest.state)
    fileSystem.reset(failsAt: nil)
    func refused(_ change: (inout VersionEdit) -> Void) -> Bool {
      var edit = VersionEdit()
      change(&edit)
      return errorCode { try manifest.append(edit) } == .corruption
    }
    #expect(refused { $0.createFamily(0, name: "new") })
    #expect(refused { $0.createFamily(9, name: "family 0") })
    #expect(refused { $0.addTable(Make.table(500, "a", "b"), family: 9, level: 0) })
    #expect(refused { $0.deleteTable(FileNumber(500), family: 0, level: 0) })
    #expect(refused { $0.setFlushed(SequenceNumber(1), family: 0) })
    #expect(refused { $0.oldestLog = FileNumber(1) })
    #expect(refused { $0.droppedLogs = [FileNumber(1_000)] })
    #expect(refused { $0.droppedFamilies = [0, 0] })
    let live = try #require(manifest.state.families[0]?.version.run(6).tables.first)
    #expect(refused { $0.addTable(live, family: 1, level: 3) })
    #expect(refused { $0.addTable(live, family: 0, level: 3) })
    #expect(fileSystem.trace.isEmpty)
    #expect(Self.dump(manifest.state) == before)
    var move = VersionEdit()
    move.deleteTable(live.number, family: 0, level: 6)
    move.addTable(live, family: 0, level: 5)
    try manifest.append(move)
    #expect(manifest.state.families[0]?.version.run(5).tables.first === live)
  }

  @Test func `a CURRENT with malformed text or the name of a wrong MANIFEST is corruption`() throws {
    let (fileSystem, manifest) = try Self.make()
    let current = Self.directory + "/CURRENT"
    for text in ["", "MANIFEST-000001", "MANIFEST-1\n", "MANIFEST-000009\n", "LOCK\n", "MANIFEST-000001\n\n"] {
      try Self.replace(current, [UInt8](text.utf8), fileSystem)
      #expect(errorCode { _ = try Self.recover(fileSystem) } == .corruption, "\(text)")
    }
    try fileSystem.base.rename(Self.path(manifest), to: Self.directory + "/MANIFEST-000009")
    try Self.replace(current, [UInt8]("MANIFEST-000009\n".utf8), fileSystem)
    #expect(errorCode { _ = try Self.recover(fileSystem) } == .corruption)
    try fileSystem.base.remove(current)
    #expect(errorCode { _ = try Self.recover(fileSystem) } == .notFound)
  }

  @Test func `a manifest is shown as text`() throws {
    let (fileSystem, manifest) = try Self.make()
    for index in [0, 1, 5] { try manifest.append(Self.edit(index, manifest)) }
    let text = try Self.bytes(Self.path(manifest), fileSystem).withByteView {
      ManifestDump.text($0, number: manifest.number, file: "MANIFEST")
    }
    #expect(
      text == """
        MANIFEST 1, database 000000000000004d
        snapshot at byte 64, 56 bytes
          database id 000000000000004d
          format version 1
          required features 0000000000000000
          next file number 2
          last sequence 0
          next family id 0
          oldest log segment 0
        edit at byte 120, 40 bytes
          next file number 3
          last sequence 10
          create family 0 "family 0" options 00
        edit at byte 160, 80 bytes
          next file number 4
          last sequence 20
          add table to family 0 level 0: 3 [a1, m] sequences 11..20, 1048576 bytes, 1000 entries, 2097152 raw bytes, id daa66d2c7ddf743f
          family 0 is flushed up to sequence 20
        edit at byte 240, 40 bytes
          next file number 5
          last sequence 60
          oldest log segment 4
          log segment 4 of life 0000000000000005 ends at byte 60
        end at byte 280, marked: all before it is synced

        """)
  }
}
