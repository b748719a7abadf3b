import Synchronization

@testable import VarveEngine

/// Files in memory, with a function that is called before each write.
///
/// Safe from any thread.
final class HookedFileSystem: FileSystem {
  /// What a write does.
  indirect enum Effect: Sendable, CustomStringConvertible {
    /// It writes all of its bytes, or the first ones, without an error.
    case whole, part(Int)
    /// It has the effect, and then throws `.noSpace`.
    case failing(Effect)

    var description: String {
      switch self {
      case .whole: "all bytes"
      case .part(let count): "\(count) bytes"
      case .failing(let effect): "\(effect) and an error"
      }
    }
  }

  /// A function that gets the path and the number of bytes.
  typealias Hook = @Sendable (String, Int) -> Effect

  private let memory = MemoryFileSystem()
  private let current = Mutex<Box?>(nil)

  private struct Box {
    let call: Hook
  }

  /// Sets the function, or removes it.
  func hook(_ hook: Hook?) { current.withLock { $0 = hook.map { Box(call: $0) } } }

  fileprivate func effect(_ path: String, _ count: Int) -> Effect {
    current.withLock { $0 }?.call(path, count) ?? .whole
  }

  func createFile(_ path: String) throws(EngineError) -> any File { HookedFile(try memory.createFile(path), self) }
  func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    HookedFile(try memory.openFile(path, writable: writable), self)
  }
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

private final class HookedFile: File {
  private let base: any File
  private let owner: HookedFileSystem

  init(_ base: any File, _ owner: HookedFileSystem) {
    self.base = base
    self.owner = owner
  }

  var path: String { base.path }
  func size() throws(EngineError) -> UInt64 { try base.size() }
  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(EngineError) -> Int {
    try unsafe base.read(into: buffer, at: offset)
  }
  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError) {
    try unsafe apply(owner.effect(base.path, bytes.count), bytes, at: offset)
  }

  private func apply(
    _ effect: HookedFileSystem.Effect, _ bytes: UnsafeRawBufferPointer, at offset: UInt64
  ) throws(EngineError) {
    switch effect {
    case .whole: try unsafe base.write(bytes, at: offset)
    case .part(let count):
      try unsafe base.write(UnsafeRawBufferPointer(rebasing: bytes.prefix(count)), at: offset)
    case .failing(let effect):
      try unsafe apply(effect, bytes, at: offset)
      throw EngineError(.noSpace, "the disk is full", file: path, offset: offset)
    }
  }

  func truncate(to size: UInt64) throws(EngineError) { try base.truncate(to: size) }
  func sync() throws(EngineError) { try base.sync() }
  func sync(first size: Int) throws(EngineError) { try base.sync(first: size) }
  func startWriteback(offset: UInt64, size: UInt64) { base.startWriteback(offset: offset, size: size) }
  func dropCachedPages(offset: UInt64, size: UInt64) { base.dropCachedPages(offset: offset, size: size) }
  func map(size: Int) throws(EngineError) -> MappedFile { try base.map(size: size) }
  func close() { base.close() }
}
