import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of a database whose directory is renamed while it is open.
struct DirectoryMoveTests {
  private static func key(_ number: Int) -> [UInt8] { Array("key \(number)".utf8) }

  private static func options() -> EngineOptions {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.logSegmentSize = 64 << 10
    return options
  }

  private static func fill(_ engine: Engine, _ range: Range<Int>) throws {
    for number in range { try engine.put(key(number), [UInt8](repeating: UInt8(number & 255), count: 100)) }
  }

  @Test func `every file is written to the directory that was opened, also after it was moved`() throws {
    let directory = try TemporaryDirectory()
    let files = PosixFileSystem()
    let (path, moved) = (directory.path + "/db", directory.path + "/moved")
    let engine = try Engine.open(at: path, options: Self.options())
    try Self.fill(engine, 0..<3_000)
    try files.rename(path, to: moved)
    try files.createDirectory(path)
    try Self.fill(engine, 3_000..<6_000)
    try engine.flush()
    try engine.compact()
    try engine.sync()
    _ = try engine.checkpoint(to: directory.path + "/copy")
    let faults = try engine.verify().faults
    #expect(faults.isEmpty, "\(faults)")
    try engine.close()
    #expect(try files.list(path) == [])
    for found in [moved, directory.path + "/copy"] {
      let again = try Engine.open(at: found, options: Self.options())
      for number in 0..<6_000 { #expect(try again.get(Self.key(number))?.first == UInt8(number & 255)) }
      try again.close()
    }
  }

  @Test func `a follower continues with the directory that it was opened with`() throws {
    let directory = try TemporaryDirectory()
    let files = PosixFileSystem()
    let (path, moved) = (directory.path + "/db", directory.path + "/moved")
    let engine = try Engine.open(at: path, options: Self.options())
    try Self.fill(engine, 0..<1_000)
    let follower = try Engine.follow(at: path)
    try files.rename(path, to: moved)
    try Self.fill(engine, 1_000..<4_000)
    try engine.flush()
    #expect(try follower.catchUp() == engine.visibleSequence)
    #expect(try follower.engine.get(Self.key(3_999)) != nil)
    try follower.close()
    try engine.close()
  }

  @Test func `an anchored file system resolves paths in its moved directory, and other paths as usual`() throws {
    let directory = try TemporaryDirectory()
    let plain = PosixFileSystem()
    let path = directory.path + "/a"
    try plain.createDirectory(path)
    let held = try plain.anchored(at: path + "/")
    try plain.rename(path, to: directory.path + "/b")
    try plain.createDirectory(path)
    try held.createFile(path + "/file").close()
    #expect(try plain.list(path) == [])
    #expect(try plain.list(directory.path + "/b") == ["file"])
    #expect(try held.list(path) == ["file"])
    #expect(try held.attributes(path)?.isDirectory == true)
    try held.rename(path + "/file", to: directory.path + "/out")
    #expect(try plain.attributes(directory.path + "/out") != nil)
    #expect(try held.list(path) == [])
    try held.link(directory.path + "/out", to: path + "//in")
    #expect(try plain.list(directory.path + "/b") == ["in"])
    #expect(try held.lock(path + "/LOCK") is PosixFileLock)
    try held.syncDirectory(path)
    #expect(try held.freeSpace(path) > 0)
    let error = #expect(throws: EngineError.self) { try held.openFile(path + "/none", writable: false) }
    #expect(error?.file == path + "/none" && error?.code == .notFound)
    try plain.removeDirectory(path)
  }
}
