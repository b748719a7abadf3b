import EngineTestSupport
import Foundation
import Testing
import VarveEngine

@testable import ObjectFixtures
@testable import Varve

/// Tests of a database whose files exist but are temporarily unreadable.
struct NotReadableDatabaseTests {
  private static let kinds: Set<Fault.Kind> = [.openFile, .read, .size, .attributes, .list, .map]

  /// A database with tables, a log, a feed and an extension, on a file system with injected faults.
  private struct World {
    let memory = MemoryFileSystem()
    let fileSystem: FaultInjectingFileSystem
    var options = DatabaseOptions()

    init() throws {
      fileSystem = FaultInjectingFileSystem(memory)
      options.onCorruption = .salvage
      options.memoryBudget = 1 << 20
      let database = try open()
      try database.change { tx in for key in 0..<2_000 { try tx.set("note \(key)", key: key, in: "notes") } }
      try database.registerReady(WordCount(), as: "words")
      try (database.core.backend as? EngineBackend)?.engine.flush()
      try database.change { tx in try tx.set("late", key: 2_000, in: "notes") }
      // The last flush fails, so the next open replays the log.
      fileSystem.inject(Fault([.createFile], pathSuffix: ".sst", count: Fault.always))
      try? database.close()
      fileSystem.clear()
    }

    func open() throws -> Database {
      var environment = EngineEnvironment.system
      environment.fileSystem = fileSystem
      return Database(try DiskOpening("/db", DatabaseDefinition(), options, environment: environment).run())
    }

    func names() throws -> [String] { try memory.list("/").sorted() }
  }

  /// Opens the database, reads every row, uses the extension, and follows the changes.
  private static func use(_ world: World) throws {
    let database = try world.open()
    defer { try? database.close() }
    let words = try database.registerReady(WordCount(), as: "words")
    #expect(try database.look { tx in try tx.keys(Int.self, in: "notes") } == Array(0...2_000))
    for key in stride(from: 0, to: 2_000, by: 250) {
      #expect(try database.look { tx in try tx.object(String.self, key: key, in: "notes") } == "note \(key)")
    }
    #expect(try database.look { tx in try tx[words].count(of: "note") } == 2_000)
    #expect(try database.feedEvents().compactMap(\.changes).last?.text == "+2000")
  }

  @Test func `a file that is not readable for now never leads to corruption, a salvage or a failed build`() throws {
    let world = try World()
    let counting = Fault(Self.kinds, skip: 1_000_000)
    world.fileSystem.inject(counting)
    try Self.use(world)
    let count = 1_000_000 - world.fileSystem.skipsLeft
    world.fileSystem.clear()
    let names = try world.names()
    var refused = 0
    let step = max(1, count / TestScale.count(60))
    for call in stride(from: 0, to: count, by: step) {
      for isLasting in [false, true] {
        world.fileSystem.inject(
          Fault(Self.kinds, skip: call, count: isLasting ? Fault.always : 1, code: .notReadableNow))
        do { try Self.use(world) } catch let error as DatabaseError {
          refused += 1
          #expect(error.code == .notReadableNow, "call \(call): \(error)")
        }
        world.fileSystem.clear()
        #expect(try world.names() == names, "nothing was put aside")
        try Self.use(world)
      }
    }
    #expect(refused > 0)
  }

  @Test(arguments: ["CURRENT", "LOCK", "MANIFEST", ".log", ".sst"])
  func `each file that can't be opened is named, and the database opens later`(file: String) throws {
    let world = try World()
    let name = file == ".log" ? file : try #require(try world.memory.list("/db").sorted().first { $0.contains(file) })
    for kinds in [Set([Fault.Kind.openFile, .lock]), [.read, .map]] {
      if file == "LOCK", kinds.contains(.read) { continue }
      world.fileSystem.inject(Fault(kinds, pathSuffix: name, count: Fault.always, code: .notReadableNow))
      let error = #expect(throws: DatabaseError.self) { try Self.use(world) }
      #expect(error?.code == .notReadableNow && error?.message.contains(name) == true, "\(String(describing: error))")
      world.fileSystem.clear()
      #expect(try world.names().filter { $0.hasPrefix("db") } == ["db"])
      try Self.use(world)
    }
  }

  // MARK: - Attributes

  @Test(arguments: [nil] + FileProtection.allCases.map(Optional.some), [true, false])
  func `options for protection and backups become attributes if supported, and otherwise have no effect`(
    protection: FileProtection?, isExcluded: Bool
  ) throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    var options = DatabaseOptions()
    options.fileProtection = protection
    options.isExcludedFromBackup = isExcluded
    let database = try Database.open(at: path, options: options)
    try database.put("a", "b")
    #if canImport(Darwin)
      let paths = [path] + (try FileManager.default.contentsOfDirectory(atPath: path)).map { path + "/" + $0 }
      for path in paths {
        let values = try URL(fileURLWithPath: path).resourceValues(forKeys: [.isExcludedFromBackupKey])
        if isExcluded { #expect(values.isExcludedFromBackup == true, "\(path)") }
        #if os(iOS) && !targetEnvironment(simulator)
          let expected: [FileProtection: FileProtectionType] = [
            .complete: .complete, .completeUnlessOpen: .completeUnlessOpen,
            .completeUntilFirstAuthentication: .completeUntilFirstUserAuthentication, .none: .none,
          ]
          let found = try FileManager.default.attributesOfItem(atPath: path)[.protectionKey] as? FileProtectionType
          if let protection { #expect(found == expected[protection], "\(path)") }
        #endif
      }
    #endif
    #expect(try database.look { tx in try tx.count(in: "notes") } == 1)
    try database.close()
  }
}
