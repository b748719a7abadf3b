import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of how a follower handles bytes at the end of the log that are not a complete record, or not yet.
struct FollowTailTests {
  private static let key: [UInt8] = Array("key".utf8)

  /// The log before and after one more commit, and the bytes that the commit stored.
  private struct Step {
    let before: DirectoryImage
    let log: String
    let start: Int
    let stored: [UInt8]

    /// Creates the step of a commit of `value`; `durability` is that of the previous commit.
    init(value: [UInt8], durability: Durability = .process) throws {
      let fixture = try FollowFixture()
      let other = try fixture.writer.createFamily("other")
      try fixture.writer.put(FollowTailTests.key, [1], durability: durability)
      let image = try DirectoryImage(fixture.fileSystem)
      var batch = WriteBatch()
      try batch.put(FollowTailTests.key, value)
      try batch.put(FollowTailTests.key, value, in: other)
      try fixture.writer.write(batch)
      let after = try DirectoryImage(fixture.fileSystem)
      let changed = after.files.filter { image.files[$0.key] != $0.value }
      #expect(changed.count == 1)
      let name = try #require(changed.keys.first { $0.hasSuffix(".log") })
      let old = try #require(image.files[name])
      let new = try #require(after.files[name])
      let first = try #require(old.indices.first { old[$0] != new[$0] })
      let end = try #require(old.indices.last { old[$0] != new[$0] })
      before = image
      log = name
      start = first / 8 * 8
      stored = Array(new[start..<(end / 8 + 1) * 8])
      try fixture.writer.close()
    }

    /// Returns a follower of the state before the step, and the file system that it is on.
    func follow() throws -> (Follower, MemoryFileSystem) {
      let fileSystem = try before.makeFileSystem()
      let environment = DirectoryImage.environment(fileSystem)
      return (try Engine.follow(at: DirectoryImage.directory, environment: environment), fileSystem)
    }

    func store(_ bytes: some Sequence<UInt8>, at offset: Int, on fileSystem: MemoryFileSystem) throws {
      let file = try fileSystem.openFile(DirectoryImage.path(log), writable: true)
      defer { file.close() }
      try file.write(Array(bytes), at: UInt64(start + offset))
    }
  }

  private static func value(_ follower: Follower) throws -> [[UInt8]?] {
    let engine = follower.engine
    return [try engine.get(key), try engine.get(key, in: engine.family(named: "other"))]
  }

  @Test func `a record that is stored word by word is not read before its last word`() throws {
    let step = try Step(value: [UInt8](repeating: 7, count: 100))
    #expect(step.stored.count > 200)
    // The bytes are stored forward, and in the order of the engine, with the checksum last.
    for storesForward in [true, false] {
      let (follower, fileSystem) = try step.follow()
      // The bytes that an earlier life of the file left there are not a record either.
      try step.store([UInt8](repeating: 0xaa, count: step.stored.count), at: 0, on: fileSystem)
      let words = Array(stride(from: 0, to: step.stored.count, by: 8))
      for (index, word) in (storesForward ? words : words.reversed()).enumerated() {
        #expect(try Self.value(follower) == [[1], nil], "\(index) of \(words.count) words are stored")
        try step.store(step.stored[word..<word + 8], at: word, on: fileSystem)
        try follower.catchUp()
      }
      let value = [UInt8](repeating: 7, count: 100)
      #expect(try Self.value(follower) == [value, value])
      try follower.close()
    }
  }

  @Test func `a new follower does not read a half-written record before it is complete`() throws {
    let step = try Step(value: [UInt8](repeating: 7, count: 100))
    for size in stride(from: 8, to: step.stored.count, by: 8) {
      let (first, fileSystem) = try step.follow()
      try first.close()
      try step.store(step.stored.prefix(size), at: 0, on: fileSystem)
      let environment = DirectoryImage.environment(fileSystem)
      let follower = try Engine.follow(at: DirectoryImage.directory, environment: environment)
      #expect(try Self.value(follower) == [[1], nil], "\(size) bytes are stored")
      try step.store(step.stored, at: 0, on: fileSystem)
      try follower.catchUp()
      #expect(try Self.value(follower)[0]?.count == 100)
      try follower.close()
    }
  }

  @Test func `an edit of the MANIFEST counts once a valid record follows it`() throws {
    let fixture = try FollowFixture()
    let before = try DirectoryImage(fixture.fileSystem)
    _ = try fixture.writer.createFamily("new")
    let after = try DirectoryImage(fixture.fileSystem)
    let name = try after.only(prefix: "MANIFEST-")
    let (old, new) = (try #require(before.files[name]), try #require(after.files[name]))
    let fileSystem = try before.makeFileSystem()
    var tail = try ManifestTail(directory: DirectoryImage.directory, fileSystem: fileSystem)
    let file = try fileSystem.openFile(DirectoryImage.path(name), writable: true)
    // The edit replaced the previous mark; its own mark was written last.
    for size in stride(from: old.count - 16, to: new.count, by: 4) {
      try file.write(Array(new[..<size]), at: 0)
      #expect(try !tail.poll(), "\(size) of \(new.count) bytes")
      #expect(tail.state.family(named: "new") == nil)
    }
    var trusting = tail
    #expect(try trusting.poll(.lastEdit))
    #expect(trusting.state.family(named: "new") != nil)
    try file.write(new, at: 0)
    #expect(try tail.poll())
    #expect(tail.state.family(named: "new") != nil)
    #expect(try !tail.poll())
    try fixture.writer.close()
  }
}
