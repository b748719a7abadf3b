import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

@Suite struct MemoryFileSystemTests {
  private func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }

  @Test func `a full file system refuses to grow, and has space again when a file goes`() throws {
    let files = MemoryFileSystem(capacity: 1_000)
    let first = try files.createFile("a")
    try first.write(zeros(600), at: 0)
    let second = try files.createFile("b")
    #expect(errorCode { () throws(EngineError) in try second.write(zeros(401), at: 0) } == .noSpace)
    #expect(try second.size() == 0)
    try second.write(zeros(400), at: 0)
    #expect(try files.freeSpace("/") == 0)
    #expect(errorCode { () throws(EngineError) in try first.truncate(to: 601) } == .noSpace)
    try first.write([1, 2, 3], at: 500)
    try first.truncate(to: 100)
    #expect(try files.freeSpace("/") == 500)
    try files.remove("b")
    #expect(try files.freeSpace("/") == 500, "the removed file is still open")
    second.close()
    #expect(try files.freeSpace("/") == 900)
  }

  @Test func `a file that grew is mapped whole once no shorter mapping is left`() throws {
    let files = MemoryFileSystem()
    let file = try files.createFile("a")
    try file.write([1], at: 0)
    do {
      let short = try file.map(size: 1)
      try file.write([2], at: 100_000)
      #expect(errorCode { () throws(EngineError) in _ = try file.map(size: 100_001) } == .invalidArgument)
      #expect(short.view(0, count: 1).bytes == [1])
    }
    let whole = try file.map(size: 100_001)
    #expect(whole.view(0, count: 1).bytes == [1])
    #expect(whole.view(100_000, count: 1).bytes == [2])
    let second = try file.map(size: 100_001)
    [7].withByteView { second.store(at: 5, bytes: $0) }
    #expect(whole.view(5, count: 1).bytes == [7])
  }

  @Test func `equivalent spellings of a path name one file`() throws {
    let files = MemoryFileSystem()
    try files.createDirectory("/db")
    try files.createFile("db//./a").write([1], at: 0)
    #expect(try files.attributes("/db/a/") == FileAttributes(isDirectory: false, size: 1))
    #expect(try files.list("/") == ["db"])
    #expect(try files.list("") == ["db"])
  }

  @Test func `a directory is not moved into itself or onto another`() throws {
    let files = MemoryFileSystem()
    try files.createDirectory("a")
    try files.createDirectory("b")
    #expect(errorCode { () throws(EngineError) in try files.rename("a", to: "a/c") } != nil)
    #expect(errorCode { () throws(EngineError) in try files.rename("a", to: "b") } == .alreadyExists)
    #expect(try files.list("/") == ["a", "b"])
  }

  @Test func `an environment in memory begins empty each time`() throws {
    let environment = EngineEnvironment.inMemory(capacity: 10)
    try environment.fileSystem.createFile("a").close()
    #expect(try environment.fileSystem.freeSpace("/") == 10)
    #expect(try EngineEnvironment.inMemory().fileSystem.list("/").isEmpty)
    #expect(environment.random() != environment.random())
  }
}
