internal import Synchronization
public import VarveEngine

/// A file system as it appears to a process without any write permission. Each attempt to write fails and is counted.
///
/// Safe from any thread.
public final class UnwritableFileSystem: ForwardingFileSystem {
  /// The wrapped file system.
  public let base: any FileSystem
  private let attempts = Mutex<[String]>([])

  /// Wraps `base`.
  public init(_ base: any FileSystem) { self.base = base }

  /// The calls that were refused, except for attempts to open `SHARED`.
  public var refused: [String] { attempts.withLock { $0 } }

  private func refuse(_ what: String, _ path: String) -> EngineError {
    attempts.withLock { $0.append("\(what) \(path)") }
    return EngineError(.permissionDenied, "\(what) is not allowed", file: path)
  }

  /// Throws `.permissionDenied`.
  public func createFile(_ path: String) throws(EngineError) -> any File { throw refuse("create", path) }

  /// Opens a file to read; throws `.permissionDenied` if `writable` is true.
  public func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    if writable {
      // A follower tries to open this file for writing, and continues without it.
      if path.hasSuffix("/SHARED") { throw EngineError(.permissionDenied, "not writable", file: path) }
      throw refuse("open for writing", path)
    }
    return try base.openFile(path, writable: false)
  }

  /// Throws `.permissionDenied`.
  public func lock(_ path: String) throws(EngineError) -> any FileLock { throw refuse("lock", path) }
  /// Throws `.permissionDenied`.
  public func rename(_ path: String, to newPath: String) throws(EngineError) { throw refuse("rename", path) }
  /// Throws `.permissionDenied`.
  public func link(_ path: String, to newPath: String) throws(EngineError) { throw refuse("link", path) }
  /// Throws `.permissionDenied`.
  public func remove(_ path: String) throws(EngineError) { throw refuse("remove", path) }
  /// Throws `.permissionDenied`.
  public func createDirectory(_ path: String) throws(EngineError) { throw refuse("create directory", path) }
  /// Throws `.permissionDenied`.
  public func removeDirectory(_ path: String) throws(EngineError) { throw refuse("remove directory", path) }
  /// Throws `.permissionDenied`.
  public func syncDirectory(_ path: String) throws(EngineError) { throw refuse("sync directory", path) }
  /// Returns false, and counts the attempt: the probe writes.
  public func supportsMapping(_ path: String) -> Bool {
    _ = refuse("probe", path)
    return false
  }
}
