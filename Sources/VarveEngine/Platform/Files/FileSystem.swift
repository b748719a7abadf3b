/// The interface to files, through which the engine makes every access to the disk.
///
/// The engine provides the operating system's files (`PosixFileSystem`) and files in memory (`MemoryFileSystem`). The
/// tests add a crash-simulating and a fault-injecting implementation. One contract suite runs over all of them.
///
/// # What survives a power loss
/// - The bytes of a file that were written before a `sync` began that returned without an error.
/// - A directory entry (a created, renamed, linked or removed name) once `syncDirectory` of its directory returned
///   after the change.
/// - Of everything else, any part, in pieces of 512 bytes.
///
/// What a killed process wrote, or stored through a mapping, survives in any case.
///
/// # Errors
/// Every call throws `EngineError` with the path: `.notFound`, `.alreadyExists`, `.noSpace`, `.notReadableNow` if an
/// existing file may not be opened or read, `.permissionDenied` if it may not be changed, and otherwise
/// `.inputOutput` with the number and name of the system's error. An implementation repeats interrupted calls (EINTR)
/// and completes short reads and writes.
///
/// # Concurrency
/// Safe from any thread.
public protocol FileSystem: Sendable {
  /// Creates a new file, readable and writable, with mode 0600. Throws `.alreadyExists`.
  func createFile(_ path: String) throws(EngineError) -> any File
  /// Opens an existing file.
  func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File
  /// Takes the exclusive lock of a file, which is created if it does not exist, or throws `.locked`.
  ///
  /// A second lock in the same process is refused, too. The lock ends with `FileLock.release` or with the process.
  func lock(_ path: String) throws(EngineError) -> any FileLock
  /// Renames a file. An existing file with the new name is replaced, atomically for every reader.
  func rename(_ path: String, to newPath: String) throws(EngineError)
  /// Adds a second name to a file. Throws `.alreadyExists`.
  func link(_ path: String, to newPath: String) throws(EngineError)
  /// Removes a name. An open file stays readable and writable.
  func remove(_ path: String) throws(EngineError)
  /// Creates a directory with mode 0700. Throws `.alreadyExists`.
  func createDirectory(_ path: String) throws(EngineError)
  /// Removes an empty directory.
  func removeDirectory(_ path: String) throws(EngineError)
  /// Returns the names in a directory, in no particular order, without `.` and `..`.
  func list(_ directory: String) throws(EngineError) -> [String]
  /// Returns the attributes of the file or directory at a path, or nil if none exists.
  func attributes(_ path: String) throws(EngineError) -> FileAttributes?
  /// Makes the entries of a directory durable: they survive a power loss.
  func syncDirectory(_ path: String) throws(EngineError)
  /// Syncs several of this file system's files, possibly in parallel. If one fails, nothing is known of any of them.
  func sync(_ files: [any File]) throws(EngineError)
  /// Returns the number of bytes that can still be allocated on the device of `path`.
  func freeSpace(_ path: String) throws(EngineError) -> UInt64
  /// Returns the size of the device of `path`, in bytes, or nil if it is unknown or has no meaning, as by default.
  func totalSpace(_ path: String) -> UInt64?
  /// Returns whether files below `path` are overwritten in place, so that a store to a mapping of a file whose blocks
  /// are allocated and written can neither fail for lack of space nor move the blocks. If it returns false, the log
  /// is written by `write`.
  func supportsMapping(_ path: String) -> Bool
  /// Returns this file system, with paths that begin with the directory `path` bound to the directory that is at that
  /// path now.
  ///
  /// They lead there even after the directory was renamed, and after the working directory of the process changed.
  /// Errors name the paths that the caller passed. An engine makes every access through such a file system.
  func anchored(at path: String) throws(EngineError) -> any FileSystem
  /// Returns an identity of the machine and of the time since it started, or nil if files are not shared with other
  /// processes, or not by mapping them.
  ///
  /// Processes with the same identity see at once what the others store to a mapped file, and no such store is lost
  /// as long as the identity is the same.
  func machineSession() -> MachineSession?
  /// Whether other processes see the files, so that they can read what an engine publishes there. False by default.
  var isSharedWithProcesses: Bool { get }
}

extension FileSystem {
  /// Syncs the files one after the other.
  public func sync(_ files: [any File]) throws(EngineError) {
    for file in files { try file.sync() }
  }
  /// Returns nil, so that the size of the device bounds nothing.
  public func totalSpace(_ path: String) -> UInt64? { nil }
  /// Returns the file system itself, which suits file systems without a working directory whose directories keep
  /// their paths.
  public func anchored(at path: String) throws(EngineError) -> any FileSystem { self }
  /// Returns nil, so that followers read only the log.
  public func machineSession() -> MachineSession? { nil }
  /// Whether other processes see the files. The default is false: the files belong to the process alone.
  public var isSharedWithProcesses: Bool { false }
}

/// The identity of a machine from one start to the next.
public struct MachineSession: Sendable, Hashable {
  /// The upper half of a random number of 128 bits.
  public let high: UInt64
  /// The lower half of the number.
  public let low: UInt64

  /// Creates an identity from the two halves.
  public init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }
}

/// The attributes of a file or directory.
public struct FileAttributes: Sendable, Hashable {
  /// Whether the path names a directory.
  public let isDirectory: Bool
  /// The size of the file, in bytes.
  public let size: UInt64
  /// The identity of the file or directory, or `nil` if the file system has none.
  public let identity: FileIdentity?
  /// The number of names that the file has, or `nil` if the file system does not know.
  public let linkCount: UInt64?

  /// Creates attributes.
  public init(isDirectory: Bool, size: UInt64, identity: FileIdentity? = nil, linkCount: UInt64? = nil) {
    self.isDirectory = isDirectory
    self.size = size
    self.identity = identity
    self.linkCount = linkCount
  }
}

/// Distinguishes a file or directory from one that later has its path.
///
/// A rename keeps the identity. After the last name and the last open descriptor of a file are gone, another file may
/// get its identity.
public struct FileIdentity: Sendable, Hashable {
  /// The number of the device.
  public let device: UInt64
  /// The number of the file on the device.
  public let number: UInt64

  /// Creates an identity.
  public init(device: UInt64, number: UInt64) {
    self.device = device
    self.number = number
  }
}

/// An open file, which is read and written at offsets; it has no current position.
///
/// Safe from any thread. The file is closed by `close`, or when the last reference is released.
public protocol File: AnyObject, Sendable {
  /// The path with which the file was opened, for messages.
  var path: String { get }
  /// Returns the current size of the file, in bytes.
  func size() throws(EngineError) -> UInt64
  /// Fills `buffer` from `offset`, with fewer bytes only if the file ends. Returns the number of bytes read.
  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(EngineError) -> Int
  /// Writes all of `bytes` at `offset`, extending the file if necessary.
  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError)
  /// Truncates the file, or extends it by zeros, which may not be allocated.
  func truncate(to size: UInt64) throws(EngineError)
  /// Makes the file's bytes durable, including those stored through a mapping: they survive a power loss.
  ///
  /// After an error, nothing is known of the bytes that were not synced before, and a later success does not change
  /// that.
  func sync() throws(EngineError)
  /// Syncs the first `size` bytes like `sync`; nothing is known of the others. It costs less if a file was changed at
  /// many offsets. It throws what `sync` throws, with the same meaning.
  func sync(first size: Int) throws(EngineError)
  /// Starts the write-back of a range without waiting for it. The call is a hint.
  func startWriteback(offset: UInt64, size: UInt64)
  /// Declares that a range won't be read soon. The call is a hint.
  func dropCachedPages(offset: UInt64, size: UInt64)
  /// Maps the first `size` bytes, which must exist, for reading and, if the file was opened writable, for stores.
  /// Allowed only if `FileSystem.supportsMapping` returns true.
  func map(size: Int) throws(EngineError) -> MappedFile
  /// Closes the file. Later calls throw.
  func close()
}

extension File {
  /// Syncs the whole file.
  public func sync(first size: Int) throws(EngineError) { try sync() }
}

/// A held lock of a file.
public protocol FileLock: AnyObject, Sendable {
  /// Releases the lock. A second call does nothing.
  func release()
}
