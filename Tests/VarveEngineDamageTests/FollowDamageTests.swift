import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of damage in the log and in the MANIFEST that a follower meets.
struct FollowDamageTests {
  private static let key: [UInt8] = Array("key".utf8)

  @Test func `unreadable bytes below a durable mark are damage`() throws {
    let fixture = try FollowFixture()
    try fixture.writer.put(Self.key, [1])
    let before = try DirectoryImage(fixture.fileSystem)
    try fixture.writer.put(Self.key, [2])
    try fixture.writer.sync()
    // The record of this put contains the durable mark.
    try fixture.writer.put(Self.key, [3])
    let after = try DirectoryImage(fixture.fileSystem)
    let log = try #require(after.names(suffix: ".log").first { after.files[$0] != before.files[$0] })
    let (old, new) = (try #require(before.files[log]), try #require(after.files[log]))
    let start = try #require(old.indices.first { old[$0] != new[$0] })
    let fileSystem = try before.makeFileSystem()
    let follower = try Engine.follow(
      at: DirectoryImage.directory, environment: DirectoryImage.environment(fileSystem))
    var damaged = new
    damaged[start + 24] ^= 1
    let file = try fileSystem.openFile(DirectoryImage.path(log), writable: true)
    try file.write(damaged, at: 0)
    // Opening stopped at this offset; the next attempt distinguishes damage from a record that is being written.
    let error = #expect(throws: EngineError.self) { try follower.catchUp() }
    #expect(error?.code == .corruption)
    #expect(error?.file == DirectoryImage.path(log))
    #expect(error?.offset == UInt64(start / 8 * 8))
    #expect(try follower.engine.get(Self.key) == [1])
    try file.write(new, at: 0)
    try follower.catchUp()
    #expect(try follower.engine.get(Self.key) == [3])
    try follower.close()
    try fixture.writer.close()
  }

  @Test func `a damaged edit before a valid one is damage`() throws {
    let fixture = try FollowFixture()
    let before = try DirectoryImage(fixture.fileSystem)
    let name = try before.only(prefix: "MANIFEST-")
    _ = try fixture.writer.createFamily("new")
    _ = try fixture.writer.createFamily("newer")
    var bytes = try #require(try DirectoryImage(fixture.fileSystem).files[name])
    let fileSystem = try before.makeFileSystem()
    var tail = try ManifestTail(directory: DirectoryImage.directory, fileSystem: fileSystem)
    bytes[try #require(before.files[name]).count + 8] ^= 1
    let file = try fileSystem.openFile(DirectoryImage.path(name), writable: true)
    try file.write(bytes, at: 0)
    let error = #expect(throws: EngineError.self) { try tail.poll() }
    #expect(error?.code == .corruption)
    #expect(error?.file == DirectoryImage.path(name))
    try fixture.writer.close()
  }
}
