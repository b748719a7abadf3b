import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of reads that may not wait for a file: they return what other reads return, or no result.
struct FileReadBanTests {
  private struct Stop: Error {}

  private static func key(_ number: Int) -> [UInt8] { [UInt8(number >> 8), UInt8(number & 0xFF)] }

  private static func value(_ number: Int) -> [UInt8] { [UInt8](repeating: UInt8(number & 0xFF), count: 100) }

  /// Opens an engine with 1,000 keys in tables, of which a range tombstone removes those below key 100, and one key
  /// in the memtable.
  private static func open(_ fileSystem: CountingFileSystem) throws -> Engine {
    var options = EngineOptions()
    options.memoryBudget = 16 << 20
    var environment = EngineEnvironment.inMemory()
    environment.fileSystem = fileSystem
    func engine() throws -> Engine { try Engine.open(at: "/db", options: options, environment: environment) }
    let first = try engine()
    for number in 0..<1_000 { try first.put(key(number), value(number)) }
    try first.flush()
    try first.deleteRange(from: key(0), to: key(100))
    try first.flush()
    try first.close()
    // The cache of a new engine is empty.
    let engine = try engine()
    // Compactions read files without the cache.
    try engine.waitForCompaction()
    try engine.put(key(2_000), value(1))
    return engine
  }

  @Test func `under a ban on file reads memtables answer, and tables that were never read do not`() throws {
    let fileSystem = CountingFileSystem()
    let engine = try Self.open(fileSystem)
    let (reads, opened) = (fileSystem.readCount, fileSystem.openedCount)
    #expect(try engine.withoutFileReads { try engine.get(Self.key(2_000)) } == Self.value(1))
    #expect(try engine.withoutFileReads { try engine.get(Self.key(500)) } == .none)
    #expect(try engine.withoutFileReads { try engine.contains(Self.key(500)) } == nil)
    #expect(try engine.withoutFileReads { try engine.multiGet([Self.key(2_000), Self.key(500)]) } == nil)
    #expect(fileSystem.readCount == reads && fileSystem.openedCount == opened)
    try engine.close()
  }

  @Test func `under a ban on file reads cached blocks give the usual answers, and no file is read`() throws {
    let fileSystem = CountingFileSystem()
    let engine = try Self.open(fileSystem)
    var random = SeededRandom(seed: 1)
    var answeredCount = 0
    var refusedCount = 0
    for _ in 0..<4_000 {
      let key = Self.key(random.below(1_100))
      let reads = fileSystem.readCount
      let answer: [UInt8]??
      if random.oneIn(4) {
        answer = try engine.withoutFileReads {
          var cursor = try engine.cursor()
          try cursor.seek(key)
          return cursor.isValid && cursor.keyBytes == key ? cursor.valueBytes : nil
        }
      } else {
        answer = try engine.withoutFileReads { try engine.get(key) }
      }
      #expect(fileSystem.readCount == reads)
      switch answer {
      case .some(let value):
        #expect(try value == engine.get(key))
        answeredCount += 1
      case nil: refusedCount += 1
      }
      // The blocks that were refused are added to the cache over time.
      if random.oneIn(8) { _ = try engine.get(key) }
    }
    #expect(answeredCount > 1_000 && refusedCount > 10, "\(answeredCount) answered, \(refusedCount) refused")
    try engine.close()
  }

  @Test func `a body that catches the refusal of a file read can't hide it`() throws {
    let engine = try Self.open(CountingFileSystem())
    var code: EngineError.Code?
    let answer = try engine.withoutFileReads { () -> Int in
      do { _ = try engine.get(Self.key(500)) } catch let error as EngineError { code = error.code }
      return 1
    }
    #expect(answer == nil && code == .wouldReadFile)
    // Another error must not hide it either.
    let other = try engine.withoutFileReads { () throws -> Int in
      _ = try? engine.get(Self.key(500))
      throw Stop()
    }
    #expect(other == nil)
    try engine.close()
  }

  @Test func `a ban on file reads ends with its body, also if that throws, and an inner ban keeps the outer one`()
    throws
  {
    let engine = try Self.open(CountingFileSystem())
    #expect(throws: Stop.self) { try engine.withoutFileReads { throw Stop() } }
    let answer = try engine.withoutFileReads { () throws -> Int in
      #expect(try engine.withoutFileReads { try engine.get(Self.key(500)) } == .none)
      return try engine.get(Self.key(2_000))?.count ?? 0
    }
    // The inner read was refused, and not the outer one.
    #expect(answer == 100)
    #expect(
      try engine.withoutFileReads { () throws -> [UInt8]? in
        _ = try engine.withoutFileReads { 1 }
        return try engine.get(Self.key(501))
      } == .none)
    #expect(try engine.get(Self.key(500)) == Self.value(500))
    try engine.close()
  }
}
