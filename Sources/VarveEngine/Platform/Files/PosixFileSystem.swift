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
/// Files are made 0600 and directories 0700 (less what the process's umask takes away), and no
/// descriptor is inherited by a program that this one starts.
///
/// Safe from any thread.
public struct PosixFileSystem: FileSystem {
  let calls: SystemCalls
  /// Whether files may be mapped, where the system's own file system is one for it.
  let mapsFiles: Bool
  /// The directories that paths are relative to which begin with theirs (`anchored`), the longest path first.
  var anchors: [DirectoryAnchor] = []

  /// Files of the machine are seen by all its processes.
  public var isSharedWithProcesses: Bool { true }

  /// The files of this machine. Without `mapsFiles` an engine writes its log by `pwrite`: for directories
  /// that lie on something unusual, and to measure what the mapping gains.
  public init(mapsFiles: Bool = true) { self.init(calls: .system, mapsFiles: mapsFiles) }

  /// The same over other system calls, for tests of what is done about short and interrupted ones.
  init(calls: SystemCalls, mapsFiles: Bool = true) {
    self.calls = calls
    self.mapsFiles = mapsFiles
  }

  /// Makes a new file, readable and writable, mode 0600. Throws `.alreadyExists`.
  public func createFile(_ path: String) throws(EngineError) -> any File {
    try PosixFile(path: path, descriptor: open(path, O_RDWR | O_CREAT | O_EXCL), calls: calls)
  }

  /// Opens a file that exists.
  public func openFile(_ path: String, writable: Bool) throws(EngineError) -> any File {
    let descriptor = try open(path, writable ? O_RDWR : O_RDONLY)
    let file = PosixFile(path: path, descriptor: descriptor, calls: calls, isWritable: writable)
    // A directory can be opened for reading, and would fail at its first read only.
    var information = stat()
    guard unsafe fstat(descriptor, &information) == 0 else {
      throw SystemError.error(errno, call: "fstat", path: path)
    }
    guard information.st_mode & S_IFMT != S_IFDIR else {
      throw SystemError.error(EISDIR, call: "open", path: path)
    }
    return file
  }

  /// Takes the exclusive lock of a file, which is made if it is missing, or throws `.locked`.
  public func lock(_ path: String) throws(EngineError) -> any FileLock { try PosixFileLock.take(path, self) }

  /// Gives a file another name; a file that has the new name is replaced, at once for every reader.
  public func rename(_ path: String, to newPath: String) throws(EngineError) {
    let (source, target) = (try resolveEntry(path), try resolveEntry(newPath))
    try Self.call("rename to \(newPath)", path) {
      source.use { sourceDirectory, sourceName in
        target.use { unsafe renameat(sourceDirectory, sourceName, $0, $1) }
      }
    }
  }

  /// Gives a file a second name. Throws `.alreadyExists`.
  public func link(_ path: String, to newPath: String) throws(EngineError) {
    let (source, target) = (try resolveEntry(path), try resolveEntry(newPath))
    try Self.call("link to \(newPath)", path) {
      source.use { sourceDirectory, sourceName in
        target.use { unsafe linkat(sourceDirectory, sourceName, $0, $1, 0) }
      }
    }
  }

  /// Removes a name. An open file stays readable and writable.
  public func remove(_ path: String) throws(EngineError) {
    let entry = try resolveEntry(path)
    try Self.call("unlink", path) { entry.use { unsafe unlinkat($0, $1, 0) } }
  }

  /// Makes a directory, mode 0700. Throws `.alreadyExists`.
  public func createDirectory(_ path: String) throws(EngineError) {
    let entry = try resolveEntry(path)
    try Self.call("mkdir", path) { entry.use { unsafe mkdirat($0, $1, 0o700) } }
  }

  /// Removes an empty directory.
  public func removeDirectory(_ path: String) throws(EngineError) {
    let entry = try resolveEntry(path)
    try Self.call("rmdir", path) { entry.use { unsafe unlinkat($0, $1, AT_REMOVEDIR) } }
  }

  /// The names in a directory, in no order, without `.` and `..`.
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
      // The only way to distinguish the end from an error: both return nil.
      errno = 0
      guard let entry = unsafe readdir(stream) else {
        guard errno == 0 else { throw SystemError.readingError(errno, call: "readdir", path: directory) }
        return names
      }
      let name = unsafe Self.name(of: entry)
      if name != "." && name != ".." { names.append(name) }
    }
  }

  /// Returns the attributes of the file or directory at a path; nil if none exists.
  public func attributes(_ path: String) throws(EngineError) -> FileAttributes? {
    switch try information(path) {
    case .success(let found):
      return FileAttributes(isDirectory: found.st_mode & S_IFMT == S_IFDIR, size: UInt64(max(0, found.st_size)))
    case .failure(let number):
      if number.value == ENOENT || number.value == ENOTDIR { return nil }
      throw SystemError.readingError(number.value, call: "stat", path: path)
    }
  }

  /// Makes the entries of a directory survive a loss of power.
  public func syncDirectory(_ path: String) throws(EngineError) {
    let descriptor = try open(path, O_RDONLY | O_DIRECTORY)
    defer { _ = close(descriptor) }
    let result = calls.uninterrupted {
      #if canImport(Darwin)
        cvarve_sync_data(descriptor)
      #else
        // Not fdatasync: the entries of a directory are what its metadata says.
        fsync(descriptor) == 0 ? 0 : -errno
      #endif
    }
    guard result == 0 else { throw SystemError.error(-result, call: "fsync", path: path) }
  }

  /// How many bytes can still be allocated where `path` is.
  public func freeSpace(_ path: String) throws(EngineError) -> UInt64 {
    let descriptor = try open(path, O_RDONLY)
    defer { _ = close(descriptor) }
    var bytes: UInt64 = 0
    let result = unsafe cvarve_free_space(descriptor, &bytes)
    guard result == 0 else { throw SystemError.error(-result, call: "fstatvfs", path: path) }
    return bytes
  }
}

extension PosixFileSystem {
  /// Runs a call that returns 0 or sets `errno`.
  private static func call(
    _ name: String, _ path: String, _ body: () -> Int32
  ) throws(EngineError) {
    while body() != 0 {
      let number = errno
      guard number == EINTR else { throw SystemError.error(number, call: name, path: path) }
    }
  }

  /// The name is read where it lies: a `dirent` is shorter in the stream's buffer than its type says.
  @unsafe
  private static func name(of entry: UnsafeMutablePointer<dirent>) -> String {
    guard let offset = MemoryLayout<dirent>.offset(of: \.d_name) else { return "" }
    let start = unsafe UnsafeRawPointer(entry) + offset
    return unsafe String(cString: start.assumingMemoryBound(to: CChar.self))
  }
}
