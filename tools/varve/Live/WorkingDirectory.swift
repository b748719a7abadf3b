#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// The working directory of the process.
enum WorkingDirectory {
  /// Its path, or `.` if the system does not know it.
  static var path: String {
    guard let path = unsafe getcwd(nil, 0) else { return "." }
    defer { unsafe free(path) }
    return unsafe String(cString: path)
  }
}

/// The path of a file without links.
enum RealPath {
  /// Returns the path, or `nil` if the file does not exist or can't be reached.
  static func of(_ path: String) -> String? {
    guard let found = unsafe realpath(path, nil) else { return nil }
    defer { unsafe free(found) }
    return unsafe String(cString: found)
  }
}
