import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of what the cursor of a follower reports about the segment that it reads.
struct LogTailTests {
  @Test func `a reader of a segment detects that its file was reused under the same name`() throws {
    let fileSystem = MemoryFileSystem()
    let harness = try LogHarness(on: fileSystem)
    try harness.append()
    let number = harness.writer.currentNumber
    let path = LogHarness.directory + "/" + FileName.log(number).name
    var tail = LogTail(directory: LogHarness.directory, fileSystem: fileSystem)
    let hasBegun = try tail.begin(at: number)
    #expect(hasBegun)
    let first = try tail.record(before: nil)?.header.sequence
    #expect(first == SequenceNumber(1))
    let isItself = try tail.isInPlace()
    #expect(isItself)

    // The same file in its next life.
    let file = try fileSystem.openFile(path, writable: true)
    defer { file.close() }
    let noted = tail.lifeID
    let life = try #require(noted)
    var header = ByteWriter(capacity: LogFormat.headerBlockSize)
    LogSegmentHeader(number: number, lifeID: life ^ 1, predecessor: nil, capacity: 16 << 10, databaseID: 99)
      .encode(into: &header)
    try file.write(header.view.bytes, at: 0)
    let isAnother = try !tail.isInPlace()
    #expect(isAnother)

    // The file while it is being created again.
    try file.write([UInt8](repeating: 0, count: LogFormat.headerBlockSize), at: 0)
    let isNone = try !tail.isInPlace()
    #expect(isNone)

    try fileSystem.remove(path)
    let isGone = try !tail.isInPlace()
    #expect(isGone)
  }
}
