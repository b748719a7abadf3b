import EngineTestSupport
import Synchronization

@testable import VarveEngine

/// An in-memory file system that counts how many tables are open, and how often they are read.
final class CountingFileSystem: ForwardingFileSystem {
  fileprivate struct Counts: Sendable {
    var open = 0
    var highest = 0
    var opened = 0
    var read = 0
    var reads: [TableRead]?
    var onRead: (@Sendable () -> Void)?
  }

  let base: any FileSystem = MemoryFileSystem()
  private let counts = Mutex(Counts())

  /// The number of tables whose file is open.
  var openCount: Int { counts.withLock { $0.open } }
  /// The greatest number of tables that were open at the same time.
  var highestCount: Int { counts.withLock { $0.highest } }
  /// The number of times that a table was opened.
  var openedCount: Int { counts.withLock { $0.opened } }

  /// A read of a table's file.
  struct TableRead: Sendable {
    let path: String
    let offset: UInt64
  }

  /// Forgets the reads so far, and keeps those that follow.
  func recordReads() { counts.withLock { $0.reads = [] } }

  /// The reads since `recordReads`.
  var reads: [TableRead] { counts.withLock { $0.reads ?? [] } }

  /// The number of reads of tables' files.
  var readCount: Int { counts.withLock { $0.read } }

  func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    let file = try base.openFile(path, writable: writable)
    guard path.hasSuffix(".sst") else { return file }
    counts.withLock { counts in
      counts.open += 1
      counts.opened += 1
      counts.highest = max(counts.highest, counts.open)
    }
    return CountedFile(file, self)
  }
  fileprivate func didClose() { counts.withLock { $0.open -= 1 } }
  fileprivate func didRead(_ path: String, at offset: UInt64) {
    let onRead = counts.withLock { counts in
      counts.read += 1
      counts.reads?.append(TableRead(path: path, offset: offset))
      return counts.onRead
    }
    onRead?()
  }

  /// Sets a function that is called before each read of a table's file, on the reading thread.
  func onRead(_ body: (@Sendable () -> Void)?) { counts.withLock { $0.onRead = body } }

  func supportsMapping(_ path: String) -> Bool { false }
}

/// An open file. It is counted as open until it is deallocated, as long as it would hold a file descriptor.
private final class CountedFile: ForwardingFile {
  let base: any File
  private let owner: CountingFileSystem

  init(_ base: any File, _ owner: CountingFileSystem) {
    self.base = base
    self.owner = owner
  }

  deinit { owner.didClose() }

  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(EngineError) -> Int {
    owner.didRead(path, at: offset)
    return try unsafe base.read(into: buffer, at: offset)
  }
}
