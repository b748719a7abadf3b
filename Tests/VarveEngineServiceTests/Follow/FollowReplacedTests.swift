import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of a follower whose database is replaced by other files.
struct FollowReplacedTests {
  /// The way in which the files are replaced.
  enum Replacement: CaseIterable {
    /// Another directory is renamed to the path.
    case directory
    /// The files are removed, and another database is created in the directory.
    case otherDatabase
    /// The files are removed, and an earlier copy of the database is stored in the directory, as a restored backup.
    case copy
    /// A checkpoint is stored in the directory.
    case checkpoint
  }

  private let directory: TemporaryDirectory
  private let fileSystem = PosixFileSystem()
  private let executor = SteppedExecutor(seed: 1)
  private var path: String { directory.path + "/db" }
  private var other: String { directory.path + "/other" }

  init() throws { directory = try TemporaryDirectory() }

  private func follow() throws -> Follower {
    try Engine.follow(
      at: path, options: FollowFixture.options,
      environment: FollowFixture.environment(fileSystem, executor, seed: 1))
  }

  /// Creates a database with one key, and copies of it by the system and by a checkpoint.
  private func make() throws {
    let engine = try Engine.open(at: path, options: FollowFixture.options)
    try engine.put([1], [1], durability: .power)
    try engine.checkpoint(to: directory.path + "/checkpoint")
    try engine.close()
    try copy(path, to: directory.path + "/copy")
    let later = try Engine.open(at: path, options: FollowFixture.options)
    try later.put([2], [2], durability: .power)
    try later.close()
  }

  private func copy(_ source: String, to target: String) throws {
    if try fileSystem.attributes(target) == nil { try fileSystem.createDirectory(target) }
    for name in try fileSystem.list(source) {
      let file = try fileSystem.openFile(source + "/" + name, writable: false)
      let size = Int(try file.size())
      var bytes = [UInt8](repeating: 0, count: size)
      #expect(try unsafe bytes.withUnsafeMutableBytes { try unsafe file.read(into: $0, at: 0) } == size)
      try DirectoryImage.write(bytes, to: target + "/" + name, on: fileSystem)
    }
  }

  private func removeFiles() throws {
    for name in try fileSystem.list(path) { try fileSystem.remove(path + "/" + name) }
  }

  private func replace(_ replacement: Replacement) throws {
    switch replacement {
    case .directory:
      try fileSystem.rename(path, to: directory.path + "/old")
      try fileSystem.rename(directory.path + "/copy", to: path)
    case .otherDatabase:
      try removeFiles()
      try Engine.open(at: path, options: FollowFixture.options).close()
    case .copy:
      try removeFiles()
      try copy(directory.path + "/copy", to: path)
    case .checkpoint:
      try removeFiles()
      try copy(directory.path + "/checkpoint", to: path)
    }
  }

  @Test(arguments: Replacement.allCases)
  func `a follower whose files were replaced throws rewound, and a new one reads what is there now`(
    replacement: Replacement
  ) throws {
    try make()
    let follower = try follow()
    #expect(try follower.engine.get([2]) == [2])
    try replace(replacement)
    executor.clock.advance(1_000_000_000)
    for _ in 1...2 {
      #expect(throws: EngineError.self) { try follower.catchUp() }
      do { try follower.catchUp() } catch { #expect(error.code == .rewound, "\(error)") }
    }
    // What was shown stays readable.
    #expect(try follower.engine.get([2]) == [2])
    try follower.close()
    let again = try follow()
    #expect(try again.engine.get([1]) == (replacement == .otherDatabase ? nil : [1]))
    #expect(try again.engine.get([2]) == nil)
    try again.close()
  }

  @Test func `a follower of a directory that was renamed continues with it`() throws {
    try make()
    let writer = try Engine.open(at: path, options: FollowFixture.options)
    let follower = try follow()
    try fileSystem.rename(path, to: other)
    try writer.put([3], [3])
    executor.clock.advance(1_000_000_000)
    try follower.catchUp()
    #expect(try follower.engine.get([3]) == [3])
    try writer.compact()
    try writer.put([4], [4])
    executor.clock.advance(1_000_000_000)
    try follower.catchUp()
    #expect(try follower.engine.get([4]) == [4])
    try follower.close()
    try writer.close()
  }

  @Test func `the commits of a closed follower are an empty sequence`() async throws {
    try make()
    let follower = try follow()
    try follower.close()
    for try await commit in follower.commits() { Issue.record("commit \(commit)") }
  }
}
