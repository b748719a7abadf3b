import Synchronization

@testable import VarveEngine

/// An in-memory file system that counts how many tables are open, and how often they are read.
final class CountingFileSystem: FileSystem {
  fileprivate struct Counts: Sendable {
    var open = 0
    var highest = 0
    var opened = 0
    var read = 0
    var reads: [TableRead]?
    var onRead: (@Sendable () -> Void)?
  }

  private let memory = MemoryFileSystem()
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

  func createFile(_ path: String) throws(EngineError) -> any File { try memory.createFile(path) }
  func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    let file = try memory.openFile(path, writable: writable)
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

  func lock(_ path: String) throws(EngineError) -> any FileLock { try memory.lock(path) }
  func rename(_ path: String, to newPath: String) throws(EngineError) { try memory.rename(path, to: newPath) }
  func link(_ path: String, to newPath: String) throws(EngineError) { try memory.link(path, to: newPath) }
  func remove(_ path: String) throws(EngineError) { try memory.remove(path) }
  func createDirectory(_ path: String) throws(EngineError) { try memory.createDirectory(path) }
  func removeDirectory(_ path: String) throws(EngineError) { try memory.removeDirectory(path) }
  func list(_ directory: String) throws(EngineError) -> [String] { try memory.list(directory) }
  func attributes(_ path: String) throws(EngineError) -> FileAttributes? { try memory.attributes(path) }
  func syncDirectory(_ path: String) throws(EngineError) { try memory.syncDirectory(path) }
  func freeSpace(_ path: String) throws(EngineError) -> UInt64 { try memory.freeSpace(path) }
  func supportsMapping(_ path: String) -> Bool { false }
}

/// An open file. It is counted as open until it is deallocated, as long as it would hold a file descriptor.
private final class CountedFile: File {
  private let base: any File
  private let owner: CountingFileSystem

  init(_ base: any File, _ owner: CountingFileSystem) {
    self.base = base
    self.owner = owner
  }

  deinit { owner.didClose() }

  var path: String { base.path }
  func size() throws(EngineError) -> UInt64 { try base.size() }
  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(EngineError) -> Int {
    owner.didRead(path, at: offset)
    return try unsafe base.read(into: buffer, at: offset)
  }
  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError) {
    try unsafe base.write(bytes, at: offset)
  }
  func truncate(to size: UInt64) throws(EngineError) { try base.truncate(to: size) }
  func sync() throws(EngineError) { try base.sync() }
  func startWriteback(offset: UInt64, size: UInt64) {}
  func dropCachedPages(offset: UInt64, size: UInt64) {}
  func map(size: Int) throws(EngineError) -> MappedFile { try base.map(size: size) }
  func close() { base.close() }
}
