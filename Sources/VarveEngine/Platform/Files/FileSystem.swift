/// The interface to files: everything that the engine does on disk goes through here.
///
/// The engine comes with the operating system's (`PosixFileSystem`) and with one in memory
/// (`MemoryFileSystem`); the tests add a crash-simulating and a fault-injecting one. One contract
/// suite runs over all of them.
///
/// # What survives a loss of power
/// - the bytes of a file that were there when `sync` began and it returned without an error;
/// - a directory entry (a created, renamed, linked or removed name) once `syncDirectory` of its
///   directory returned after it;
/// - of everything else any part, in pieces of 512 bytes.
///
/// What a killed process wrote, or stored through a mapping, survives it in any case.
///
/// # Errors
/// Every call throws `EngineError` with the path: `.notFound`, `.alreadyExists`, `.noSpace`,
/// `.notReadableNow` where something that is there may not be opened or read, `.permissionDenied` where it may not be changed, otherwise `.inputOutput` with the number and name of the system's error.
/// Interrupted calls (EINTR) are repeated and short reads and writes completed inside.
///
/// # Concurrency
/// Safe from any thread.
public protocol FileSystem: Sendable {
  /// Makes a new file, readable and writable, mode 0600. Throws `.alreadyExists`.
  func createFile(_ path: String) throws(EngineError) -> any File
  /// Opens a file that exists.
  func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File
  /// Takes the exclusive lock of a file, which is made if it is missing, or throws `.locked`. A second
  /// lock in the same process is refused, too. The lock ends with `FileLock.release` or the process.
  func lock(_ path: String) throws(EngineError) -> any FileLock
  /// Gives a file another name; a file that has the new name is replaced, at once for every reader.
  func rename(_ path: String, to newPath: String) throws(EngineError)
  /// Gives a file a second name. Throws `.alreadyExists`.
  func link(_ path: String, to newPath: String) throws(EngineError)
  /// Removes a name. An open file stays readable and writable.
  func remove(_ path: String) throws(EngineError)
  /// Makes a directory, mode 0700. Throws `.alreadyExists`.
  func createDirectory(_ path: String) throws(EngineError)
  /// Removes an empty directory.
  func removeDirectory(_ path: String) throws(EngineError)
  /// The names in a directory, in no order, without `.` and `..`.
  func list(_ directory: String) throws(EngineError) -> [String]
  /// Returns the attributes of the file or directory at a path; nil if none exists.
  func attributes(_ path: String) throws(EngineError) -> FileAttributes?
  /// Makes the entries of a directory survive a loss of power.
  func syncDirectory(_ path: String) throws(EngineError)
  /// `File.sync` of several of this file system's files, perhaps side by side. Where one fails nothing is known
  /// of any.
  func sync(_ files: [any File]) throws(EngineError)
  /// How many bytes can still be allocated where `path` is.
  func freeSpace(_ path: String) throws(EngineError) -> UInt64
  /// Whether files below `path` are overwritten in place, so that a mapping of a file whose blocks are
  /// allocated and written can neither fail for lack of space nor move. Where false the log is written
  /// by `write`.
  func supportsMapping(_ path: String) -> Bool
  /// This file system, in which paths that begin with `path`, a directory, lead to the directory that is there now: also
  /// after it was renamed, and after the working directory of the process changed. Errors name the paths that were
  /// given. An engine does everything through such a file system.
  func anchored(at path: String) throws(EngineError) -> any FileSystem
  /// Names the machine, and the time since it started: processes with the same answer see at once what the
  /// others store to a mapped file, and nothing that they stored is lost as long as the answer is the same. Nil
  /// where files are not shared with other processes, or not by mapping them.
  func machineSession() -> MachineSession?
  /// Whether other processes see the files, so that what an engine publishes there can be read. False
  /// unless a file system says otherwise.
  var isSharedWithProcesses: Bool { get }
}

extension FileSystem {
  /// One after the other.
  public func sync(_ files: [any File]) throws(EngineError) {
    for file in files { try file.sync() }
  }
  /// The file system itself: for those that have no working directory, and whose directories keep their paths.
  public func anchored(at path: String) throws(EngineError) -> any FileSystem { self }
  /// Nil: followers read the log alone.
  public func machineSession() -> MachineSession? { nil }
  /// What a file system says that doesn't say anything: its files are the process's own.
  public var isSharedWithProcesses: Bool { false }
}

/// A machine from one start to the next.
public struct MachineSession: Sendable, Hashable {
  /// A random number of 128 bits, in two halves.
  public let high: UInt64
  /// The other half.
  public let low: UInt64

  /// Puts the number together.
  public init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }
}

/// What is at a path.
public struct FileAttributes: Sendable, Hashable {
  /// Whether it is a directory.
  public let isDirectory: Bool
  /// The bytes of the file.
  public let size: UInt64

  /// Describes a file or directory.
  public init(isDirectory: Bool, size: UInt64) {
    self.isDirectory = isDirectory
    self.size = size
  }
}

/// An open file, read and written at offsets; there is no position.
///
/// Safe from any thread. It is closed by `close`, or when the last reference goes.
public protocol File: AnyObject, Sendable {
  /// The path that it was opened by, for messages.
  var path: String { get }
  /// The bytes in the file now.
  func size() throws(EngineError) -> UInt64
  /// Fills `buffer` from `offset`; fewer bytes than asked only where the file ends. Returns how many.
  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(EngineError) -> Int
  /// Writes all of `bytes` at `offset`, growing the file where needed.
  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(EngineError)
  /// Cuts or extends (by zeros, perhaps not allocated) the file.
  func truncate(to size: UInt64) throws(EngineError)
  /// Makes the file's bytes survive a loss of power, those stored through a mapping included. After
  /// an error nothing is known of bytes not synced before, and a later success says nothing of them.
  func sync() throws(EngineError)
  /// `sync` of the first `size` bytes; of the others nothing is known. Costs less where a file was changed in
  /// many places. Throws, and means, what `sync` does.
  func sync(first size: Int) throws(EngineError)
  /// Starts writing a range back without waiting; a hint.
  func startWriteback(offset: UInt64, size: UInt64)
  /// Says that a range won't be read soon; a hint.
  func dropCachedPages(offset: UInt64, size: UInt64)
  /// Maps the first `size` bytes, which must exist, to be read and, where the file was opened writable, stored
  /// to. Only where `FileSystem.supportsMapping`.
  func map(size: Int) throws(EngineError) -> MappedFile
  /// Gives the file back. A later call on it throws.
  func close()
}

extension File {
  /// The whole file.
  public func sync(first size: Int) throws(EngineError) { try sync() }
}

/// A held lock of a file.
public protocol FileLock: AnyObject, Sendable {
  /// Gives the lock back; the second call does nothing.
  func release()
}
