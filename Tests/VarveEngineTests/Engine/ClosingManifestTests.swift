import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the MANIFEST that a clean close leaves.
struct ClosingManifestTests {
  private static func open(_ fileSystem: any FileSystem) throws -> Engine {
    let random = Mutex(SeededRandom(seed: 6))
    let executor = SteppedExecutor(seed: 6)
    return try Engine.open(
      at: "/db", options: SmallEngine.options(),
      environment: EngineEnvironment(
        fileSystem: fileSystem, clock: executor.clock, random: { random.withLock { $0.next() } },
        makeExecutor: { _ in executor }))
  }

  private static func number(_ fileSystem: any FileSystem) throws -> FileNumber {
    try Manifest.currentNumber(directory: "/db", fileSystem: fileSystem)
  }

  private static func makeFamilies(_ engine: Engine, _ range: Range<Int>) throws {
    let name = String(repeating: "n", count: 200)
    for index in range { _ = try engine.createFamily(name + "\(index)") }
  }

  /// Creates a database whose next close has edits of more than a tenth of the size of its snapshot, and returns the
  /// engine.
  private static func makeEdits(_ fileSystem: FaultyFileSystem) throws -> Engine {
    let first = try open(fileSystem)
    try makeFamilies(first, 0..<100)
    try first.close()
    let engine = try open(fileSystem)
    try makeFamilies(engine, 100..<130)
    try engine.put([1], [2])
    return engine
  }

  private static func expectWhole(_ fileSystem: FaultyFileSystem, _ text: String) throws {
    let engine = try open(fileSystem)
    #expect(engine.families.count == 131, "\(text)")
    #expect(try engine.get([1]) == [2], "\(text)")
    try engine.close()
  }

  @Test func `a clean close writes the MANIFEST again where its edits are more than a tenth of its snapshot`() throws {
    let fileSystem = FaultyFileSystem()
    let engine = try Self.makeEdits(fileSystem)
    let before = try Self.number(fileSystem)
    try engine.close()
    let rolled = try Self.number(fileSystem)
    #expect(rolled > before)
    let size = try #require(try fileSystem.attributes("/db/" + FileName.manifest(rolled).name)).size
    #expect(try fileSystem.list("/db").filter { $0.hasPrefix("MANIFEST") }.count == 1)
    // For a few edits no new MANIFEST is written: the next open applies them.
    let again = try Self.open(fileSystem)
    try again.put([3], [4])
    try again.close()
    #expect(try Self.number(fileSystem) == rolled)
    let grown = try #require(try fileSystem.attributes("/db/" + FileName.manifest(rolled).name)).size
    #expect(grown > size && grown - size < size / 10)
    // These edits are slightly more than a tenth, so a new MANIFEST is written.
    let last = try Self.open(fileSystem)
    try Self.makeFamilies(last, 130..<160)
    try last.close()
    #expect(try Self.number(fileSystem) > rolled)
  }

  @Test(arguments: [false, true])
  func `a MANIFEST that can't be written again does not fail the close`(forEver: Bool) throws {
    let sound = FaultyFileSystem()
    var engine = try Self.makeEdits(sound)
    sound.reset(failsAt: nil)
    try engine.close()
    let trace = sound.trace
    let first = try #require(trace.firstIndex { $0.hasPrefix("create MANIFEST") })
    #expect(trace[first...].contains { $0.hasPrefix("rename") }, "\(trace)")
    for operation in first..<trace.count {
      let fileSystem = FaultyFileSystem()
      engine = try Self.makeEdits(fileSystem)
      fileSystem.reset(failsAt: operation, forEver: forEver)
      #expect(throws: Never.self, "\(trace[operation])") { try engine.close() }
      #expect(fileSystem.trace.count > operation, "\(trace[operation]) was not reached")
      fileSystem.reset(failsAt: nil)
      try Self.expectWhole(fileSystem, "\(trace[operation]) failed")
    }
  }
}
