internal import CVarve

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// The operating system's files.
///
/// Files are created with mode 0600 and directories with mode 0700 (less the bits of the process's umask), and no
/// descriptor is inherited by a program that this one starts. Safe from any thread.
public struct PosixFileSystem: FileSystem {
  let calls: SystemCalls
  /// Whether files may be mapped, if the operating system's file system supports it.
  let mapsFiles: Bool
  /// The directories to which paths that begin with theirs are relative (`anchored`), the longest path first.
  var anchors: [DirectoryAnchor] = []

  /// Whether other processes see the files, which is true for all processes of the machine.
  public var isSharedWithProcesses: Bool { true }

  /// Creates access to the files of this machine. Without `mapsFiles`, an engine writes its log by `pwrite`, for
  /// directories on unusual file systems, and to measure the gain of the mapping.
  public init(mapsFiles: Bool = true) { self.init(calls: .system, mapsFiles: mapsFiles) }

  /// Creates access by other system calls, for tests of short and interrupted calls.
  init(calls: SystemCalls, mapsFiles: Bool = true) {
    self.calls = calls
    self.mapsFiles = mapsFiles
  }

  /// Creates a new file, readable and writable, with mode 0600. Throws `.alreadyExists`.
  public func createFile(_ path: String) throws(EngineError) -> any File {
    try PosixFile(path: path, descriptor: open(path, O_RDWR | O_CREAT | O_EXCL), calls: calls)
  }

  /// Opens an existing file.
  public func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    let descriptor = try open(path, writable ? O_RDWR : O_RDONLY)
    let file = PosixFile(path: path, descriptor: descriptor, calls: calls, isWritable: writable)
    // A directory can be opened for reading, and would fail only at its first read.
    var information = stat()
    guard unsafe fstat(descriptor, &information) == 0 else {
      throw SystemError.error(errno, call: "fstat", path: path)
    }
    guard information.st_mode & S_IFMT != S_IFDIR else {
      throw SystemError.error(EISDIR, call: "open", path: path)
    }
    return file
  }

  /// Takes the exclusive lock of a file, which is created if it does not exist, or throws `.locked`.
  public func lock(_ path: String) throws(EngineError) -> any FileLock { try PosixFileLock.take(path, self) }

  /// Renames a file. An existing file with the new name is replaced, atomically for every reader.
  public func rename(_ path: String, to newPath: String) throws(EngineError) {
    let (source, target) = (try resolveEntry(path), try resolveEntry(newPath))
    try change("rename to \(newPath)", path) {
      source.use { sourceDirectory, sourceName in
        target.use { unsafe renameat(sourceDirectory, sourceName, $0, $1) }
      }
    }
  }

  /// Adds a second name to a file. Throws `.alreadyExists`.
  public func link(_ path: String, to newPath: String) throws(EngineError) {
    let (source, target) = (try resolveEntry(path), try resolveEntry(newPath))
    try change("link to \(newPath)", path) {
      source.use { sourceDirectory, sourceName in
        target.use { unsafe linkat(sourceDirectory, sourceName, $0, $1, 0) }
      }
    }
  }

  /// Removes a name. An open file stays readable and writable.
  public func remove(_ path: String) throws(EngineError) {
    let entry = try resolveEntry(path)
    try change("unlink", path) { entry.use { unsafe unlinkat($0, $1, 0) } }
  }

  /// Creates a directory with mode 0700. Throws `.alreadyExists`.
  public func createDirectory(_ path: String) throws(EngineError) {
    let entry = try resolveEntry(path)
    try change("mkdir", path) { entry.use { unsafe mkdirat($0, $1, 0o700) } }
  }

  /// Removes an empty directory.
  public func removeDirectory(_ path: String) throws(EngineError) {
    let entry = try resolveEntry(path)
    try change("rmdir", path) { entry.use { unsafe unlinkat($0, $1, AT_REMOVEDIR) } }
  }

  /// Returns the names in a directory, in no particular order, without `.` and `..`.
  public func list(_ directory: String) throws(EngineError) -> [String] {
    let descriptor = try open(directory, O_RDONLY | O_DIRECTORY)
    guard let stream = unsafe fdopendir(descriptor) else {
      let number = errno
      _ = close(descriptor)
      throw SystemError.error(number, call: "fdopendir", path: directory)
    }
    defer { unsafe _ = closedir(stream) }
    var names: [String] = []
    while true {
      // `errno` is the only way to distinguish the end from an error: `readdir` returns nil for both.
      errno = 0
      guard let entry = unsafe readdir(stream) else {
        guard errno == 0 else { throw SystemError.readingError(errno, call: "readdir", path: directory) }
        return names
      }
      let name = unsafe Self.name(of: entry)
      if name != "." && name != ".." { names.append(name) }
    }
  }

  /// Returns the attributes of the file or directory at a path, or nil if none exists.
  public func attributes(_ path: String) throws(EngineError) -> FileAttributes? {
    switch try information(path) {
    case .success(let found):
      return FileAttributes(
        isDirectory: found.st_mode & S_IFMT == S_IFDIR, size: UInt64(max(0, found.st_size)),
        identity: FileIdentity(found), linkCount: UInt64(found.st_nlink))
    case .failure(let number):
      if number.value == ENOENT || number.value == ENOTDIR { return nil }
      throw SystemError.readingError(number.value, call: "stat", path: path)
    }
  }

  /// Makes the entries of a directory durable: they survive a power loss.
  public func syncDirectory(_ path: String) throws(EngineError) {
    let descriptor = try open(path, O_RDONLY | O_DIRECTORY)
    defer { _ = close(descriptor) }
    let result = calls.uninterrupted {
      #if canImport(Darwin)
        cvarve_sync_data(descriptor)
      #else
        // `fdatasync` is not enough, because the entries of a directory are part of its metadata.
        fsync(descriptor) == 0 ? 0 : -errno
      #endif
    }
    guard result == 0 else { throw SystemError.error(-result, call: "fsync", path: path) }
  }

  /// Returns the number of bytes that can still be allocated on the device of `path`.
  public func freeSpace(_ path: String) throws(EngineError) -> UInt64 { try space(path).free }

  /// Returns the size of the device of `path`, in bytes, or nil if it can't be determined.
  public func totalSpace(_ path: String) -> UInt64? { try? space(path).total }

  private func space(_ path: String) throws(EngineError) -> (free: UInt64, total: UInt64) {
    let descriptor = try open(path, O_RDONLY)
    defer { _ = close(descriptor) }
    var (free, total) = (UInt64(0), UInt64(0))
    let result = unsafe cvarve_space(descriptor, &free, &total)
    guard result == 0 else { throw SystemError.error(-result, call: "fstatvfs", path: path) }
    return (free, total)
  }
}

extension PosixFileSystem {
  /// Calls `body`, a system call that changes an entry of a directory and returns 0 or sets `errno`.
  private func change(_ name: String, _ path: String, _ body: () -> Int32) throws(EngineError) {
    try checkChange(of: path, name)
    while body() != 0 {
      let number = errno
      guard number == EINTR else { throw SystemError.error(number, call: name, path: path) }
    }
  }

  /// Throws if a test refuses the change of an entry.
  func checkChange(of path: String, _ call: String) throws(EngineError) {
    let refusal = calls.changeEntry(path)
    guard refusal == 0 else { throw SystemError.error(-refusal, call: call, path: path) }
  }

  /// Returns the name of an entry. The name is read in place, because a `dirent` in the stream's buffer is shorter
  /// than its type.
  @unsafe
  private static func name(of entry: UnsafeMutablePointer<dirent>) -> String {
    guard let offset = MemoryLayout<dirent>.offset(of: \.d_name) else { return "" }
    let start = unsafe UnsafeRawPointer(entry) + offset
    return unsafe String(cString: start.assumingMemoryBound(to: CChar.self))
  }
}
