import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests that databases of every format that was ever released can be opened, verified and read by this build.
struct GoldenDatabaseTests {
  @Test(.enabled(if: GoldenDatabase.formatToWrite != nil))
  func `a golden database is written where the environment asks for one`() throws {
    guard let format = GoldenDatabase.formatToWrite else { return }
    let golden = GoldenDatabase(format: format)
    let image = try golden.make()
    let size = image.files.values.reduce(0) { $0 + $1.count }
    #expect(size < 300 << 10, "\(size) bytes are too many for the repository")
    try golden.write(image)
  }

  private static func open(_ image: DirectoryImage, readOnly: Bool) throws -> Engine {
    try Engine.open(
      at: DirectoryImage.directory, options: GoldenDatabase.options(readOnly: readOnly),
      environment: DirectoryImage.environment(try image.makeFileSystem(), seed: 12))
  }

  @Test(arguments: GoldenDatabase.Format.allCases)
  func `a database of an earlier build has the content that was written`(format: GoldenDatabase.Format) throws {
    let golden = GoldenDatabase(format: format)
    let expected = try golden.expected().families
    #expect(expected.count == (format >= .second ? 4 : 3) && expected.values.allSatisfy { $0.count > 10 })
    for readOnly in [true, false] {
      let engine = try Self.open(try golden.read(), readOnly: readOnly)
      #expect(try engine.content() == expected, "\(format), read-only \(readOnly)")
      let faults = try engine.verify().faults
      #expect(faults.isEmpty, "\(faults)")
      try engine.close()
    }
  }

  @Test(arguments: GoldenDatabase.Format.allCases)
  func `a database of an earlier build is written to, compacted and opened again`(format: GoldenDatabase.Format) throws
  {
    let golden = GoldenDatabase(format: format)
    let fileSystem = try golden.read().makeFileSystem()
    var expected = try golden.expected().families
    for _ in 0..<2 {
      let engine = try Engine.open(
        at: DirectoryImage.directory, options: GoldenDatabase.options(),
        environment: DirectoryImage.environment(fileSystem, seed: 13))
      #expect(try engine.content() == expected)
      for family in engine.families { try engine.put([0xff, 0xff, 0xff], [1], in: family) }
      try engine.compact()
      for name in expected.keys {
        expected[name]?.removeAll { $0.key == [0xff, 0xff, 0xff] }
        expected[name]?.append(.init([0xff, 0xff, 0xff], [1]))
      }
      #expect(try engine.content() == expected)
      #expect(try engine.verify().faults.isEmpty)
      try engine.close()
    }
  }

  @Test(arguments: GoldenDatabase.Format.allCases)
  func `a golden database has the levels, codecs and log records that it is kept for`(format: GoldenDatabase.Format)
    throws
  {
    let image = try GoldenDatabase(format: format).read()
    #expect(image.files.values.reduce(0) { $0 + $1.count } < 300 << 10)
    let engine = try Self.open(image, readOnly: true)
    #expect(engine.statistics.levels.filter { $0.fileCount > 0 }.count >= 2, "tables on several levels")
    #expect(engine.families.map(\.name) == ["default", "plain", "packed"] + (format >= .second ? ["words"] : []))
    let logged = engine.families.map { $0.state.active(.beforeOpen).entryCount }
    #expect(logged.allSatisfy { $0 >= 10 }, "records that are in the log alone: \(logged)")
    let state = engine.core.tree.state
    #expect(state.isDropped(3))
    let codecs = try state.families.values.flatMap { family in
      try (0..<Limits.levelCount).flatMap { family.version.tables(level: $0) }.map {
        try engine.core.tree.reader($0).properties().compression
      }
    }
    if format >= .third {
      let tables = state.families.values.flatMap { family in
        (0..<Limits.levelCount).flatMap { family.version.tables(level: $0) }
      }
      #expect(tables.contains { !$0.hidden.isEmpty } && tables.contains { ($0.shadowedSize ?? 0) > 0 })
      #expect(try tables.contains { try engine.core.tree.reader($0).footer.hasTombstoneIndex })
    }
    #expect(Set(codecs) == [0, 1, 2], "tables of every codec")
    let hasRanges = state.families.values.contains { family in
      (0..<Limits.levelCount).contains { family.version.tables(level: $0).contains { $0.rangeTombstoneCount > 0 } }
    }
    #expect(hasRanges == (format >= .second), "range tombstones in tables")
    try engine.close()
  }

  @Test(arguments: GoldenDatabase.Format.allCases)
  func `the script of a golden database gives the same content in every run`(format: GoldenDatabase.Format) throws {
    let golden = GoldenDatabase(format: format)
    let first = try golden.expected()
    #expect(try golden.expected() == first)
    let engine = try Self.open(try golden.make(), readOnly: true)
    #expect(try engine.content() == first.families)
    try engine.close()
  }
}
