import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of files that contradict each other when a database is opened.
struct OpeningDamageTests {
  @Test func `a log record of a family that never existed is damage, and the error names its segment`() throws {
    let disk = MemoryFileSystem()
    let engine = try Engine.open(
      at: "/db", options: SmallEngine.options(), environment: DirectoryImage.environment(disk))
    let before = try DirectoryImage(disk)
    try engine.put([1], [1], in: try engine.createFamily("late"))
    try engine.sync()
    // The newer log is combined with the older MANIFEST: the family's creation is lost, which no crash can cause.
    var image = try DirectoryImage(disk)
    let manifest = try before.only(prefix: "MANIFEST")
    image.files[manifest] = before.files[manifest]
    try engine.close()
    let other = try image.makeFileSystem()
    let error = #expect(throws: EngineError.self) {
      try Engine.open(at: "/db", options: SmallEngine.options(), environment: DirectoryImage.environment(other))
    }
    #expect(error?.code == .corruption)
    #expect(error?.message.contains("which never was") == true)
    #expect(error?.file == image.names(suffix: ".log").first.map(DirectoryImage.path))
  }
}
