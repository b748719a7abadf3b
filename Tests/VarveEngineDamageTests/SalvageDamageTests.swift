import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of salvage and repair over every kind of damage of every file of small databases: only what the damage
/// destroyed is lost, and the report names it.
///
/// From scale 8 on, every byte is damaged, and every length is truncated to; below that, a sample of them.
struct SalvageDamageTests {
  private static let seed: UInt64 = 4_711

  /// The way in which the database is recovered.
  enum RecoveryMethod: CaseIterable {
    case salvage, repair

    /// Returns the content afterwards, and the losses that the report names.
    func run(_ fileSystem: any FileSystem) throws -> (content: [String: [ModelDatabase.Row]], losses: [DamagedPart]) {
      let environment = DirectoryImage.environment(fileSystem, seed: 21)
      var losses: [DamagedPart]
      var path = DirectoryImage.directory
      switch self {
      case .salvage:
        path = "/salvaged"
        losses = try Engine.salvage(
          from: DirectoryImage.directory, to: path, options: DamageFixture.options(), environment: environment
        ).losses
      case .repair:
        losses = try Engine.repair(at: path, options: DamageFixture.options(), environment: environment).losses
      }
      let engine = try Engine.open(
        at: path, options: DamageFixture.options(), environment: DirectoryImage.environment(fileSystem, seed: 22))
      let faults = try engine.verify().faults
      let content = try engine.content()
      try engine.close()
      guard faults.isEmpty else { throw EngineError(.corruption, "\(faults)") }
      return (content, losses)
    }
  }

  /// A damage of one file.
  struct Damage: CustomStringConvertible {
    let file: String
    let range: Range<Int>
    /// The bytes of the file afterwards, or `nil` if it is removed.
    let bytes: [UInt8]?
    var description: String { "\(file) \(range), \(bytes.map { "\($0.count) bytes left" } ?? "removed")" }
  }

  /// Returns the damages that are made to one file. Bytes of zeros are skipped, except for a few.
  private static func damages(_ name: String, _ bytes: [UInt8], _ random: inout SeededRandom) -> [Damage] {
    var damages = [Damage(file: name, range: 0..<max(bytes.count, 1), bytes: nil)]
    let isAll = TestScale.value >= 8
    let step = isAll ? 1 : max(1, bytes.count / 24)
    var offset = 0
    while offset < bytes.count {
      defer { offset += isAll ? 1 : 1 + random.below(2 * step) }
      guard bytes[offset] != 0 || random.oneIn(isAll ? 64 : 3) else { continue }
      var flipped = bytes
      flipped[offset] ^= 1 << UInt8(random.below(8))
      damages.append(Damage(file: name, range: offset..<offset + 1, bytes: flipped))
      if isAll ? random.oneIn(8) : random.oneIn(3) {
        damages.append(Damage(file: name, range: offset..<bytes.count, bytes: Array(bytes[..<offset])))
      }
      if random.oneIn(isAll ? 16 : 6) {
        // A sector that the disk returns with other bytes.
        let end = min(bytes.count, offset + 512)
        var replaced = bytes
        for location in offset..<end { replaced[location] = UInt8(random.below(256)) }
        damages.append(Damage(file: name, range: offset..<end, bytes: replaced))
      }
    }
    return damages
  }

  @Test(arguments: RecoveryMethod.allCases, DamageFixture.Ending.allCases)
  func `all content outside of a damaged or cut part is recovered, and the losses name the damage`(
    salvage: RecoveryMethod, ending: DamageFixture.Ending
  ) throws {
    let fixture = try SalvageFixture(ending)
    var random = SeededRandom(seed: Self.seed)
    var failures: [String] = []
    var (count, exact) = (0, 0)
    for (name, bytes) in fixture.image.files.sorted(by: { $0.key < $1.key }) where name != "LOCK" {
      for damage in Self.damages(name, bytes, &random) {
        var image = fixture.image
        image.files[name] = damage.bytes
        let fileSystem = try image.makeFileSystem()
        count += 1
        do {
          let (content, losses) = try salvage.run(fileSystem)
          if content == fixture.expected { exact += 1 }
          failures += fixture.failures(content, damaged: name, damage.range, losses: losses).map { "\(damage): \($0)" }
        } catch { failures.append("\(damage): \(error)") }
      }
    }
    print("\(salvage) of \(ending): \(count) damages, \(exact) of them without any loss")
    #expect(count > 100 && exact > 20)
    #expect(
      failures.isEmpty,
      "seed \(Self.seed), \(failures.count) failures: \(failures.prefix(12).joined(separator: "\n"))")
  }

  @Test(arguments: RecoveryMethod.allCases, DamageFixture.Ending.allCases)
  func `one wrong byte anywhere in the MANIFEST costs nothing, and no family loses its name`(
    salvage: RecoveryMethod, ending: DamageFixture.Ending
  ) throws {
    let fixture = try SalvageFixture(ending)
    let name = try fixture.image.only(prefix: "MANIFEST-")
    let bytes = try #require(fixture.image.files[name])
    var random = SeededRandom(seed: Self.seed)
    var failures: [String] = []
    var count = 0
    for offset in 0..<bytes.count where !fixture.isIdle(name, offset..<offset + 1) {
      var image = fixture.image
      image.files[name]?[offset] ^= random.oneIn(2) ? 1 << UInt8(random.below(8)) : UInt8(1 + random.below(255))
      let (content, losses) = try salvage.run(try image.makeFileSystem())
      count += 1
      if content != fixture.expected { failures.append("byte \(offset): families \(content.keys.sorted())") }
      if losses.contains(where: \.holdsEntries) { failures.append("byte \(offset): \(losses)") }
      if !losses.contains(where: { $0.offsets == UInt64(offset)..<UInt64(offset + 1) }) {
        failures.append("byte \(offset) is not named: \(losses)")
      }
    }
    #expect(count > 200)
    #expect(failures.isEmpty, "seed \(Self.seed), \(failures.count) of \(count): \(failures.prefix(8))")
  }

  @Test(arguments: RecoveryMethod.allCases, DamageFixture.Ending.allCases)
  func `one wrong byte in a record of the log costs nothing, unless a crash may have torn the record`(
    salvage: RecoveryMethod, ending: DamageFixture.Ending
  ) throws {
    let fixture = try SalvageFixture(ending)
    var random = SeededRandom(seed: Self.seed)
    var failures: [String] = []
    var count = 0
    let records = fixture.units.filter { $0.file.hasSuffix(".log") }
    let step = TestScale.value >= 8 ? 1 : 16
    for (number, unit) in records.enumerated() where ending == .closed || number < records.count - 1 {
      for offset in unit.range where random.below(step) == 0 {
        var image = fixture.image
        image.files[unit.file]?[offset] ^= random.oneIn(2) ? 1 << UInt8(random.below(8)) : UInt8(1 + random.below(255))
        let (content, losses) = try salvage.run(try image.makeFileSystem())
        count += 1
        if content != fixture.expected { failures.append("\(unit.file) byte \(offset) of \(unit.range)") }
        if losses.contains(where: \.holdsEntries) { failures.append("\(unit.file) byte \(offset): \(losses)") }
      }
    }
    print("\(salvage) of \(ending): \(count) wrong bytes of the log")
    #expect(ending == .closed || count > 100)
    #expect(failures.isEmpty, "seed \(Self.seed), \(failures.count) of \(count): \(failures.prefix(8))")
  }

  @Test(arguments: [false, true])
  func `a repair keeps every field of the MANIFEST that is not about the damaged part`(damagesManifest: Bool) throws {
    let fileSystem = MemoryFileSystem()
    let environment = DirectoryImage.environment(fileSystem, seed: 21)
    let source = try Engine.open(at: "/source", options: DamageFixture.options(), environment: environment)
    var familyOptions = FamilyOptions()
    familyOptions.memtableSize = 128 << 10
    let kept = try source.createFamily("kept", options: familyOptions)
    let gone = try source.createFamily("gone")
    for number in 0..<50 { try source.put(DamageFixture.key(number), [UInt8(number)], in: kept) }
    try source.dropFamily(gone)
    try source.flush()
    // The copy has an incarnation, a field that the source does not have.
    _ = try source.checkpoint(to: "/db")
    try source.close()
    if damagesManifest { try Self.appendEdit(fileSystem) }
    let before = try Self.manifestState(fileSystem)
    #expect(before.incarnation != before.databaseID)
    let table = try #require(before.families.values.flatMap { $0.version.tables(level: 0) }.first)
    let file = try fileSystem.openFile("/db/" + FileName.table(table.number).name, writable: true)
    try [UInt8](repeating: 0xee, count: 8).withByteView { (view) throws(EngineError) in
      try unsafe file.write(view.buffer, at: table.fileSize - 8)
    }
    file.close()
    if damagesManifest { try Self.damageLastEdit(fileSystem) }
    #expect(try Engine.repair(at: "/db", options: DamageFixture.options(), environment: environment).isChanged)
    let after = try Self.manifestState(fileSystem)
    // The fields about tables and the log may be new, and the number of the next file grows.
    var (old, new) = (before.snapshotEdit(), after.snapshotEdit())
    for path: WritableKeyPath<VersionEdit, FileNumber?> in [\.nextFileNumber, \.oldestLog] {
      #expect(try #require(new[keyPath: path]) >= #require(old[keyPath: path]))
      (old[keyPath: path], new[keyPath: path]) = (nil, nil)
    }
    (old.addedTables, new.addedTables) = ([], [])
    (old.logCuts, new.logCuts) = ([], [])
    #expect(new == old)
  }

  /// Appends an edit to the MANIFEST of the database at "/db": the end of a flush.
  private static func appendEdit(_ fileSystem: MemoryFileSystem) throws {
    let engine = try Engine.open(
      at: "/db", options: DamageFixture.options(), environment: DirectoryImage.environment(fileSystem, seed: 22))
    try engine.put(DamageFixture.key(51), [51], in: engine.family(named: "kept"))
    try engine.flush()
    try engine.close()
  }

  /// Overwrites twelve bytes of the last edit in the MANIFEST of the database at "/db", which no repair can correct.
  private static func damageLastEdit(_ fileSystem: MemoryFileSystem) throws {
    let number = try Manifest.currentNumber(directory: "/db", fileSystem: fileSystem)
    let file = try fileSystem.openFile("/db/" + FileName.manifest(number).name, writable: true)
    defer { file.close() }
    let bytes = try Manifest.readAll(file)
    var reader = try ManifestReader(bytes.view, number: number, file: "MANIFEST")
    var last: ManifestReader.Record?
    while let record = try reader.next() { last = record }
    let edit = try #require(last)
    #expect(edit.kind == .edit)
    try [UInt8](repeating: 0xee, count: 12).withByteView { (view) throws(EngineError) in
      try unsafe file.write(view.buffer, at: edit.offset + UInt64(ManifestFormat.recordHeaderSize))
    }
  }

  /// Returns the state that the MANIFEST of the database at "/db" has.
  private static func manifestState(_ fileSystem: MemoryFileSystem) throws -> ManifestState {
    let manifest = try Manifest.recover(directory: "/db", fileSystem: fileSystem, random: { 0 })
    defer { manifest.close() }
    return manifest.state
  }

  @Test func `a family whose name is lost with a sector of the MANIFEST keeps its entries, and the report names it`()
    throws
  {
    let fileSystem = MemoryFileSystem()
    let engine = try Engine.open(
      at: "/db", options: DamageFixture.options(), environment: DirectoryImage.environment(fileSystem, seed: 1))
    let family = try engine.createFamily("a family of the log alone")
    try engine.put([1], [2], in: family, durability: .power)
    var image = try DirectoryImage(fileSystem)
    try engine.close()
    let name = try image.only(prefix: "MANIFEST-")
    let bytes = try #require(image.files[name])
    let start = try #require(
      bytes.indices.first { bytes[$0...].starts(with: "a family of the log alone".utf8) })
    for offset in start..<start + 12 { image.files[name]?[offset] = 0xee }
    let environment = DirectoryImage.environment(try image.makeFileSystem(), seed: 21)
    let salvage = try Engine.salvage(
      from: "/db", to: "/salvaged", options: DamageFixture.options(), environment: environment)
    let report = try Engine.repair(at: "/db", options: DamageFixture.options(), environment: environment)
    let doubt =
      "the name and the options of column family \(family.id) are lost: its entries are in \"recovered-\(family.id)\""
    #expect(report.doubts.contains(doubt))
    #expect(salvage.doubts.contains(doubt))
    #expect(!report.isComplete && !salvage.isComplete)
    for path in ["/db", "/salvaged"] {
      let engine = try Engine.open(at: path, options: DamageFixture.options(), environment: environment)
      #expect(try engine.get([1], in: engine.family(named: "recovered-\(family.id)")) == [2], "\(path)")
      try engine.close()
    }
  }

  @Test(arguments: RecoveryMethod.allCases, DamageFixture.Ending.allCases)
  func `all content is recovered without CURRENT and MANIFEST`(salvage: RecoveryMethod, ending: DamageFixture.Ending)
    throws
  {
    let fixture = try SalvageFixture(ending)
    var image = fixture.image
    for name in image.files.keys where name == "CURRENT" || name.hasPrefix("MANIFEST") { image.files[name] = nil }
    let (content, losses) = try salvage.run(try image.makeFileSystem())
    #expect(content == fixture.expected)
    #expect(losses.contains { $0.file.hasSuffix("/CURRENT") } && losses.allSatisfy { !$0.holdsEntries }, "\(losses)")
  }

  @Test(arguments: DamageFixture.Ending.allCases)
  func `a sound database is left alone by a repair, and salvaged without a loss`(ending: DamageFixture.Ending) throws {
    let fixture = try SalvageFixture(ending)
    let fileSystem = try fixture.image.makeFileSystem()
    let environment = DirectoryImage.environment(fileSystem, seed: 21)
    let report = try Engine.repair(at: "/db", options: DamageFixture.options(), environment: environment)
    #expect(!report.isChanged && report.isComplete && report.movedAside.isEmpty)
    #expect(try DirectoryImage(fileSystem) == fixture.image)
    let salvage = try Engine.salvage(
      from: "/db", to: "/salvaged", options: DamageFixture.options(), environment: environment)
    #expect(salvage.isComplete, "\(salvage.losses) \(salvage.doubts)")
    #expect(
      salvage.families
        == fixture.expected.map { .init(name: $0.key, rowCount: $0.value.count) }.sorted { $0.name < $1.name })
    #expect(try DirectoryImage(fileSystem) == fixture.image, "the source was changed")
  }

  /// Creates a database whose compaction has dropped tombstones, with the input that has the values that they hid.
  private static func makeWithInput(
    deleted: Range<Int>, keepsSequences: Bool
  ) throws -> (DirectoryImage, [String: [ModelDatabase.Row]]) {
    let fileSystem = MemoryFileSystem()
    let engine = try Engine.open(
      at: DirectoryImage.directory, options: DamageFixture.options(),
      environment: DirectoryImage.environment(fileSystem, seed: 31))
    // Without an older snapshot, the last level would set all sequences to zero.
    let snapshot = keepsSequences ? engine.snapshot() : nil
    for index in 0..<40 { try engine.put(DamageFixture.key(index), [1, 2, 3]) }
    try engine.flush()
    let input = try DirectoryImage(fileSystem).names(suffix: ".sst")
    #expect(input.count == 1)
    let bytes = try DirectoryImage(fileSystem).files[input[0]]
    for index in deleted { try engine.delete(DamageFixture.key(index)) }
    for index in 50..<60 { try engine.put(DamageFixture.key(index), [4]) }
    try engine.put(DamageFixture.key(0) + [0], [5])
    try engine.compact()
    withExtendedLifetime(snapshot) {}
    try engine.waitForCompaction()
    let content = try engine.content()
    var image = try DirectoryImage(fileSystem)
    #expect(image.files[input[0]] == nil, "the input has gone")
    image.files[input[0]] = bytes
    try engine.close()
    for name in image.files.keys where name == "CURRENT" || name.hasPrefix("MANIFEST") { image.files[name] = nil }
    return (image, content)
  }

  @Test(arguments: RecoveryMethod.allCases)
  func `an input of a finished compaction brings no deleted key back without a MANIFEST`(salvage: RecoveryMethod) throws
  {
    let (image, expected) = try Self.makeWithInput(deleted: 10..<20, keepsSequences: true)
    let (content, losses) = try salvage.run(try image.makeFileSystem())
    #expect(content == expected)
    #expect(losses.allSatisfy { !$0.holdsEntries }, "\(losses)")
  }

  @Test(arguments: [(0..<40, true), (10..<20, false)])
  func `the report names an input of a compaction that can't be distinguished from a live table`(
    deleted: Range<Int>, keepsSequences: Bool
  ) throws {
    let (image, _) = try Self.makeWithInput(deleted: deleted, keepsSequences: keepsSequences)
    let input = image.names(suffix: ".sst")[0]
    let environment = DirectoryImage.environment(try image.makeFileSystem(), seed: 32)
    let salvage = try Engine.salvage(
      from: "/db", to: "/salvaged", options: DamageFixture.options(), environment: environment)
    #expect(salvage.doubts.contains { $0.contains(input) }, "\(salvage.doubts)")
    let repair = try Engine.repair(at: "/db", options: DamageFixture.options(), environment: environment)
    #expect(repair.doubts.contains { $0.contains(input) } && !repair.isComplete, "\(repair.doubts)")
  }

  /// Creates a database with range tombstones and merge operands in tables and in the log.
  private static func makeWithRanges() throws -> (DirectoryImage, [String: [ModelDatabase.Row]]) {
    let fileSystem = MemoryFileSystem()
    let engine = try Engine.open(
      at: DirectoryImage.directory, options: DamageFixture.options(),
      environment: DirectoryImage.environment(fileSystem, seed: 33))
    let words = try engine.createFamily("words", options: FamilyOptions(mergeOperator: "varve.append"))
    func deleteRange(_ lower: Int, _ upper: Int, _ family: ColumnFamily? = nil) throws {
      var batch = WriteBatch()
      try batch.deleteRange(from: DamageFixture.key(lower), to: DamageFixture.key(upper), in: family)
      try engine.write(batch)
    }
    for index in 0..<40 {
      try engine.put(DamageFixture.key(index), [UInt8(index)])
      try engine.merge(DamageFixture.key(index % 7), [UInt8(index)], in: words)
    }
    try engine.compact()
    try deleteRange(10, 20)
    try deleteRange(3, 5, words)
    try engine.put(DamageFixture.key(15), [99])
    for index in 0..<7 { try engine.merge(DamageFixture.key(index), [100], in: words) }
    try engine.flush()
    try deleteRange(30, 35)
    try engine.put(DamageFixture.key(31), [98])
    try deleteRange(0, 2, words)
    for index in 0..<7 { try engine.merge(DamageFixture.key(index), [101], in: words) }
    let content = try engine.content()
    let image = try DirectoryImage(fileSystem)
    try engine.close()
    #expect(content["default"]?.count == 27 && content["words"]?.count == 7)
    return (image, content)
  }

  @Test(arguments: RecoveryMethod.allCases)
  func `range tombstones and merge operands have the same effect after a recovery`(salvage: RecoveryMethod) throws {
    let (image, expected) = try Self.makeWithRanges()
    var lost = image
    for name in lost.files.keys where name == "CURRENT" || name.hasPrefix("MANIFEST") { lost.files[name] = nil }
    var failures: [String] = []
    var images = [("without a MANIFEST", lost)]
    // A footer contains no data that is not stored elsewhere.
    for name in image.names(suffix: ".sst") {
      var damaged = image
      let size = image.files[name]?.count ?? 0
      damaged.files[name]?[size - 20] ^= 4
      images.append((name, damaged))
    }
    #expect(images.count >= 4)
    for (what, image) in images {
      let (content, losses) = try salvage.run(try image.makeFileSystem())
      for (family, rows) in expected where content[family] != rows {
        failures.append("\(what): \(family) has \(content[family] ?? []), not \(rows)")
      }
      if losses.contains(where: \.holdsEntries) { failures.append("\(what): \(losses)") }
    }
    #expect(failures.isEmpty, "\(failures.joined(separator: "\n"))")
  }
}
