#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// Files by which processes of one user talk to each other.
extension PosixFileSystem {
  /// Reads a file that another process has written.
  ///
  /// Throws `.permissionDenied` unless it is a regular file with one name that only this user, or the system's
  /// administrator, can have written: a process acts for no one else. Throws `.corruption` if it is larger than
  /// `limit`.
  func readOwn(_ path: String, limit: Int) throws(EngineError) -> [UInt8] {
    // A symbolic link is not followed, and a pipe is not waited for.
    let descriptor = try open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    let file = PosixFile(path: path, descriptor: descriptor, calls: calls, isWritable: false)
    defer { file.close() }
    var found = stat()
    guard unsafe fstat(descriptor, &found) == 0 else { throw SystemError.error(errno, call: "fstat", path: path) }
    guard found.st_mode & S_IFMT == S_IFREG, found.st_nlink <= 1 else {
      throw EngineError(.permissionDenied, "it is not a regular file with one name", file: path)
    }
    guard found.st_uid == geteuid() || found.st_uid == 0 else {
      throw EngineError(
        .permissionDenied, "it belongs to user \(found.st_uid), and this process to user \(geteuid())", file: path)
    }
    guard found.st_mode & (S_IWGRP | S_IWOTH) == 0 else {
      throw EngineError(.permissionDenied, "other users can write to it", file: path)
    }
    guard found.st_size <= limit else {
      throw .corruption("the file has \(found.st_size) bytes; at most \(limit) are expected", file: path)
    }
    var bytes = [UInt8](repeating: 0, count: Int(max(0, found.st_size)))
    let count = try file.read(into: &bytes, at: 0)
    bytes.removeLast(bytes.count - count)
    return bytes
  }

  /// Writes a file under the name `part`, and renames it, so that it is complete or does not exist. It is not synced.
  func writeWhole(_ bytes: [UInt8], _ path: String, part: String) throws(EngineError) {
    if try attributes(part) != nil { try remove(part) }
    do throws(EngineError) {
      let descriptor = try open(part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW)
      let file = PosixFile(path: part, descriptor: descriptor, calls: calls)
      defer { file.close() }
      try file.write(bytes, at: 0)
      try rename(part, to: path)
    } catch {
      try? remove(part)
      throw error
    }
  }

  /// Replaces the content of a file that `readOwn` has read, and renames the file. That takes no space of the disk if
  /// the content is small. The file is not synced.
  func rewrite(_ path: String, _ bytes: [UInt8], to newPath: String) throws(EngineError) {
    let file = PosixFile(path: path, descriptor: try open(path, O_RDWR | O_NOFOLLOW), calls: calls)
    defer { file.close() }
    try file.write(bytes, at: 0)
    try file.truncate(to: UInt64(bytes.count))
    try rename(path, to: newPath)
  }

  /// Throws if this process may not change the entries of a directory, as on a device that can only be read.
  func checkWritable(_ directory: String) throws(EngineError) {
    try checkChange(of: directory, "access")
    let number = try resolve(directory).use { unsafe faccessat($0, $1, W_OK, AT_EACCESS) == 0 ? 0 : errno }
    guard number == 0 else { throw SystemError.error(number, call: "access", path: directory) }
  }

  /// Returns the present path, without links, of an existing directory, or throws `.notFound`.
  func realPath(_ path: String) throws(EngineError) -> String {
    let target = try resolve(path)
    let found = unsafe target.use { directory, name in
      #if os(Linux)
        // The anchored directory may have been renamed.
        if directory != AT_FDCWD { return unsafe realpath("/proc/self/fd/\(directory)/\(name)", nil) }
      #endif
      return unsafe realpath(path, nil)
    }
    guard let resolved = unsafe found else { throw SystemError.error(errno, call: "realpath", path: path) }
    defer { unsafe free(resolved) }
    return unsafe String(cString: resolved)
  }
}
