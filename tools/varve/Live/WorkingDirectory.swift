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
