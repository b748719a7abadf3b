import EngineTestSupport
import Synchronization

@testable import VarveEngine

/// An in-memory file system whose files together take at most `capacity` bytes.
///
/// A write that would take more fails with `.noSpace` and writes nothing. The size of the device is the first capacity.
/// Safe from any thread.
final class SizedFileSystem: ForwardingFileSystem {
  private struct State {
    var capacity: Int
    /// The bytes that are reported as free, or `nil` for those that are.
    var reportedFree: Int?
    var writtenBytes = 0
    var sizes: [String: Int] = [:]
    var used: Int { sizes.values.reduce(0, +) }
  }

  let base: any FileSystem = MemoryFileSystem()
  private let state: Mutex<State>

  private let size: Int

  init(capacity: Int) {
    size = capacity
    state = Mutex(State(capacity: capacity))
  }

  /// The bytes that all files take.
  var used: Int { state.withLock { $0.used } }

  /// The bytes that all files may take.
  var capacity: Int {
    get { state.withLock { $0.capacity } }
    set { state.withLock { $0.capacity = newValue } }
  }

  /// The bytes that are reported as free instead of those that are, as beyond a quota, or `nil`.
  var reportedFree: Int? {
    get { state.withLock { $0.reportedFree } }
    set { state.withLock { $0.reportedFree = newValue } }
  }

  /// The bytes that were written to tables.
  var writtenTableBytes: Int { state.withLock { $0.writtenBytes } }

  fileprivate func noteWrite(_ path: String, _ size: Int) {
    if path.hasSuffix(".sst") { state.withLock { $0.writtenBytes += size } }
  }

  fileprivate func grow(_ path: String, to size: Int) throws(EngineError) {
    let isRefused = state.withLock { state in
      let more = size - state.sizes[path, default: 0]
      guard more > 0 else { return false }
      if state.used + more > state.capacity { return true }
      state.sizes[path] = size
      return false
    }
    if isRefused { throw EngineError(.noSpace, "the disk is full", file: path) }
  }

  fileprivate func setSize(_ path: String, _ size: Int?) { state.withLock { $0.sizes[path] = size } }

  func createFile(_ path: String) throws(EngineError) -> any File {
    let file = try base.createFile(path)
    setSize(path, 0)
    return SizedFile(file, self)
  }
  func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    SizedFile(try base.openFile(path, writable: writable), self)
  }
  func rename(_ path: String, to newPath: String) throws(EngineError) {
    try base.rename(path, to: newPath)
    state.withLock { $0.sizes[newPath] = $0.sizes.removeValue(forKey: path) }
  }
  func remove(_ path: String) throws(EngineError) {
    try base.remove(path)
    setSize(path, nil)
  }
  func freeSpace(_ path: String) throws(EngineError) -> UInt64 {
    state.withLock { UInt64($0.reportedFree ?? max($0.capacity - $0.used, 0)) }
  }
  func totalSpace(_ path: String) -> UInt64? { UInt64(size) }
  func supportsMapping(_ path: String) -> Bool { false }
}

/// An open file, by the name under which it was opened. The engine renames no file that it writes to later.
private final class SizedFile: ForwardingFile {
  let base: any File
  private let owner: SizedFileSystem

  init(_ base: any File, _ owner: SizedFileSystem) {
    self.base = base
    self.owner = owner
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError) {
    try owner.grow(path, to: Int(offset) + bytes.count)
    owner.noteWrite(path, bytes.count)
    try unsafe base.write(bytes, at: offset)
  }
  func truncate(to size: UInt64) throws(EngineError) {
    try base.truncate(to: size)
    owner.setSize(path, Int(size))
  }
}
