import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

@Suite struct CrashFileSystemTests {
  private func read(_ fileSystem: CrashFileSystem, _ path: String) throws -> [UInt8]? {
    guard try fileSystem.attributes(path) != nil else { return nil }
    return try fileSystem.openFile(path, writable: false).contents()
  }

  private func block(_ byte: UInt8, _ count: Int = 512) -> [UInt8] { [UInt8](repeating: byte, count: count) }

  /// Returns a disk with a file "a" of four synced sectors of ones.
  private func diskWithFile() throws -> (CrashFileSystem, any File) {
    let disk = CrashFileSystem(seed: 1)
    let file = try disk.createFile("a")
    try file.write(block(1, 2_048), at: 0)
    try file.sync()
    try disk.syncDirectory("/")
    return (disk, file)
  }

  @Test(arguments: CrashPolicy.allCases)
  func `synced content survives every crash`(policy: CrashPolicy) throws {
    let (disk, file) = try diskWithFile()
    for seed in UInt64(0)..<50 {
      #expect(try read(disk.crashImage(seed: seed, policy: policy), "a") == block(1, 2_048), "seed \(seed)")
    }
    try file.write(block(2, 100), at: 2_048)
    for seed in UInt64(0)..<50 {
      let found = try read(disk.crashImage(seed: seed, policy: policy), "a")
      #expect(found?.starts(with: block(1, 2_048)) == true, "seed \(seed)")
    }
  }

  @Test(arguments: CrashPolicy.allCases)
  func `a sync of the first bytes keeps those, and guarantees nothing of the others`(policy: CrashPolicy) throws {
    let (disk, file) = try diskWithFile()
    try file.write(block(2, 2_048), at: 0)
    try file.sync(first: 600)
    var found: Set<[UInt8]> = []
    for seed in UInt64(0)..<50 {
      let bytes = try #require(try read(disk.crashImage(seed: seed, policy: policy), "a"))
      #expect(bytes.prefix(1_024) == block(2, 1_024)[...], "seed \(seed)")
      found.insert(bytes)
    }
    if policy == .loseAllUnsynced { #expect(found == [block(2, 1_024) + block(1, 1_024)]) }
    if policy == .keepRandomSectors { #expect(found.count == 4) }
    try file.sync()
    #expect(try read(disk.crashImage(seed: 1, policy: policy), "a") == block(2, 2_048))
  }

  @Test func `unsynced writes are all lost in the policy that loses them, and all survive a killed process`() throws {
    let (disk, file) = try diskWithFile()
    try file.write(block(2), at: 512)
    try file.write(block(3), at: 2_048)
    try disk.createFile("b").write([1], at: 0)
    try disk.rename("b", to: "c")
    let lost = disk.crashImage(seed: 0, policy: .loseAllUnsynced)
    #expect(try lost.list("/") == ["a"])
    #expect(try read(lost, "a") == block(1, 2_048))
    let kept = disk.crashImage(seed: 0, policy: .processKill)
    #expect(try kept.list("/") == ["a", "c"])
    #expect(try read(kept, "a") == block(1) + block(2) + block(1, 1_024) + block(3))
    #expect(try read(kept, "c") == [1])
  }

  @Test func `sectors survive independently of each other, in every combination`() throws {
    let (disk, file) = try diskWithFile()
    for sector in 0..<4 { try file.write(block(UInt8(10 + sector)), at: UInt64(sector * 512)) }
    var met: Set<Int> = []
    for seed in UInt64(0)..<400 {
      let found = try #require(try read(disk.crashImage(seed: seed, policy: .keepRandomSectors), "a"))
      var combination = 0
      for sector in 0..<4 {
        let bytes = Array(found[sector * 512..<(sector + 1) * 512])
        let isNew = bytes == block(UInt8(10 + sector))
        #expect(isNew || bytes == block(1), "seed \(seed): a sector is whole")
        if isNew { combination |= 1 << sector }
      }
      met.insert(combination)
    }
    #expect(met.count == 16)
  }

  @Test func `a sector may survive in a state between the last sync and the last write`() throws {
    let (disk, file) = try diskWithFile()
    for byte in UInt8(2)...40 { try file.write(block(byte), at: 0) }
    var met: Set<UInt8> = []
    for seed in UInt64(0)..<200 {
      let found = try #require(try read(disk.crashImage(seed: seed, policy: .keepRandomSectors), "a"))
      met.insert(found[0])
    }
    #expect(met.count == 3 && met.contains(1) && met.contains(40))
  }

  @Test func `a crash leaves a growing file at any size between the old one and the new one`() throws {
    let (disk, file) = try diskWithFile()
    try file.write(block(2, 8_192), at: 2_048)
    var sizes: Set<Int> = []
    for seed in UInt64(0)..<300 {
      let found = try #require(try read(disk.crashImage(seed: seed, policy: .keepRandomSectors), "a"))
      sizes.insert(found.count)
      #expect(found[..<2_048].allSatisfy { $0 == 1 } && found[2_048...].allSatisfy { $0 == 2 || $0 == 0 })
    }
    #expect(sizes.min() == 2_048 && sizes.max() == 10_240 && sizes.count > 5)
  }

  @Test func `a crash that reorders writes loses one to three sectors`() throws {
    let (disk, file) = try diskWithFile()
    try file.write(block(2, 51_200), at: 0)
    var losses: Set<Int> = []
    for seed in UInt64(0)..<100 {
      let found = try #require(try read(disk.crashImage(seed: seed, policy: .keepAllButReorder), "a"))
      #expect(found.count == 51_200)
      losses.insert(stride(from: 0, to: 51_200, by: 512).count { found[$0] != 2 })
    }
    #expect(losses == [1, 2, 3])
  }

  @Test func `a lost change of a name also loses the later changes of that name`() throws {
    let disk = CrashFileSystem(seed: 1)
    try disk.createFile("CURRENT").write([1], at: 0)
    try disk.openFile("CURRENT", writable: true).sync()
    try disk.syncDirectory("/")
    let next = try disk.createFile("CURRENT.tmp")
    try next.write([2], at: 0)
    try next.sync()
    try disk.rename("CURRENT.tmp", to: "CURRENT")
    try disk.createFile("other").close()
    var met: Set<[String]> = []
    for policy in [CrashPolicy.keepRandomSectors, .keepAllButReorder] {
      for seed in UInt64(0)..<200 {
        let image = disk.crashImage(seed: seed, policy: policy)
        let names = try image.list("/")
        let current = try read(image, "CURRENT")
        #expect(current == [1] || (current == [2] && !names.contains("CURRENT.tmp")), "seed \(seed)")
        met.insert(names + ["\(current ?? [])"])
      }
    }
    // The states are: before, created, renamed, each with and without the other file.
    #expect(met.count == 6)
    try disk.syncDirectory("/")
    for policy in CrashPolicy.allCases {
      let image = disk.crashImage(seed: 7, policy: policy)
      #expect(try image.list("/") == ["CURRENT", "other"])
      #expect(try read(image, "CURRENT") == [2])
    }
  }

  @Test func `a file in an unsynced directory is lost with it`() throws {
    let disk = CrashFileSystem(seed: 1)
    try disk.createDirectory("d")
    try disk.createFile("d/a").write([1], at: 0)
    try disk.openFile("d/a", writable: true).sync()
    try disk.syncDirectory("d")
    #expect(try disk.crashImage(seed: 1, policy: .loseAllUnsynced).list("/").isEmpty)
    try disk.syncDirectory("/")
    #expect(try read(disk.crashImage(seed: 1, policy: .loseAllUnsynced), "d/a") == [1])
  }

  @Test func `a kill cuts a store under way at words of eight bytes, and keeps a store that returned`() throws {
    let (disk, file) = try diskWithFile()
    let mapping = try file.map(size: 2_048)
    block(2, 64).withByteView { mapping.store(at: 0, bytes: $0) }
    disk.crashAfter(operation: disk.operationCount + 1)
    block(3, 60).withByteView { mapping.store(at: 68, bytes: $0) }
    #expect(disk.hasCrashed)
    #expect(mapping.view(68, count: 60).bytes == block(1, 60), "nothing is stored after the crash")
    block(4, 60).withByteView { mapping.store(at: 0, bytes: $0) }
    var met: Set<[UInt8]> = []
    for seed in UInt64(0)..<300 {
      let found = try #require(try read(disk.crashImage(seed: seed, policy: .processKill), "a"))
      #expect(Array(found[..<68]) == block(2, 64) + block(1, 4), "seed \(seed)")
      #expect(found[128...].allSatisfy { $0 == 1 })
      // The pieces are the bytes 68 to 72, and then words of eight bytes.
      let pieces = [68..<72] + stride(from: 72, to: 128, by: 8).map { $0..<$0 + 8 }
      for piece in pieces { #expect(Set(found[piece]).count == 1, "seed \(seed): a word is whole") }
      met.insert(pieces.map { found[$0.lowerBound] })
    }
    #expect(met.contains(block(1, 8)) && met.contains(block(3, 8)) && met.contains(block(3, 3) + block(1, 5)))
    #expect(met.count > 20)
  }

  @Test func `after the crash every call throws, and no operation is counted`() throws {
    let (disk, file) = try diskWithFile()
    disk.crashAfter(operation: disk.operationCount + 2)
    try file.write([9], at: 0)
    #expect(errorCode { () throws(EngineError) in try file.sync() } == .inputOutput)
    let count = disk.operationCount
    #expect(errorCode { () throws(EngineError) in try file.write([8], at: 0) } == .inputOutput)
    #expect(errorCode { () throws(EngineError) in _ = try file.size() } == .inputOutput)
    #expect(errorCode { () throws(EngineError) in _ = try disk.list("/") } == .inputOutput)
    #expect(errorCode { () throws(EngineError) in _ = try disk.createFile("b") } == .inputOutput)
    #expect(disk.operationCount == count)
    #expect(disk.crashPoint.operation?.kind == .sync)
    #expect(try read(disk.crashImage(seed: 1, policy: .loseAllUnsynced), "a")?.first == 1)
  }

  @Test func `a crash image is independent of its disk`() throws {
    let (disk, file) = try diskWithFile()
    let image = disk.crashImage(seed: 1, policy: .processKill)
    try file.write([5], at: 0)
    try image.openFile("a", writable: true).write([6], at: 1)
    #expect(try Array(read(disk, "a")?.prefix(2) ?? []) == [5, 1])
    #expect(try Array(read(image, "a")?.prefix(2) ?? []) == [1, 6])
    #expect(try read(image.crashImage(seed: 1, policy: .loseAllUnsynced), "a")?.prefix(2) == [1, 1])
  }

  @Test func `a failed sync loses what it covered, even if a later one succeeds`() throws {
    let (disk, file) = try diskWithFile()
    try file.write(block(2), at: 0)
    try file.write(block(2), at: 512)
    disk.failSyncs(ofPathsEndingIn: "a")
    #expect(errorCode { () throws(EngineError) in try file.sync() } == .inputOutput)
    try file.write(block(3), at: 512)
    try file.sync()
    #expect(try Array(file.contents()[..<1_024]) == block(2) + block(3))
    let found = try read(disk.crashImage(seed: 1, policy: .loseAllUnsynced), "a")
    #expect(found == block(1) + block(3) + block(1, 1_024))
  }

  /// Runs a small program with a commit protocol: data is synced, and then a name is changed and synced.
  private func runProgram(_ disk: CrashFileSystem, committed: (Int) -> Void) throws {
    try disk.createDirectory("db")
    try disk.syncDirectory("/")
    for round in 1...10 {
      let file = try disk.createFile("db/tmp")
      try file.write(block(UInt8(round), 1_500), at: 0)
      try file.sync()
      try disk.rename("db/tmp", to: "db/data")
      try disk.syncDirectory("db")
      committed(round)
    }
  }

  @Test func `one run gives a crash point at each operation, and a correct program survives all of them`() throws {
    let disk = CrashFileSystem(seed: 5)
    let state = Mutex((committed: 0, points: [(CrashPoint, Int)]()))
    disk.observe { _, capture in
      let point = capture()
      state.withLock { $0.points.append((point, $0.committed)) }
    }
    try runProgram(disk) { round in state.withLock { $0.committed = round } }
    let points = state.withLock { $0.points }
    #expect(points.count == disk.operationCount)
    #expect(points.map { $0.0.operation?.number } == (1...disk.operationCount).map { $0 })
    for (point, committed) in points {
      for policy in CrashPolicy.allCases {
        for seed in UInt64(0)..<8 {
          let image = point.image(seed: seed, policy: policy)
          let found = Int(try read(image, "db/data")?.first ?? 0)
          let location: Comment = "\(point.operation.map(String.init(describing:)) ?? "") \(policy) seed \(seed)"
          #expect(found == committed || found == committed + 1, location)
          if found > 0 { #expect(try read(image, "db/data") == block(UInt8(found), 1_500), location) }
        }
      }
    }
  }

  @Test func `a program that forgets a sync is caught`() throws {
    let disk = CrashFileSystem(seed: 5)
    try disk.createFile("data").write(block(1), at: 0)
    try disk.openFile("data", writable: true).sync()
    try disk.syncDirectory("/")
    let next = try disk.createFile("tmp")
    try next.write(block(2), at: 0)
    try disk.rename("tmp", to: "data")
    try disk.syncDirectory("/")
    let isTorn = try (UInt64(0)..<40).contains { seed in
      try read(disk.crashImage(seed: seed, policy: .keepRandomSectors), "data") != block(2)
    }
    #expect(isTorn)
  }

  @Test func `a stop at an operation and a capture there give the same images`() throws {
    let whole = CrashFileSystem(seed: 5)
    let points = Mutex([CrashPoint]())
    whole.observe { _, capture in
      let point = capture()
      points.withLock { $0.append(point) }
    }
    try runProgram(whole) { _ in }
    for number in 1...whole.operationCount {
      let stopped = CrashFileSystem(seed: 5)
      stopped.crashAfter(operation: number)
      #expect(throws: EngineError.self) { try runProgram(stopped) { _ in } }
      let point = points.withLock { $0[number - 1] }
      for policy in CrashPolicy.allCases {
        let one = stopped.crashImage(seed: 3, policy: policy)
        let other = point.image(seed: 3, policy: policy)
        #expect(try contents(one) == contents(other), "operation \(number), \(policy)")
      }
    }
  }

  private func contents(_ disk: CrashFileSystem) throws -> [String: [UInt8]] {
    guard try disk.attributes("db") != nil else { return [:] }
    var result: [String: [UInt8]] = [:]
    for name in try disk.list("db") { result[name] = try read(disk, "db/\(name)") }
    return result
  }

  @Test func `equal runs have equal traces, and a different run has a different trace`() throws {
    let traces = try [1, 1, 2].map { byte -> UInt64 in
      let disk = CrashFileSystem(seed: 5)
      try runProgram(disk) { _ in }
      try disk.openFile("db/data", writable: true).write([UInt8(byte)], at: 3)
      return disk.traceHash
    }
    #expect(traces[0] == traces[1])
    #expect(traces[0] != traces[2])
  }

  @Test func `files without a name or an open handle are discarded`() throws {
    let disk = CrashFileSystem(seed: 5)
    let kept = try disk.createFile("kept")
    try kept.write([1], at: 0)
    try disk.remove("kept")
    for round in 0..<500 {
      let file = try disk.createFile("f\(round)")
      try file.write([1], at: 0)
      file.close()
      try disk.remove("f\(round)")
      try disk.syncDirectory("/")
    }
    #expect(disk.fileCount < 200)
    #expect(try kept.contents() == [1])
  }
}
