internal import Synchronization
internal import VarveEngine

/// An open file of a `CrashFileSystem`.
final class CrashFile: File {
  let path: String
  private let fileSystem: CrashFileSystem
  private let number: Int
  private let isWritable: Bool
  private let isClosed = Atomic<Bool>(false)

  init(fileSystem: CrashFileSystem, path: String, number: Int, isWritable: Bool) {
    self.fileSystem = fileSystem
    self.path = path
    self.number = number
    self.isWritable = isWritable
  }

  deinit { close() }

  func size() throws(EngineError) -> UInt64 {
    try check("size")
    return UInt64(try fileSystem.size(number, path))
  }

  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(EngineError) -> Int {
    try check("read")
    return unsafe try fileSystem.read(number, path, into: buffer, at: try location(offset, buffer.count))
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError) {
    try check("write", forWriting: true)
    unsafe try fileSystem.write(number, path, bytes, at: try location(offset, bytes.count))
  }

  func truncate(to size: UInt64) throws(EngineError) {
    try check("truncate", forWriting: true)
    try fileSystem.truncate(number, path, to: try location(size, 0))
  }

  func sync() throws(EngineError) {
    try check("sync")
    try fileSystem.sync(number, path, first: nil)
  }

  func sync(first size: Int) throws(EngineError) {
    try check("sync")
    try fileSystem.sync(number, path, first: size)
  }

  func startWriteback(offset: UInt64, size: UInt64) {}

  func dropCachedPages(offset: UInt64, size: UInt64) {}

  func map(size: Int) throws(EngineError) -> MappedFile {
    try check("map", forWriting: true)
    return try fileSystem.map(number, path, size: size)
  }

  func close() {
    if !isClosed.exchange(true, ordering: .acquiringAndReleasing) { fileSystem.closeFile(number) }
  }

  private func check(_ call: String, forWriting: Bool = false) throws(EngineError) {
    guard !isClosed.load(ordering: .acquiring) else {
      throw EngineError(.inputOutput, "\(call) on a closed file", file: path)
    }
    guard isWritable || !forWriting else {
      throw EngineError(.inputOutput, "\(call) on a file that was opened to be read", file: path)
    }
  }

  private func location(_ offset: UInt64, _ count: Int) throws(EngineError) -> Int {
    guard let start = Int(exactly: offset), start <= Int.max / 2 - count else {
      throw EngineError(.invalidArgument, "an offset that no file can have", file: path, offset: offset)
    }
    return start
  }
}

/// An observer that turns each store through a mapping into an operation of the file system.
final class CrashStoreObserver: MappedFile.Observer {
  private let fileSystem: CrashFileSystem
  private let number: Int
  private let path: String

  init(fileSystem: CrashFileSystem, number: Int, path: String) {
    self.fileSystem = fileSystem
    self.number = number
    self.path = path
  }

  func store(_ bytes: UnsafeRawBufferPointer, at offset: Int, in mapping: MappedFile) {
    unsafe fileSystem.store(number, path, bytes, at: offset)
  }
}

/// A lock that is held on a file of a `CrashFileSystem`.
final class CrashFileLock: FileLock {
  private let fileSystem: CrashFileSystem
  private let number: Int
  private let isReleased = Atomic<Bool>(false)

  init(fileSystem: CrashFileSystem, number: Int) {
    self.fileSystem = fileSystem
    self.number = number
  }

  deinit { release() }

  func release() {
    if !isReleased.exchange(true, ordering: .acquiringAndReleasing) { fileSystem.unlock(number) }
  }
}
