internal import CVarve

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// An open directory, so that paths below it still lead to the same directory after it was renamed, and after the
/// working directory of the process changed.
///
/// # Invariants
/// The descriptor is open as long as the object lives.
final class DirectoryAnchor: Sendable {
  /// The path with which the directory was opened, without trailing slashes.
  private let path: String
  let descriptor: Int32

  /// Takes ownership of an open descriptor of the directory at `path`.
  init(path: String, descriptor: Int32) {
    self.path = DirectoryAnchor.trimmed(path)
    self.descriptor = descriptor
  }

  deinit { _ = close(descriptor) }

  /// The number of bytes of a path that name this directory. A longer path is more specific.
  var length: Int { path.utf8.count }

  /// Returns the rest of a path that begins with this directory ("." for the directory itself), or nil for other
  /// paths.
  ///
  /// A relative path that does not begin with ".", such as "backup", leads to the current working directory, even if
  /// this is the directory ".".
  func name(of other: String) -> String? {
    // Paths are compared byte by byte, because two encodings of one character name two files.
    let (start, bytes) = (path.utf8, other.utf8)
    guard bytes.starts(with: start) else { return nil }
    let rest = bytes.dropFirst(start.count)
    guard rest.isEmpty || rest.first == DirectoryAnchor.slash || path == "/" else { return nil }
    let name = rest.drop { $0 == DirectoryAnchor.slash }
    return name.isEmpty ? "." : String(Substring(name))
  }

  private static let slash = UInt8(ascii: "/")

  private static func trimmed(_ path: String) -> String {
    var path = path[...]
    while path.count > 1, path.hasSuffix("/") { path.removeLast() }
    return String(path)
  }
}

/// The target of a path: a name below an open directory, or below the working directory.
struct ResolvedPath {
  let directory: Int32
  let name: String
  /// The object that keeps the descriptor open.
  private let anchor: DirectoryAnchor?

  init(_ path: String) {
    directory = AT_FDCWD
    name = path
    anchor = nil
  }

  init(_ anchor: DirectoryAnchor, _ name: String) {
    directory = anchor.descriptor
    self.name = name
    self.anchor = anchor
  }

  /// Calls `body` while the directory is open.
  func use<R>(_ body: (Int32, String) -> R) -> R {
    defer { withExtendedLifetime(anchor) {} }
    return body(directory, name)
  }
}

extension PosixFileSystem {
  /// Returns this file system, with paths that begin with `path` leading to the directory that is at that path now.
  public func anchored(at path: String) throws(EngineError) -> any FileSystem {
    let descriptor = try open(path, O_RDONLY | O_DIRECTORY)
    var copy = self
    copy.anchors.append(DirectoryAnchor(path: path, descriptor: descriptor))
    copy.anchors.sort { $0.length > $1.length }
    return copy
  }

  /// Returns the target of a path. Throws `.invalidArgument` for a path that the system would read differently.
  func resolve(_ path: String) throws(EngineError) -> ResolvedPath {
    try Self.check(path)
    for anchor in anchors {
      if let name = anchor.name(of: path) { return ResolvedPath(anchor, name) }
    }
    return ResolvedPath(path)
  }

  /// Returns the target of a path that names an entry of its parent. An anchored directory itself is resolved by its
  /// own path.
  func resolveEntry(_ path: String) throws(EngineError) -> ResolvedPath {
    try Self.check(path)
    for anchor in anchors {
      if let name = anchor.name(of: path), name != "." { return ResolvedPath(anchor, name) }
    }
    return ResolvedPath(path)
  }

  /// Opens a path. If `flags` create the file, it has mode 0600.
  func open(_ path: String, _ flags: Int32) throws(EngineError) -> Int32 {
    if flags & O_EXCL != 0 { try checkChange(of: path, "open") }
    let descriptor = try resolve(path).use { unsafe cvarve_open_at($0, $1, flags, 0o600) }
    guard descriptor >= 0 else { throw openingError(-descriptor, path, flags) }
    return descriptor
  }

  /// Returns the error of a failed open. The error is not `.notReadableNow` if the file may be read but not be opened
  /// for writing, or if it did not exist and could not be created.
  private func openingError(_ number: Int32, _ path: String, _ flags: Int32) -> EngineError {
    let error = SystemError.readingError(number, call: "open", path: path)
    guard error.code == .notReadableNow, flags & (O_RDWR | O_CREAT) != 0 else { return error }
    let denied = SystemError.error(number, call: "open", path: path)
    do throws(EngineError) {
      let descriptor = try open(path, O_RDONLY)
      _ = close(descriptor)
      return denied
    } catch {
      // The file does not exist, so it could not be created.
      return error.code == .notFound ? denied : error
    }
  }

  /// Returns the `stat` information of a path, or the number of the error.
  func information(_ path: String) throws(EngineError) -> Result<stat, SystemErrorNumber> {
    try resolve(path).use { directory, name in
      var information = stat()
      guard unsafe fstatat(directory, name, &information, 0) == 0 else { return .failure(SystemErrorNumber(errno)) }
      return .success(information)
    }
  }

  /// Checks a path for zero bytes, one of which would end the path early, at another file.
  private static func check(_ path: String) throws(EngineError) {
    guard !path.utf8.contains(0) else {
      throw EngineError(.invalidArgument, "path contains a zero byte", file: path)
    }
  }
}

/// The number of a failed system call.
struct SystemErrorNumber: Error {
  let value: Int32
  init(_ value: Int32) { self.value = value }
}
