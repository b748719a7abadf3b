import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#endif

/// Tests that a checkpoint is a complete database with the content of one commit, and is independent of the original.
struct CheckpointTests {
  private static let target = "/checkpoint"

  private static func open(
    _ fileSystem: any FileSystem, at path: String = DirectoryImage.directory, seed: UInt64 = 5
  ) throws -> Engine {
    try Engine.open(
      at: path, options: DamageFixture.options(), environment: DirectoryImage.environment(fileSystem, seed: seed))
  }

  /// Returns the content of a database that is not open, after a verification without faults.
  static func content(_ fileSystem: any FileSystem, at path: String = target) throws -> [String: [ModelDatabase.Row]] {
    let engine = try open(fileSystem, at: path, seed: 6)
    let faults = try engine.verify().faults
    #expect(faults.isEmpty, "\(faults)")
    let content = try engine.content()
    try engine.close()
    return content
  }

  /// The kinds of file systems for which checkpoints differ.
  enum Disk: CaseIterable {
    case memory, memoryWithoutMapping, posix

    func make() throws -> (fileSystem: any FileSystem, directory: String, keeper: TemporaryDirectory?) {
      switch self {
      case .memory: return (MemoryFileSystem(), "", nil)
      case .memoryWithoutMapping: return (FaultInjectingFileSystem(MemoryFileSystem(), mapsFiles: false), "", nil)
      case .posix:
        let keeper = try TemporaryDirectory()
        return (PosixFileSystem(), keeper.path, keeper)
      }
    }
  }

  /// Copies the fixture, in the state after its process was killed, to a file system.
  private static func write(_ image: DirectoryImage, on fileSystem: any FileSystem, at path: String) throws {
    try fileSystem.createDirectory(path)
    for (name, bytes) in image.files { try DirectoryImage.write(bytes, to: path + "/" + name, on: fileSystem) }
  }

  @Test(arguments: Disk.allCases)
  func `a checkpoint or a salvage in the directory of the database is refused, and leaves no file`(disk: Disk) throws {
    let (fileSystem, directory, keeper) = try disk.make()
    let database = directory + "/db"
    let engine = try Self.open(fileSystem, at: database)
    try engine.put([1], [2])
    var targets = [database + "/copy", database + "/./copy"]
    if let keeper {
      try makeLink(keeper.path + "/link", to: database)
      try fileSystem.createDirectory(database + "/below")
      targets += [keeper.path + "/link/copy", database + "/below/copy"]
    }
    for target in targets {
      let error = #expect(throws: EngineError.self) { try engine.checkpoint(to: target) }
      #expect(error?.code == .invalidArgument && error?.file == target, "\(error as Any)")
    }
    if keeper != nil { try fileSystem.removeDirectory(database + "/below") }
    #expect(try engine.verify().faults.isEmpty)
    try engine.close()
    let error = #expect(throws: EngineError.self) {
      try Engine.salvage(
        from: database, to: targets[0], options: DamageFixture.options(),
        environment: DirectoryImage.environment(fileSystem, seed: 5))
    }
    #expect(error?.code == .invalidArgument, "\(error as Any)")
    #expect(try fileSystem.list(database).allSatisfy { !$0.contains("copy") })
  }

  @Test(arguments: Disk.allCases)
  func `a checkpoint holds what the database holds, in all families`(disk: Disk) throws {
    let (fileSystem, directory, keeper) = try disk.make()
    let fixture = try DamageFixture(.killed)
    try Self.write(fixture.image, on: fileSystem, at: directory + "/db")
    let engine = try Self.open(fileSystem, at: directory + "/db")
    try engine.put([0xff], [1])
    try engine.put([0xff, 1], [2], in: engine.family(named: "other"))
    let expected = try engine.content()
    let sequence = engine.visibleSequence
    let report = try engine.checkpoint(to: directory + "/checkpoint")
    #expect(report.sequence == sequence)
    #expect(report.tablesLinked >= 3 && report.tablesCopied == 0)
    #expect(report.segmentsCopied >= 2, "what recovery replayed, and what was written since")
    #expect(try engine.content() == expected)
    #expect(try Self.content(fileSystem, at: directory + "/checkpoint") == expected)
    #expect(try fileSystem.attributes(directory + "/checkpoint.checkpoint") == nil)
    try engine.close()
    withExtendedLifetime(keeper) {}
  }

  @Test(arguments: Disk.allCases)
  func `a checkpoint in another file system is copied, and holds the same`(disk: Disk) throws {
    let memory = MemoryFileSystem()
    let (fileSystem, directory, keeper) = try disk.make()
    try Self.write(try DamageFixture(.killed).image, on: memory, at: "/db")
    let engine = try Self.open(memory, at: "/db")
    try engine.put([0xff], [1])
    let expected = try engine.content()
    let target = directory + "/checkpoint"
    let report = try engine.checkpoint(to: target, on: fileSystem)
    #expect(report.sequence == engine.visibleSequence)
    #expect(report.tablesLinked == 0 && report.tablesCopied >= 3 && report.tableBytesCopied > 0)
    #expect(throws: EngineError.self) { try engine.checkpoint(to: target, on: fileSystem) }
    #expect(try engine.content() == expected)
    try engine.close()
    #expect(try Self.content(fileSystem, at: target) == expected)
    #expect(try fileSystem.attributes(target + ".checkpoint") == nil)
    #expect(try memory.attributes(target) == nil)
    withExtendedLifetime(keeper) {}
  }

  @Test func `changes to a checkpoint and to its database do not affect each other`() throws {
    let fileSystem = MemoryFileSystem()
    try Self.write(try DamageFixture(.closed).image, on: fileSystem, at: DirectoryImage.directory)
    let engine = try Self.open(fileSystem)
    let expected = try engine.content()
    try engine.checkpoint(to: Self.target)
    // Everything is overwritten, merged or dropped, so that no file of the database is left.
    try engine.dropFamily(engine.family(named: "other"))
    for index in 0..<80 { try engine.put(DamageFixture.key(index), [UInt8](repeating: 9, count: 500)) }
    try engine.compact()
    try engine.waitForCompaction()
    let changed = try engine.content()
    #expect(try Self.content(fileSystem) == expected)
    // Changes of the checkpoint must not affect the original either.
    let copy = try Self.open(fileSystem, at: Self.target, seed: 8)
    for family in copy.families { try copy.put([1], [2], in: family) }
    try copy.compact()
    try copy.close()
    #expect(try engine.content() == changed)
    #expect(try engine.verify().faults.isEmpty)
    try engine.close()
    #expect(try Self.content(fileSystem, at: DirectoryImage.directory) == changed)
  }

  @Test func `a checkpoint of a checkpoint, and of a database without tables, is whole`() throws {
    let fileSystem = MemoryFileSystem()
    let engine = try Self.open(fileSystem)
    try engine.checkpoint(to: "/empty")
    #expect(try Self.content(fileSystem, at: "/empty") == ["default": []])
    try engine.put([1], [2])
    try engine.checkpoint(to: "/first")
    let first = try Self.open(fileSystem, at: "/first", seed: 8)
    try first.put([3], [4])
    try first.checkpoint(to: "/second")
    try first.close()
    #expect(try Self.content(fileSystem, at: "/second") == ["default": [.init([1], [2]), .init([3], [4])]])
    try engine.close()
  }

  @Test func `commits that are not logged are in a checkpoint`() throws {
    let fileSystem = MemoryFileSystem()
    let engine = try Self.open(fileSystem)
    let other = try engine.createFamily("other")
    var batch = WriteBatch()
    try batch.put([1], [2])
    try batch.put([1], [3], in: other)
    try engine.write(batch, durability: Durability.none)
    try engine.put([4], [5])
    try engine.checkpoint(to: Self.target)
    #expect(
      try Self.content(fileSystem) == ["default": [.init([1], [2]), .init([4], [5])], "other": [.init([1], [3])]])
    try engine.close()
  }

  @Test func `files that a compaction and a flush free stay until a running checkpoint has them`() throws {
    let fileSystem = FaultInjectingFileSystem(MemoryFileSystem())
    let image = try DamageFixture(.killed).image
    let firstTable = image.names(suffix: ".sst")[0]
    for kind in [Fault.Kind.link, .createFile] {
      try Self.write(image, on: fileSystem, at: DirectoryImage.directory)
      let engine = try Self.open(fileSystem)
      for index in 0..<10 { try engine.put(DamageFixture.key(index), [7]) }
      let expected = try engine.content()
      // The interruption is before the first table is linked, or before the first segment is copied.
      let suffix = kind == .link ? firstTable : ".log"
      let interruptions = Atomic<Int>(0)
      fileSystem.interruptNext(kind, pathSuffix: suffix) {
        interruptions.add(1, ordering: .relaxed)
        for index in 0..<80 { _ = try? engine.put(DamageFixture.key(index), [UInt8](repeating: 8, count: 2_000)) }
        try? engine.compact()
        try? engine.waitForCompaction()
      }
      try engine.checkpoint(to: Self.target)
      #expect(interruptions.load(ordering: .relaxed) == 1)
      #expect(try Self.content(fileSystem) == expected)
      // The files that only the pin kept are removed.
      let live = Set(engine.core.pipeline.log.segmentEnds.map(\.number))
      let left = try DirectoryImage(fileSystem).names(suffix: ".log").compactMap { FileName($0)?.number }
      #expect(left.filter { !live.contains($0) }.count <= 1, "the prepared one at most: \(left), live \(live)")
      try engine.close()
      #expect(try Engine.open(at: "/db", environment: DirectoryImage.environment(fileSystem)).content().count == 2)
      for directory in ["/db", Self.target] {
        for name in try fileSystem.list(directory) { try fileSystem.remove(directory + "/" + name) }
        try fileSystem.removeDirectory(directory)
      }
    }
  }

  @Test func `where tables can't be linked they are copied`() throws {
    let fileSystem = FaultInjectingFileSystem(MemoryFileSystem())
    try Self.write(try DamageFixture(.closed).image, on: fileSystem, at: DirectoryImage.directory)
    let engine = try Self.open(fileSystem)
    let expected = try engine.content()
    fileSystem.inject(Fault([.link], count: Fault.always))
    let report = try engine.checkpoint(to: Self.target)
    fileSystem.clear()
    #expect(report.tablesLinked == 0 && report.tablesCopied >= 3 && report.tableBytesCopied > 1_000)
    #expect(try Self.content(fileSystem) == expected)
    try engine.close()
  }

  @Test func `the target must be free, and a leftover of a crash is removed`() throws {
    let fileSystem = MemoryFileSystem()
    let engine = try Self.open(fileSystem)
    try engine.put([1], [2])
    func code(_ target: String) -> EngineError.Code? {
      do throws(EngineError) { try engine.checkpoint(to: target) } catch { return error.code }
      return nil
    }
    try fileSystem.createFile("/file").close()
    #expect(code("/file") == .alreadyExists)
    #expect(code("/db") == .alreadyExists)
    #expect(code("/missing/target") == .notFound)
    #expect(code("") == .invalidArgument)
    try fileSystem.createDirectory("/foreign.checkpoint")
    try fileSystem.createFile("/foreign.checkpoint/mine").close()
    #expect(code("/foreign") == .alreadyExists)
    #expect(try fileSystem.list("/foreign.checkpoint") == ["mine"])
    // An empty directory, a path with a trailing slash, and the remains of a crash are accepted.
    try fileSystem.createDirectory(Self.target)
    try fileSystem.createDirectory(Self.target + ".checkpoint")
    try fileSystem.createFile(Self.target + ".checkpoint/000004.sst").close()
    try fileSystem.createFile(Self.target + ".checkpoint/CURRENT").close()
    #expect(code(Self.target + "/") == nil)
    #expect(try Self.content(fileSystem) == ["default": [.init([1], [2])]])
    #expect(code(Self.target) == .alreadyExists)
    // Another checkpoint to the same target is being built.
    try fileSystem.createDirectory("/busy.checkpoint")
    let lock = try fileSystem.lock("/busy.checkpoint/LOCK")
    #expect(code("/busy") == .locked)
    lock.release()
    #expect(code("/busy") == nil)
    try engine.close()
  }

  @Test func `a checkpoint made while threads write has whole commits in their order`() throws {
    let environment = EngineEnvironment.inMemory()
    var options = DamageFixture.options()
    options.logSegmentSize = 64 << 10
    let engine = try Engine.open(at: "/db", options: options, environment: environment)
    let other = try engine.createFamily("other")
    let threads = TestThreads()
    let stop = Atomic<Bool>(false)
    let written = (0..<3).map { _ in Counter() }
    for writer in 0..<3 {
      threads.start("writer \(writer)") {
        var number: UInt32 = 0
        while !stop.load(ordering: .relaxed) {
          number += 1
          let value = (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - $0 * 8)) }
          var batch = WriteBatch()
          try batch.put([UInt8(writer)], value + [UInt8](repeating: 0, count: 300))
          try batch.put([UInt8(writer)], value, in: other)
          try engine.write(batch)
          written[writer].value.store(number, ordering: .sequentiallyConsistent)
        }
      }
    }
    for round in 0..<12 * TestScale.value {
      while threads.problems.isEmpty,
        written.contains(where: { $0.value.load(ordering: .relaxed) < 50 * (round + 1) })
      {
        sched_yield()
      }
      let before = written.map { $0.value.load(ordering: .sequentiallyConsistent) }
      try engine.checkpoint(to: "/checkpoint\(round)")
      let copy = try Engine.open(at: "/checkpoint\(round)", options: options, environment: environment)
      let content = try copy.content()
      #expect(content["default"]?.count == 3)
      #expect(content["default"]?.map { Array($0.value.prefix(4)) } == content["other"]?.map(\.value))
      for (writer, row) in (content["other"] ?? []).enumerated() {
        let number = row.value.reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        #expect(number >= before[writer], "round \(round): an acknowledged commit is missing")
      }
      if round % 4 == 3 {
        let faults = try copy.verify().faults
        #expect(faults.isEmpty, "\(faults)")
      }
      try copy.close()
    }
    stop.store(true, ordering: .relaxed)
    #expect(threads.finish() == [])
    try engine.close()
  }

  private final class Counter: Sendable {
    let value = Atomic<UInt32>(0)
  }

  @Test func `whichever call fails, a checkpoint is either whole or absent`() throws {
    let image = try DamageFixture(.killed).image
    var (thrown, made) = (0, 0)
    for count in [1, Fault.always] {
      for skip in 0... {
        let fileSystem = FaultInjectingFileSystem(MemoryFileSystem())
        try Self.write(image, on: fileSystem, at: DirectoryImage.directory)
        let engine = try Self.open(fileSystem)
        try engine.put([0xff], [1])
        let expected = try engine.content()
        fileSystem.inject(Fault(skip: skip, count: count, writesHalf: skip % 2 == 0))
        var failure: EngineError?
        do throws(EngineError) { try engine.checkpoint(to: Self.target) } catch { failure = error }
        let isOver = fileSystem.failureCount == 0
        fileSystem.clear()
        if failure == nil {
          made += 1
          #expect(try Self.content(fileSystem) == expected, "call \(skip), count \(count)")
        } else {
          thrown += 1
          // If every later call fails too, no file can be removed; but there must never be a part of a database.
          if try fileSystem.attributes(Self.target + "/CURRENT") != nil {
            #expect(count != 1 && failure?.message.contains("syncDirectory") == true, "call \(skip)")
            #expect(try Self.content(fileSystem) == expected, "call \(skip), count \(count)")
          }
          if count == 1 {
            #expect(try fileSystem.attributes(Self.target) == nil, "call \(skip): \(failure.debugDescription)")
            #expect(try fileSystem.attributes(Self.target + ".checkpoint") == nil, "call \(skip)")
          }
          if try fileSystem.attributes(Self.target) == nil {
            try engine.checkpoint(to: Self.target)
            #expect(try Self.content(fileSystem) == expected, "call \(skip), tried again")
          }
        }
        #expect(try engine.content() == expected, "call \(skip)")
        try engine.close()
        #expect(try Self.content(fileSystem, at: DirectoryImage.directory) == expected, "call \(skip)")
        if isOver { break }
      }
    }
    print("checkpoint: \(thrown) calls failed it, \(made) did not")
    #expect(thrown > 40 && made >= 2)
  }
}
