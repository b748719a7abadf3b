import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of readers and writers of two versions of the page `SHARED`, on databases of earlier builds.
struct SharedPageVersionTests {
  /// The version word of a page of the builds that wrote the golden databases.
  private static let earlierVersion: UInt64 = 1

  private let directory: TemporaryDirectory
  private let fileSystem = PosixFileSystem()
  private var path: String { directory.path + "/db" }

  init() throws { directory = try TemporaryDirectory() }

  /// Writes a golden database, and a page as an earlier build that is running has it: in this session of the machine,
  /// by this process, and with a commit before those in the log.
  private func write(_ golden: GoldenDatabase, version: UInt64) throws {
    try fileSystem.createDirectory(path)
    for (name, bytes) in try golden.read().files {
      try DirectoryImage.write(bytes, to: path + "/" + name, on: fileSystem)
    }
    let id = try ManifestTail(directory: path, fileSystem: fileSystem).state.databaseID
    let page = try SharedPage.make(at: path + "/SHARED", fileSystem)
    page.begin(
      lifeID: 5, session: try #require(fileSystem.machineSession()), databaseID: id, sequence: SequenceNumber(1),
      oldest: FileNumber(1), segment: FileNumber(1))
    page.store(version, 8)
  }

  @Test(arguments: GoldenDatabase.Format.allCases)
  func `a reader of a writer of an earlier build polls the log, and reads all of it`(
    format: GoldenDatabase.Format
  ) throws {
    let golden = GoldenDatabase(format: format)
    try write(golden, version: Self.earlierVersion)
    let follower = try Engine.follow(at: path, options: GoldenDatabase.options(readOnly: true))
    #expect(try follower.engine.content() == golden.expected().families)
    #expect(follower.engine.explain().contains("polls the log"))
    try follower.close()
  }

  @Test(arguments: GoldenDatabase.Format.allCases)
  func `a reader of an earlier build takes the page of a writer of this one for absent`(
    format: GoldenDatabase.Format
  ) throws {
    let golden = GoldenDatabase(format: format)
    try write(golden, version: Self.earlierVersion)
    let reader = try #require(try SharedPage.open(at: path + "/SHARED", fileSystem))
    let engine = try Engine.open(at: path, options: GoldenDatabase.options())
    // The earlier build compares this word with its own version, and then polls the log.
    #expect(reader.load(8) == 2)
    #expect(reader.load(8) != Self.earlierVersion)
    #expect(try engine.content() == golden.expected().families)
    let follower = try Engine.follow(at: path, options: GoldenDatabase.options(readOnly: true))
    try engine.put([0xff, 0xff], [1])
    try follower.catchUp()
    #expect(try follower.engine.get([0xff, 0xff]) == [1])
    #expect(follower.engine.explain().contains("sleeps on SHARED"))
    try follower.close()
    try engine.close()
  }
}
