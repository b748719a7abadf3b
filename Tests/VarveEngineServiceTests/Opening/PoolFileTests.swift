import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests that files of log segments that another engine made are not written through a mapping.
///
/// A restored copy may have holes in them, and a store to a hole ends the process if the disk is full.
struct PoolFileTests {
  private static func options() -> EngineOptions {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.logSegmentSize = 64 << 10
    return options
  }

  private static func open(_ files: MemoryFileSystem) throws -> Engine {
    var environment = EngineEnvironment.inMemory()
    environment.fileSystem = files
    return try Engine.open(at: "/db", options: options(), environment: environment)
  }

  private static func pooled(_ files: MemoryFileSystem) throws -> [UInt64] {
    try files.list("/db").compactMap { name in
      guard case .pooledLog(let number)? = FileName(name) else { return nil }
      return number.value
    }
  }

  @Test func `a pooled log file is removed at open`() throws {
    let files = MemoryFileSystem()
    try Self.open(files).close()
    let file = try files.createFile("/db/000900.pool")
    try file.truncate(to: 64 << 10)
    file.close()
    let engine = try Self.open(files)
    #expect(try !Self.pooled(files).contains(900))
    try engine.put([1], [1])
    try engine.close()
  }

  @Test func `a segment that was replayed is not used again`() throws {
    let files = MemoryFileSystem()
    var engine: Engine? = try Self.open(files)
    for number in 0..<2_000 { try engine?.put(Array("key \(number)".utf8), [UInt8](repeating: 1, count: 100)) }
    engine = nil
    let last = try files.list("/db").compactMap { FileName($0)?.logNumber?.value }.max() ?? 0
    let again = try Self.open(files)
    #expect(again.core.pipeline.log.oldestNumber.value <= last, "a segment was replayed")
    try again.flush()
    // The segments are removed after the flush has returned.
    try again.core.background.waitUntilIdle()
    #expect(again.core.pipeline.log.oldestNumber.value > last)
    #expect(try Self.pooled(files).allSatisfy { $0 > last })
    try again.close()
  }
}
