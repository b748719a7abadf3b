import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// The small databases of `DamageFixture`, with the keys that each range of bytes contains: only these may be lost by
/// a repair or a salvage if those bytes are damaged.
struct SalvageFixture {
  /// A key of a family.
  struct Key: Hashable {
    let family: String
    let key: [UInt8]
  }

  /// A data block of a table, or a record of the log.
  struct Unit {
    let file: String
    let range: Range<Int>
    var keys: Set<Key>
  }

  let image: DirectoryImage
  let expected: [String: [ModelDatabase.Row]]
  private(set) var units: [Unit] = []
  /// Every value that a key has ever had.
  private(set) var values: [Key: Set<[UInt8]>] = [:]
  /// Ranges of a file whose damage has no effect and need not be reported: unused bytes, and the last mark of the
  /// MANIFEST.
  private(set) var idle: [String: [Range<Int>]] = [:]

  /// The ends of the records of the MANIFEST: truncated there, it reads as an earlier state of itself.
  private var manifestEnds: Set<Int> = []

  /// The last segment with records. Below, whether the MANIFEST does not know it yet.
  private var lastSegment: String? { units.last { $0.file.hasSuffix(".log") }?.file }
  private let mayLoseLastSegment: Bool

  init(_ ending: DamageFixture.Ending) throws {
    mayLoseLastSegment = ending != .closed
    let fixture = try DamageFixture(ending)
    image = fixture.image
    expected = fixture.state.families
    for (_, state) in fixture.history {
      for (family, rows) in state.families {
        for row in rows { values[Key(family: family, key: row.key), default: []].insert(row.value) }
      }
    }
    let fileSystem = try image.makeFileSystem()
    let engine = try Engine.open(
      at: DirectoryImage.directory, options: DamageFixture.options(readOnly: true),
      environment: DirectoryImage.environment(fileSystem))
    for family in engine.core.tree.state.families.values {
      for level in 0..<Limits.levelCount {
        for table in family.version.tables(level: level) { try addTable(table, family.name, engine) }
      }
    }
    for name in image.names(suffix: ".log") { try addLog(name, engine, fileSystem) }
    try engine.close()
    try addManifest()
  }

  private mutating func addTable(_ table: TableMetadata, _ family: String, _ engine: Engine) throws {
    let reader = try engine.core.tree.reader(table)
    let root = try reader.root()
    #expect(reader.footer.indexLevelCount == 1, "the fixture's tables are small")
    let iterator = reader.makeIterator(.user)
    try iterator.seekToFirst()
    for row in 0..<root.rowCount {
      let entry = root.entries.entry(row)
      let start = Int(entry.handle.offset)
      var unit = Unit(
        file: FileName.table(table.number).name, range: start..<start + entry.handle.fileSize, keys: [])
      for _ in 0..<entry.rowCount {
        unit.keys.insert(Key(family: family, key: iterator.userKey.bytes))
        try iterator.next()
      }
      units.append(unit)
    }
  }

  private mutating func addLog(_ name: String, _ engine: Engine, _ fileSystem: any FileSystem) throws {
    guard let number = FileName(name)?.number else { return }
    let file = try fileSystem.openFile(DirectoryImage.path(name), writable: false)
    guard var reader = try LogReader.open(file, number: number, name: name) else {
      idle[name] = [0..<Int(try file.size())]
      return
    }
    var end = LogFormat.headerBlockSize
    while let record = reader.next() {
      var unit = Unit(file: name, range: record.offset..<record.offset + record.header.recordSize, keys: [])
      var entries = LogEntryReader(record, file: name)
      while let (_, entry) = try entries.next() {
        let family = engine.families.first { $0.id == entry.family }?.name ?? "?"
        unit.keys.insert(Key(family: family, key: entry.key.bytes))
      }
      units.append(unit)
      end = unit.range.upperBound
    }
    idle[name] = [end..<Int(try file.size())]
  }

  private mutating func addManifest() throws {
    let name = try image.only(prefix: "MANIFEST-")
    let bytes = image.files[name] ?? []
    try bytes.withByteView { view in
      guard let number = FileName(name)?.number else { return }
      var reader = try ManifestReader(view, number: number, file: name)
      while try reader.next() != nil {}
      if case .marked(let offset) = reader.ending { idle[name] = [Int(offset)..<bytes.count] }
      var records = try ManifestReader(view, number: number, file: name)
      while let record = try records.next() { manifestEnds.insert(Int(record.offset) + record.size) }
    }
  }

  func isIdle(_ file: String, _ range: Range<Int>) -> Bool {
    file == "LOCK"
      || (idle[file] ?? []).contains { $0.lowerBound <= range.lowerBound && range.upperBound <= $0.upperBound }
  }

  /// Returns the keys that damage to a range may change.
  func keys(_ file: String, _ range: Range<Int>) -> Set<Key> {
    units.filter { $0.file == file && $0.range.overlaps(range) }.reduce(into: []) { $0.formUnion($1.keys) }
  }

  /// Returns what is wrong with the content of a database that was recovered from one with this damage: differences
  /// outside the damaged range, differences that no loss names, and values that never existed.
  func failures(
    _ content: [String: [ModelDatabase.Row]], damaged file: String, _ range: Range<Int>, losses: [DamagedPart]
  ) -> [String] {
    var failures: [String] = []
    let touched = keys(file, range)
    let named = losses.filter { $0.file.hasSuffix("/" + file) }
    // If a database was not closed, no file records that there was a last segment.
    let isTraceless = file == lastSegment && range == 0..<(image.files[file]?.count ?? 0) && mayLoseLastSegment
    let isEarlier =
      file.hasPrefix("MANIFEST") && manifestEnds.contains(range.lowerBound) && range.count > 1 && content == expected
    if !isIdle(file, range), !isTraceless, !isEarlier {
      let isNamed = named.contains { lost in
        guard let offsets = lost.offsets else { return true }
        return offsets.lowerBound <= UInt64(range.upperBound) && UInt64(range.lowerBound) <= offsets.upperBound
      }
      if !isNamed { failures.append("the damage is not named: \(losses)") }
    }
    for lost in losses where lost.holdsEntries && !lost.file.hasSuffix("/" + file) {
      failures.append("another file is blamed: \(lost)")
    }
    if Set(content.keys) != Set(expected.keys) { failures.append("families \(content.keys.sorted())") }
    for family in expected.keys {
      let want = Dictionary(uniqueKeysWithValues: (expected[family] ?? []).map { ($0.key, $0.value) })
      let have = Dictionary(uniqueKeysWithValues: (content[family] ?? []).map { ($0.key, $0.value) })
      for key in Set(want.keys).union(have.keys) where want[key] != have[key] {
        let location = Key(family: family, key: key)
        let text = "\(family) \(String(decoding: key, as: UTF8.self))"
        if !touched.contains(location) { failures.append("\(text) differs, and was not damaged") }
        if let value = have[key], values[location]?.contains(value) != true { failures.append("\(text): never was") }
        if !isTraceless, !named.contains(where: \.holdsEntries) { failures.append("\(text): a loss that no one names") }
      }
    }
    return failures
  }
}
