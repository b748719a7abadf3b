import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of readers of a writer that frees segments faster than they read them.
struct FollowBusyTests {
  /// Work of the writer before each call of a reader.
  private final class Work: @unchecked Sendable {
    // Sendable: used by the thread of the test alone.
    let writer: FollowedWriter
    var failure: (any Error)?
    /// The number of calls before which the writer still works.
    var rest: Int
    /// The greatest number of segments that were kept for readers alone.
    var keptCount = 0

    init(_ writer: FollowedWriter, callCount: Int) {
      self.writer = writer
      rest = callCount
    }

    func interrupt(_ files: FaultInjectingFileSystem) {
      files.interrupt(afterCalls: 0) { [self] in
        guard rest > 0, failure == nil else { return }
        rest -= 1
        do { try writer.cycle() } catch { failure = error }
        keptCount = max(keptCount, writer.segmentCountForReaders)
        interrupt(files)
      }
    }
  }

  private static func makeWriter(
    isNotified: Bool = true, on fileSystem: any FileSystem = MemoryFileSystem(), at path: String = "/db"
  ) throws -> FollowedWriter {
    let writer = try FollowedWriter(isNotified: isNotified, on: fileSystem, at: path)
    for _ in 0..<3 { try writer.cycle() }
    return writer
  }

  @Test func `a reader that lost its position twice keeps segments until its step ends`() throws {
    let writer = try Self.makeWriter()
    writer.writer.core.pipeline.log.heldBytesMaximum = .max
    let files = writer.makeReaderFiles()
    let follower = try writer.fixture.follow(files)
    for _ in 0..<3 { try writer.cycle() }
    let work = Work(writer, callCount: 100)
    work.interrupt(files)
    try follower.catchUp()
    files.interruptNever()
    #expect(work.failure == nil && work.rest == 0)
    #expect(work.keptCount > 10)
    let fault = try writer.fault(follower.engine)
    #expect(fault == nil)
    // What was kept is freed a second later, also if nothing is written.
    #expect(writer.segmentCountForReaders > 0)
    writer.fixture.executor.clock.advance(1_000_000_000)
    writer.fixture.executor.runAll()
    #expect(writer.segmentCountForReaders == 0)
    try follower.close()
    try writer.writer.close()
  }

  @Test func `a reader that may not write to the page throws busy, and keeps its state`() throws {
    // Only pages of real files can be mapped without write permission.
    let directory = try TemporaryDirectory()
    let writer = try Self.makeWriter(on: PosixFileSystem(), at: directory.path + "/db")
    let files = writer.makeReaderFiles()
    let follower = try writer.fixture.follow(UnwritableFileSystem(files))
    let before = follower.engine.visibleSequence
    for _ in 0..<3 { try writer.cycle() }
    let work = Work(writer, callCount: .max)
    work.interrupt(files)
    let error = #expect(throws: EngineError.self) { try follower.catchUp() }
    files.interruptNever()
    #expect(error?.code == .busy)
    #expect(error?.message.contains("no write permission for SHARED") ?? false)
    #expect(work.failure == nil && work.keptCount == 0)
    #expect(follower.engine.visibleSequence == before)
    var fault = try writer.fault(follower.engine)
    #expect(fault == nil)
    try follower.catchUp()
    #expect(follower.engine.visibleSequence == writer.history.lastSequence)
    fault = try writer.fault(follower.engine)
    #expect(fault == nil)
    try follower.close()
    try writer.writer.close()
  }

  @Test func `a reader of a log without a page throws busy, and opens when the writer rests`() throws {
    let writer = try Self.makeWriter(isNotified: false)
    let files = writer.makeReaderFiles()
    let work = Work(writer, callCount: .max)
    work.interrupt(files)
    let error = #expect(throws: EngineError.self) { try writer.fixture.follow(files) }
    files.interruptNever()
    #expect(error?.code == .busy)
    let follower = try writer.fixture.follow(files)
    let fault = try writer.fault(follower.engine)
    #expect(fault == nil)
    try follower.close()
    try writer.writer.close()
  }

  @Test func `a reader costs a writer at most the bound of the log, and ten seconds`() throws {
    let writer = try Self.makeWriter()
    let page = try #require(try SharedPage.open(at: writer.path + "/SHARED", writer.makeReaderFiles()))
    let log = writer.writer.core.pipeline.log
    let kept = try #require(page.keepSegments(namespace: ProcessIdentity.namespace))
    // The bound: segments are kept up to it.
    try writer.cycle()
    #expect(writer.segmentCountForReaders > 0)
    for _ in 0..<10 { try writer.cycle() }
    #expect(writer.segmentCountForReaders * (64 << 10) <= log.heldBytesMaximum + (256 << 10))
    // The time: nothing is kept afterwards.
    log.heldBytesMaximum = .max
    let again = try #require(page.keepSegments(namespace: ProcessIdentity.namespace))
    for _ in 0..<3 { try writer.cycle() }
    #expect(writer.segmentCountForReaders > 0)
    writer.fixture.executor.clock.advance(ReaderPins.honouredNanoseconds)
    try writer.cycle()
    #expect(writer.segmentCountForReaders == 0)
    withExtendedLifetime((kept, again)) {}
    try writer.writer.close()
  }

  @Test func `a commit is not delayed, and the bound of the log holds, while a reader keeps segments`() throws {
    let writer = try Self.makeWriter()
    let log = writer.writer.core.pipeline.log
    log.heldBytesMaximum = .max
    let page = try #require(try SharedPage.open(at: writer.path + "/SHARED", writer.makeReaderFiles()))
    let kept = page.keepSegments(namespace: ProcessIdentity.namespace)
    for _ in 0..<8 {
      try writer.cycle()
      #expect(log.neededBytes <= writer.logBytes + (256 << 10))
    }
    #expect(writer.segmentCountForReaders > 8)
    withExtendedLifetime(kept) {}
    try writer.writer.close()
  }
}
