#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// The target to which a command writes its output.
///
/// A file is replaced when the output is complete. What is there as a link, a pipe or a device is never replaced: the
/// file that a link leads to is, and pipes and devices receive the bytes. A path that stands for an open file of the
/// process, such as /dev/stdout, is that file as it was opened, with its position.
enum OutputTarget: Equatable {
  /// An open file of the process.
  case descriptor(Int32)
  /// A pipe, a socket or a device, to which the bytes are written as they come.
  case stream(String)
  /// A file, which may exist. If a directory has its name, the file cannot get it.
  case file(String)

  static let standardOutput = OutputTarget.descriptor(STDOUT_FILENO)

  /// Determines what is at a path. `-` is standard output. Throws for a link that leads nowhere.
  init(_ path: String) throws {
    if let descriptor = Self.descriptor(path) {
      self = .descriptor(descriptor)
      return
    }
    var status = stat()
    guard unsafe stat(path, &status) == 0 else {
      guard errno == ENOENT else { throw ToolError.system("stat", file: path) }
      if unsafe lstat(path, &status) == 0 {
        throw ToolError(.cannotOpen, "it is a link to a file that does not exist; name that file", file: path)
      }
      self = .file(path)
      return
    }
    switch status.st_mode & S_IFMT {
    case S_IFREG, S_IFDIR:
      guard let resolved = unsafe realpath(path, nil) else { throw ToolError.system("realpath", file: path) }
      defer { unsafe free(resolved) }
      // The path is kept as it was given unless it is a link.
      var link = stat()
      let isLink = unsafe lstat(path, &link) == 0 && link.st_mode & S_IFMT == S_IFLNK
      self = .file(isLink ? unsafe String(cString: resolved) : path)
    default: self = .stream(path)
    }
  }

  /// Returns the open file that a path stands for, or nil if it is the path of something else.
  private static func descriptor(_ path: String) -> Int32? {
    switch path {
    case "-", "/dev/stdout": return STDOUT_FILENO
    case "/dev/stderr": return STDERR_FILENO
    default:
      for folder in ["/dev/fd/", "/proc/self/fd/"] where path.hasPrefix(folder) {
        return Int32(path.dropFirst(folder.count))
      }
      return nil
    }
  }

  /// The path of the file, or nil if the output is not a file.
  var filePath: String? {
    if case .file(let path) = self { path } else { nil }
  }
}
