import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of files that exist and cannot be read at present: every call that opens or reads one fails in turn.
struct NotReadableTests {
  enum Work: CaseIterable { case openAndRead, openAndWrite, verify, repair, salvage, giveUp }

  private static let kinds: Set<Fault.Kind> = [.openFile, .read, .size, .attributes, .list, .map]

  private static func open(_ fileSystem: any FileSystem, readOnly: Bool = false) throws -> Engine {
    try Engine.open(
      at: DirectoryImage.directory, options: DamageFixture.options(readOnly: readOnly),
      environment: DirectoryImage.environment(fileSystem))
  }

  /// Reads all rows, which must be the expected ones.
  private static func read(_ engine: Engine, _ expected: [String: [ModelDatabase.Row]]) throws {
    for family in engine.families {
      var rows: [ModelDatabase.Row] = []
      var cursor = try engine.cursor(in: family)
      try cursor.seekToFirst()
      while cursor.isValid {
        rows.append(.init(cursor.keyBytes, cursor.valueBytes))
        try cursor.next()
      }
      #expect(rows == expected[family.name])
    }
  }

  private static func run(_ work: Work, _ fileSystem: any FileSystem, _ expected: [String: [ModelDatabase.Row]]) throws
  {
    switch work {
    case .openAndRead, .openAndWrite, .verify:
      let engine = try open(fileSystem, readOnly: work == .openAndRead)
      defer { try? engine.close() }
      if work == .verify {
        #expect(try engine.verify().faults.isEmpty)
      } else {
        try read(engine, expected)
      }
    case .repair:
      let report = try Engine.repair(
        at: DirectoryImage.directory, options: DamageFixture.options(),
        environment: DirectoryImage.environment(fileSystem))
      #expect(!report.isChanged && report.losses.isEmpty)
    case .salvage:
      let report = try Engine.salvage(
        from: DirectoryImage.directory, to: "/saved", options: DamageFixture.options(),
        environment: DirectoryImage.environment(fileSystem))
      #expect(report.losses.isEmpty)
    case .giveUp:
      let engine = try open(fileSystem)
      defer { try? engine.close() }
      for family in engine.core.tree.state.families.values {
        for level in 0..<Limits.levelCount {
          for table in family.version.tables(level: level) {
            let given = try engine.giveUp(
              DamagedBlock(
                family: family.name, table: table.number.value, level: level,
                file: engine.core.tree.path(.table(table.number)), offset: nil, message: ""))
            #expect(given.parts.isEmpty && given.entryCount == 0)
          }
        }
      }
    }
  }

  @Test(arguments: Work.allCases)
  func `data that can't be read now is not damage, and the same call succeeds later`(work: Work) throws {
    let fixture = try DamageFixture(.killed)
    let counting = FaultInjectingFileSystem(try fixture.image.makeFileSystem())
    counting.inject(Fault(Self.kinds, skip: 1_000_000))
    try Self.run(work, counting, fixture.state.families)
    let count = 1_000_000 - counting.skipsLeft
    try #require(count > 10)
    var refused = 0
    for call in stride(from: 0, to: count, by: TestScale.isWhole ? 1 : 5) {
      for isLasting in [false, true] {
        let memory = try fixture.image.makeFileSystem()
        let fileSystem = FaultInjectingFileSystem(memory)
        fileSystem.inject(
          Fault(Self.kinds, skip: call, count: isLasting ? Fault.always : 1, code: .notReadableNow))
        do {
          try Self.run(work, fileSystem, fixture.state.families)
          // The work succeeds if the file is not needed, or if its content is available elsewhere.
          #expect(!isLasting || fileSystem.failureCount > 0)
        } catch let error as EngineError {
          refused += 1
          #expect(error.code == .notReadableNow, "call \(call): \(error)")
        }
        fileSystem.clear()
        if work == .repair { #expect(try DirectoryImage(memory) == fixture.image, "call \(call)") }
        if work == .salvage, try memory.attributes("/saved") != nil { continue }
        try Self.run(work, fileSystem, fixture.state.families)
        let engine = try Self.open(memory)
        try Self.read(engine, fixture.state.families)
        #expect(try engine.verify().faults.isEmpty)
        try engine.close()
      }
    }
    #expect(refused > 2 * count / (TestScale.isWhole ? 2 : 10), "\(refused) of \(2 * count) calls were refused")
  }

  @Test func `a compaction of data that can't be read now fails, marks no table as damaged, and succeeds later`() throws
  {
    let fixture = try DamageFixture(.closed)
    let fileSystem = FaultInjectingFileSystem(try fixture.image.makeFileSystem())
    let engine = try Self.open(fileSystem)
    fileSystem.inject(Fault([.openFile, .read], pathSuffix: ".sst", count: Fault.always, code: .notReadableNow))
    #expect(throws: EngineError.self) { try engine.compact() }
    #expect(engine.statistics.damagedBlocks.isEmpty)
    fileSystem.clear()
    try engine.compact()
    try Self.read(engine, fixture.state.families)
    try engine.close()
  }

  @Test(arguments: [Int32(1), 13])
  func `EPERM and EACCES mean not readable now for a read, and permission denied for a write`(
    number: Int32
  ) {
    #expect(SystemError.readingError(number, call: "open", path: "a").code == .notReadableNow)
    #if !canImport(Darwin)
      // Only devices of Apple protect files while they are locked.
      #expect(!SystemError.readingError(number, call: "open", path: "a").message.contains("device"))
    #endif
    #expect(SystemError.error(number, call: "rename", path: "a").code == .permissionDenied)
    #expect(SystemError.readingError(30, call: "open", path: "a").code != .notReadableNow)
  }
}
