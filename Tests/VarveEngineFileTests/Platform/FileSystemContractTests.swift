import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// A file system under test, with its own directory.
struct FileSystemUnderTest {
  enum Kind: String, CaseIterable, Sendable {
    case posix, posixOnTmpfs, memory, crash, faultInjecting
  }

  let fileSystem: any FileSystem
  let directory: String
  private let temporary: TemporaryDirectory?

  init(_ kind: Kind) throws(EngineError) {
    switch kind {
    case .posix:
      temporary = try TemporaryDirectory()
      fileSystem = PosixFileSystem()
    case .posixOnTmpfs:
      // If the machine has no shared memory, the ordinary directory is used instead.
      let hasSharedMemory = try PosixFileSystem().attributes("/dev/shm") != nil
      temporary = try TemporaryDirectory(below: hasSharedMemory ? "/dev/shm" : "/tmp")
      fileSystem = PosixFileSystem()
    case .memory, .crash, .faultInjecting:
      temporary = nil
      fileSystem =
        switch kind {
        case .memory: MemoryFileSystem()
        case .crash: CrashFileSystem(seed: 1)
        default: FaultInjectingFileSystem(MemoryFileSystem())
        }
      try fileSystem.createDirectory("/test")
    }
    directory = temporary?.path ?? "/test"
  }

  func path(_ name: String) -> String { "\(directory)/\(name)" }
}

/// Returns the code of the error that `body` throws, or `nil` if it throws none.
func errorCode(_ body: () throws(EngineError) -> Void) -> EngineError.Code? {
  do throws(EngineError) { try body() } catch { return error.code }
  return nil
}

extension File {
  func contents() throws(EngineError) -> [UInt8] {
    var bytes = [UInt8](repeating: 0xaa, count: Int(try size()))
    _ = try read(into: &bytes, at: 0)
    return bytes
  }
}

/// Tests of the contract of file systems, over all of them.
@Suite struct FileSystemContractTests {
  typealias Kind = FileSystemUnderTest.Kind

  @Test(arguments: Kind.allCases)
  func `bytes that were written are read back, also after a gap`(kind: Kind) throws {
    let test = try FileSystemUnderTest(kind)
    let file = try test.fileSystem.createFile(test.path("a"))
    try file.write([1, 2, 3], at: 0)
    try file.write([9], at: 10_000)
    #expect(try file.size() == 10_001)
    #expect(try file.contents() == [1, 2, 3] + [UInt8](repeating: 0, count: 9_997) + [9])
    var beyond = [UInt8](repeating: 7, count: 4)
    #expect(try file.read(into: &beyond, at: 9_999) == 2)
    #expect(beyond == [0, 9, 7, 7])
    #expect(try file.read(into: &beyond, at: 10_001) == 0)
    #expect(try file.read(into: &beyond, at: 1 << 40) == 0)
    let attributes = try #require(try test.fileSystem.attributes(test.path("a")))
    #expect(!attributes.isDirectory && attributes.size == 10_001)
  }

  @Test(arguments: Kind.allCases)
  func `random writes, cuts and reads agree with an array`(kind: Kind) throws {
    for seed in UInt64(1)...4 {
      var random = SeededRandom(seed: seed)
      let test = try FileSystemUnderTest(kind)
      let file = try test.fileSystem.createFile(test.path("random"))
      var model: [UInt8] = []
      for step in 0..<150 {
        let offset = random.below(40_000)
        let count = random.oneIn(10) ? random.below(60_000) : random.below(600)
        if random.oneIn(8) {
          try file.truncate(to: UInt64(offset))
          model = Array(model.prefix(offset)) + [UInt8](repeating: 0, count: max(0, offset - model.count))
        } else if random.oneIn(3) {
          var bytes = [UInt8](repeating: 0, count: count)
          let read = try file.read(into: &bytes, at: UInt64(offset))
          #expect(Array(bytes[..<read]) == Array(model.dropFirst(offset).prefix(count)), "seed \(seed) step \(step)")
        } else {
          let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
          try file.write(bytes, at: UInt64(offset))
          if count > 0 {
            model += [UInt8](repeating: 0, count: max(0, offset + count - model.count))
            model.replaceSubrange(offset..<offset + count, with: bytes)
          }
        }
        #expect(try file.size() == UInt64(model.count), "seed \(seed) step \(step)")
      }
      #expect(try file.contents() == model, "seed \(seed)")
    }
  }

  @Test(arguments: Kind.allCases)
  func `a file is created once, and opened only if it is there`(kind: Kind) throws {
    let test = try FileSystemUnderTest(kind)
    let path = test.path("a")
    #expect(errorCode { () throws(EngineError) in _ = try test.fileSystem.openFile(path, writable: true) } == .notFound)
    try test.fileSystem.createFile(path).write([5], at: 0)
    #expect(errorCode { () throws(EngineError) in _ = try test.fileSystem.createFile(path) } == .alreadyExists)
    #expect(try test.fileSystem.openFile(path, writable: false).contents() == [5])
    #expect(errorCode { () throws(EngineError) in _ = try test.fileSystem.createFile(test.path("no/a")) } == .notFound)
    #expect(
      errorCode { () throws(EngineError) in _ = try test.fileSystem.openFile(test.directory, writable: false) } != nil)
  }

  @Test(arguments: Kind.allCases)
  func `a file that was opened to be read is not written`(kind: Kind) throws {
    let test = try FileSystemUnderTest(kind)
    try test.fileSystem.createFile(test.path("a")).write([1, 2], at: 0)
    let file = try test.fileSystem.openFile(test.path("a"), writable: false)
    #expect(errorCode { () throws(EngineError) in try file.write([9], at: 0) } == .inputOutput)
    #expect(errorCode { () throws(EngineError) in try file.truncate(to: 0) } != nil)
    #expect(try file.contents() == [1, 2])
  }

  @Test(arguments: Kind.allCases)
  func `every call on a closed file throws`(kind: Kind) throws {
    let test = try FileSystemUnderTest(kind)
    let file = try test.fileSystem.createFile(test.path("a"))
    try file.write([1], at: 0)
    file.close()
    file.close()
    var byte: [UInt8] = [0]
    #expect(errorCode { () throws(EngineError) in _ = try file.size() } == .inputOutput)
    #expect(errorCode { () throws(EngineError) in _ = try file.read(into: &byte, at: 0) } == .inputOutput)
    #expect(errorCode { () throws(EngineError) in try file.write([1], at: 0) } == .inputOutput)
    #expect(errorCode { () throws(EngineError) in try file.truncate(to: 0) } == .inputOutput)
    #expect(errorCode { () throws(EngineError) in try file.sync() } == .inputOutput)
    #expect(errorCode { () throws(EngineError) in try file.sync(first: 1) } == .inputOutput)
    #expect(errorCode { () throws(EngineError) in _ = try file.map(size: 1) } == .inputOutput)
    file.startWriteback(offset: 0, size: 1)
    file.dropCachedPages(offset: 0, size: 1)
  }

  @Test(arguments: Kind.allCases)
  func `a sync of the first bytes works on mapped and unmapped files, and changes no content`(kind: Kind) throws {
    let test = try FileSystemUnderTest(kind)
    let file = try test.fileSystem.createFile(test.path("a"))
    var bytes = (0..<20_000).map { UInt8(truncatingIfNeeded: $0 &* 13) }
    try file.write(bytes, at: 0)
    for size in [1, 4_096, 20_000] { try file.sync(first: size) }
    if test.fileSystem.supportsMapping(test.directory) {
      let mapping = try file.map(size: 20_000)
      for offset in [5, 8_000] {
        [UInt8](repeating: 1, count: 9).withByteView { mapping.store(at: offset, bytes: $0) }
        bytes.replaceSubrange(offset..<offset + 9, with: [UInt8](repeating: 1, count: 9))
        try file.sync(first: 4_096)
      }
    }
    #expect(try file.contents() == bytes)
  }

  @Test(arguments: Kind.allCases)
  func `a rename replaces the target, and open handles still read the old file`(kind: Kind) throws {
    let test = try FileSystemUnderTest(kind)
    let old = try test.fileSystem.createFile(test.path("CURRENT"))
    try old.write([1], at: 0)
    let new = try test.fileSystem.createFile(test.path("CURRENT.tmp"))
    try new.write([2, 2], at: 0)
    try test.fileSystem.rename(test.path("CURRENT.tmp"), to: test.path("CURRENT"))
    #expect(try test.fileSystem.list(test.directory) == ["CURRENT"])
    #expect(try test.fileSystem.openFile(test.path("CURRENT"), writable: false).contents() == [2, 2])
    #expect(try old.contents() == [1])
    try new.write([3], at: 2)
    #expect(try test.fileSystem.attributes(test.path("CURRENT"))?.size == 3)
    #expect(
      errorCode { () throws(EngineError) in try test.fileSystem.rename(test.path("x"), to: test.path("y")) }
        == .notFound)
  }

  @Test(arguments: Kind.allCases)
  func `a removed file stays usable through open handles`(kind: Kind) throws {
    let test = try FileSystemUnderTest(kind)
    let file = try test.fileSystem.createFile(test.path("a"))
    try file.write([1, 2, 3], at: 0)
    try test.fileSystem.remove(test.path("a"))
    #expect(try test.fileSystem.attributes(test.path("a")) == nil)
    try file.write([4], at: 3)
    try file.sync()
    #expect(try file.contents() == [1, 2, 3, 4])
    #expect(errorCode { () throws(EngineError) in try test.fileSystem.remove(test.path("a")) } == .notFound)
    try test.fileSystem.createFile(test.path("a")).write([9], at: 0)
    #expect(try file.contents() == [1, 2, 3, 4])
  }

  @Test(arguments: Kind.allCases)
  func `a link is the same file under a second name`(kind: Kind) throws {
    let test = try FileSystemUnderTest(kind)
    let file = try test.fileSystem.createFile(test.path("a"))
    try test.fileSystem.link(test.path("a"), to: test.path("b"))
    try file.write([7], at: 0)
    try test.fileSystem.remove(test.path("a"))
    #expect(try test.fileSystem.openFile(test.path("b"), writable: false).contents() == [7])
    let again = test.path("b")
    try test.fileSystem.createFile(test.path("c")).close()
    #expect(
      errorCode { () throws(EngineError) in try test.fileSystem.link(test.path("c"), to: again) } == .alreadyExists)
    #expect(errorCode { () throws(EngineError) in try test.fileSystem.link(test.path("a"), to: again) } == .notFound)
  }

  @Test(arguments: Kind.allCases)
  func `directories nest, are listed, moved, and removed when empty`(kind: Kind) throws {
    let test = try FileSystemUnderTest(kind)
    let files = test.fileSystem
    try files.createDirectory(test.path("d"))
    #expect(errorCode { () throws(EngineError) in try files.createDirectory(test.path("d")) } == .alreadyExists)
    try files.createDirectory(test.path("d/e"))
    try files.createFile(test.path("d/e/f")).write([1], at: 0)
    try files.createFile(test.path("d/g")).close()
    #expect(try Set(files.list(test.path("d"))) == ["e", "g"])
    #expect(try files.attributes(test.path("d"))?.isDirectory == true)
    #expect(errorCode { () throws(EngineError) in try files.removeDirectory(test.path("d")) } != nil)
    #expect(errorCode { () throws(EngineError) in try files.remove(test.path("d")) } != nil)
    try files.rename(test.path("d"), to: test.path("moved"))
    #expect(try files.openFile(test.path("moved/e/f"), writable: false).contents() == [1])
    #expect(try files.attributes(test.path("d/e/f")) == nil)
    try files.syncDirectory(test.path("moved"))
    try files.remove(test.path("moved/g"))
    try files.remove(test.path("moved/e/f"))
    try files.removeDirectory(test.path("moved/e"))
    try files.removeDirectory(test.path("moved"))
    #expect(try files.list(test.directory).isEmpty)
    #expect(errorCode { () throws(EngineError) in _ = try files.list(test.path("moved")) } == .notFound)
    #expect(errorCode { () throws(EngineError) in try files.syncDirectory(test.path("moved")) } == .notFound)
  }

  @Test(arguments: Kind.allCases)
  func `a lock can be held only once, also within one process`(kind: Kind) throws {
    let test = try FileSystemUnderTest(kind)
    let path = test.path("LOCK")
    let held = try test.fileSystem.lock(path)
    for _ in 0..<2 {
      #expect(errorCode { () throws(EngineError) in _ = try test.fileSystem.lock(path) } == .locked)
    }
    #expect(try test.fileSystem.attributes(path)?.isDirectory == false)
    held.release()
    let again = try test.fileSystem.lock(path)
    held.release()
    #expect(errorCode { () throws(EngineError) in _ = try test.fileSystem.lock(path) } == .locked)
    again.release()
  }

  @Test(arguments: Kind.allCases)
  func `a lock ends with its last reference`(kind: Kind) throws {
    let test = try FileSystemUnderTest(kind)
    do { _ = try test.fileSystem.lock(test.path("LOCK")) }
    try test.fileSystem.lock(test.path("LOCK")).release()
  }

  @Test(arguments: Kind.allCases)
  func `a mapping and the file are the same bytes`(kind: Kind) throws {
    let test = try FileSystemUnderTest(kind)
    // The disk of the machine may not support mapping; files in memory always do.
    let isSupported = test.fileSystem.supportsMapping(test.directory)
    #expect(isSupported || kind == .posix || kind == .posixOnTmpfs)
    #expect(try test.fileSystem.list(test.directory).isEmpty, "the probe leaves nothing")
    let file = try test.fileSystem.createFile(test.path("000001.log"))
    // The file is written in pieces, so that a file in memory consists of several.
    for piece in 0..<20 { try file.write([UInt8](repeating: 0, count: 4_000), at: UInt64(piece * 4_000)) }
    var model = [UInt8](repeating: 0, count: 80_000)
    let mapping = try file.map(size: 80_000)
    var random = SeededRandom(seed: 3)
    for step in 0..<300 {
      let offset = random.below(79_000)
      let bytes = (0..<random.below(1_000)).map { _ in UInt8.random(in: 0...255, using: &random) }
      model.replaceSubrange(offset..<offset + bytes.count, with: bytes)
      if random.oneIn(2) {
        bytes.withByteView { mapping.store(at: offset, bytes: $0) }
        var read = [UInt8](repeating: 0, count: bytes.count)
        _ = try file.read(into: &read, at: UInt64(offset))
        #expect(read == bytes, "step \(step)")
      } else {
        try file.write(bytes, at: UInt64(offset))
        #expect(mapping.view(offset, count: bytes.count).bytes == bytes, "step \(step)")
      }
    }
    try file.sync()
    #expect(mapping.view(0, count: 80_000).bytes == model)
    #expect(try file.contents() == model)
  }

  @Test(arguments: Kind.allCases)
  func `a mapping stays where it is when the file grows, is removed and closed`(kind: Kind) throws {
    let test = try FileSystemUnderTest(kind)
    let file = try test.fileSystem.createFile(test.path("a"))
    try file.write([UInt8](repeating: 1, count: 4_096), at: 0)
    let mapping = try file.map(size: 4_096)
    try file.write([UInt8](repeating: 2, count: 1 << 20), at: 4_096)
    [3, 4].withByteView { mapping.store(at: 10, bytes: $0) }
    var read: [UInt8] = [0, 0, 0]
    _ = try file.read(into: &read, at: 10)
    #expect(read == [3, 4, 1])
    _ = try file.read(into: &read, at: 4_095)
    #expect(read == [1, 2, 2])
    try test.fileSystem.remove(test.path("a"))
    file.close()
    #expect(mapping.view(9, count: 3).bytes == [1, 3, 4])
    [5].withByteView { mapping.store(at: 4_095, bytes: $0) }
    #expect(mapping.view(4_095, count: 1).bytes == [5])
  }

  @Test(arguments: Kind.allCases)
  func `only bytes that exist are mapped`(kind: Kind) throws {
    let test = try FileSystemUnderTest(kind)
    let file = try test.fileSystem.createFile(test.path("a"))
    #expect(errorCode { () throws(EngineError) in _ = try file.map(size: 0) } == .invalidArgument)
    try file.write([1], at: 0)
    #expect(errorCode { () throws(EngineError) in _ = try file.map(size: 2) } == .invalidArgument)
    #expect(try file.map(size: 1).size == 1)
  }

  @Test(arguments: Kind.allCases)
  func `the free space is reported, and a write at an offset that no file can have is refused`(kind: Kind) throws {
    let test = try FileSystemUnderTest(kind)
    #expect(try test.fileSystem.freeSpace(test.directory) > 0)
    let file = try test.fileSystem.createFile(test.path("a"))
    #expect(errorCode { () throws(EngineError) in try file.write([1], at: .max) } == .invalidArgument)
  }
}
