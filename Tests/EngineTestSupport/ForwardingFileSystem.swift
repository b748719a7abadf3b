public import VarveEngine

/// A file system that forwards the calls on names to another one, and itself implements what it changes.
///
/// `sync` of several files and `anchored` are not forwarded, because the files of the conforming type are not those of
/// the base.
public protocol ForwardingFileSystem: FileSystem {
  /// The wrapped file system.
  var base: any FileSystem { get }
}

extension ForwardingFileSystem {
  /// Calls the wrapped file system.
  public func createFile(_ path: String) throws(EngineError) -> any File { try base.createFile(path) }
  /// Calls the wrapped file system.
  public func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    try base.openFile(path, writable: writable)
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

/// An open file that forwards its calls to another one, and itself implements what it changes.
///
/// `sync(first:)` is not forwarded: by default it calls the conforming type's `sync`.
public protocol ForwardingFile: File {
  /// The wrapped file.
  var base: any File { get }
}

extension ForwardingFile {
  /// The path of the wrapped file.
  public var path: String { base.path }
  /// Calls the wrapped file.
  public func size() throws(EngineError) -> UInt64 { try base.size() }
  /// Calls the wrapped file.
  public func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(EngineError) -> Int {
    unsafe try base.read(into: buffer, at: offset)
  }
  /// Calls the wrapped file.
  public func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError) {
    unsafe try base.write(bytes, at: offset)
  }
  /// Calls the wrapped file.
  public func truncate(to size: UInt64) throws(EngineError) { try base.truncate(to: size) }
  /// Calls the wrapped file.
  public func sync() throws(EngineError) { try base.sync() }
  /// Calls the wrapped file.
  public func startWriteback(offset: UInt64, size: UInt64) { base.startWriteback(offset: offset, size: size) }
  /// Calls the wrapped file.
  public func dropCachedPages(offset: UInt64, size: UInt64) { base.dropCachedPages(offset: offset, size: size) }
  /// Calls the wrapped file.
  public func map(size: Int) throws(EngineError) -> MappedFile { try base.map(size: size) }
  /// Closes the wrapped file.
  public func close() { base.close() }
}
