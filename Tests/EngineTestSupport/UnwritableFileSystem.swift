internal import Synchronization
public import VarveEngine

/// Another file system as a process without any permission to write sees it. Each attempt fails and is counted.
///
/// Safe from any thread.
public final class UnwritableFileSystem: FileSystem {
  private let base: any FileSystem
  private let attempts = Mutex<[String]>([])

  /// Wraps `base`.
  public init(_ base: any FileSystem) { self.base = base }

  /// What was tried and refused, but for opening `SHARED`.
  public var refused: [String] { attempts.withLock { $0 } }

  private func refuse(_ what: String, _ path: String) -> EngineError {
    attempts.withLock { $0.append("\(what) \(path)") }
    return EngineError(.permissionDenied, "\(what) is not allowed", file: path)
  }

  /// Refused.
  public func createFile(_ path: String) throws(EngineError) -> any File { throw refuse("create", path) }

  /// Refused to write.
  public func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    if writable {
      // A follower asks whether it may, and continues without.
      if path.hasSuffix("/SHARED") { throw EngineError(.permissionDenied, "not writable", file: path) }
      throw refuse("open for writing", path)
    }
    return try base.openFile(path, writable: false)
  }

  /// Refused.
  public func lock(_ path: String) throws(EngineError) -> any FileLock { throw refuse("lock", path) }
  /// Refused.
  public func rename(_ path: String, to newPath: String) throws(EngineError) { throw refuse("rename", path) }
  /// Refused.
  public func link(_ path: String, to newPath: String) throws(EngineError) { throw refuse("link", path) }
  /// Refused.
  public func remove(_ path: String) throws(EngineError) { throw refuse("remove", path) }
  /// Refused.
  public func createDirectory(_ path: String) throws(EngineError) { throw refuse("create directory", path) }
  /// Refused.
  public func removeDirectory(_ path: String) throws(EngineError) { throw refuse("remove directory", path) }
  /// Of the base.
  public func list(_ directory: String) throws(EngineError) -> [String] { try base.list(directory) }
  /// Of the base.
  public func attributes(_ path: String) throws(EngineError) -> FileAttributes? { try base.attributes(path) }
  /// Refused.
  public func syncDirectory(_ path: String) throws(EngineError) { throw refuse("sync directory", path) }
  /// Of the base.
  public func freeSpace(_ path: String) throws(EngineError) -> UInt64 { try base.freeSpace(path) }
  /// Refused: the probe writes.
  public func supportsMapping(_ path: String) -> Bool {
    _ = refuse("probe", path)
    return false
  }
  /// Of the base.
  public func machineSession() -> MachineSession? { base.machineSession() }
}
