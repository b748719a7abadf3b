public import VarveEngine

/// A file system that forwards to another one and whose syncs pass a gate: while it is shut, a thread that syncs
/// waits.
///
/// Safe from any thread.
public final class GatedFileSystem: FileSystem {
  private let base: any FileSystem
  /// The gate that syncs of files pass.
  public let syncs = Gate()

  /// Wraps `base`. The gate is open.
  public init(_ base: any FileSystem) { self.base = base }

  private func wrap(_ file: any File) -> any File { GatedFile(file, syncs) }

  /// Calls the wrapped file system.
  public func createFile(_ path: String) throws(EngineError) -> any File { wrap(try base.createFile(path)) }
  /// Calls the wrapped file system.
  public func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    wrap(try base.openFile(path, writable: writable))
  }
  /// Calls the wrapped file system.
  public func lock(_ path: String) throws(EngineError) -> any FileLock { try base.lock(path) }
  /// Calls the wrapped file system.
  public func rename(_ path: String, to newPath: String) throws(EngineError) { try base.rename(path, to: newPath) }
  /// Calls the wrapped file system.
  public func link(_ path: String, to newPath: String) throws(EngineError) { try base.link(path, to: newPath) }
  /// Calls the wrapped file system.
  public func remove(_ path: String) throws(EngineError) { try base.remove(path) }
  /// Calls the wrapped file system.
  public func createDirectory(_ path: String) throws(EngineError) { try base.createDirectory(path) }
  /// Calls the wrapped file system.
  public func removeDirectory(_ path: String) throws(EngineError) { try base.removeDirectory(path) }
  /// Calls the wrapped file system.
  public func list(_ directory: String) throws(EngineError) -> [String] { try base.list(directory) }
  /// Calls the wrapped file system.
  public func attributes(_ path: String) throws(EngineError) -> FileAttributes? { try base.attributes(path) }
  /// Calls the wrapped file system.
  public func syncDirectory(_ path: String) throws(EngineError) { try base.syncDirectory(path) }
  /// Calls the wrapped file system.
  public func freeSpace(_ path: String) throws(EngineError) -> UInt64 { try base.freeSpace(path) }
  /// The size of the device.
  public func totalSpace(_ path: String) -> UInt64? { base.totalSpace(path) }
  /// Calls the wrapped file system.
  public func supportsMapping(_ path: String) -> Bool { base.supportsMapping(path) }
  /// Calls the wrapped file system.
  public func machineSession() -> MachineSession? { base.machineSession() }
}

/// An open file whose syncs pass the gate.
private final class GatedFile: File {
  private let base: any File
  private let gate: Gate

  init(_ base: any File, _ gate: Gate) {
    self.base = base
    self.gate = gate
  }

  var path: String { base.path }
  func size() throws(EngineError) -> UInt64 { try base.size() }
  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(EngineError) -> Int {
    unsafe try base.read(into: buffer, at: offset)
  }
  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError) {
    unsafe try base.write(bytes, at: offset)
  }
  func truncate(to size: UInt64) throws(EngineError) { try base.truncate(to: size) }
  func sync() throws(EngineError) {
    gate.pass()
    try base.sync()
  }
  func sync(first size: Int) throws(EngineError) {
    gate.pass()
    try base.sync(first: size)
  }
  func startWriteback(offset: UInt64, size: UInt64) { base.startWriteback(offset: offset, size: size) }
  func dropCachedPages(offset: UInt64, size: UInt64) { base.dropCachedPages(offset: offset, size: size) }
  func map(size: Int) throws(EngineError) -> MappedFile { try base.map(size: size) }
  func close() { base.close() }
}
