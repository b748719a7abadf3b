internal import CVarve

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// A directory that is held open, so that paths below it lead to the same directory after it was renamed, and after
/// the working directory of the process changed.
///
/// # Invariants
/// The descriptor is open as long as the object lives.
final class DirectoryAnchor: Sendable {
  /// The path that it was opened by, without slashes at the end.
  private let path: String
  let descriptor: Int32

  /// Takes over an open descriptor of the directory at `path`.
  init(path: String, descriptor: Int32) {
    self.path = DirectoryAnchor.trimmed(path)
    self.descriptor = descriptor
  }

  deinit { _ = close(descriptor) }

  /// How many bytes of a path name this directory: what is longer is more specific.
  var length: Int { path.utf8.count }

  /// The rest of a path that begins with this directory: "." for the directory itself. Nil for other paths. A path that
  /// does not name ".", as "backup", leads to the working directory that there is, also where this is the directory ".".
  func name(of other: String) -> String? {
    // Byte by byte: two spellings of one character name two files.
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

/// Where a path leads: a name below an open directory, or below the working directory.
struct ResolvedPath {
  let directory: Int32
  let name: String
  /// Keeps the descriptor open.
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

  /// Runs `body` while the directory is open.
  func use<R>(_ body: (Int32, String) -> R) -> R {
    defer { withExtendedLifetime(anchor) {} }
    return body(directory, name)
  }
}

extension PosixFileSystem {
  /// This file system, in which paths that begin with `path` lead to the directory that is there now.
  public func anchored(at path: String) throws(EngineError) -> any FileSystem {
    let descriptor = try open(path, O_RDONLY | O_DIRECTORY)
    var copy = self
    copy.anchors.append(DirectoryAnchor(path: path, descriptor: descriptor))
    copy.anchors.sort { $0.length > $1.length }
    return copy
  }

  /// Where a path leads. Throws for one that the system would read differently.
  func resolve(_ path: String) throws(EngineError) -> ResolvedPath {
    try Self.check(path)
    for anchor in anchors {
      if let name = anchor.name(of: path) { return ResolvedPath(anchor, name) }
    }
    return ResolvedPath(path)
  }

  /// Where a path leads that is the name of something in its parent: an anchored directory itself goes by its name.
  func resolveEntry(_ path: String) throws(EngineError) -> ResolvedPath {
    try Self.check(path)
    for anchor in anchors {
      if let name = anchor.name(of: path), name != "." { return ResolvedPath(anchor, name) }
    }
    return ResolvedPath(path)
  }

  /// Opens a path, made with mode 0600 where `flags` make it.
  func open(_ path: String, _ flags: Int32) throws(EngineError) -> Int32 {
    let descriptor = try resolve(path).use { unsafe cvarve_open_at($0, $1, flags, 0o600) }
    guard descriptor >= 0 else { throw openingError(-descriptor, path, flags) }
    return descriptor
  }

  /// What may be read, and was to be changed, is not unreadable; neither is what was to be made.
  private func openingError(_ number: Int32, _ path: String, _ flags: Int32) -> EngineError {
    let error = SystemError.readingError(number, call: "open", path: path)
    guard error.code == .notReadableNow, flags & (O_RDWR | O_CREAT) != 0 else { return error }
    let denied = SystemError.error(number, call: "open", path: path)
    do throws(EngineError) {
      let descriptor = try open(path, O_RDONLY)
      _ = close(descriptor)
      return denied
    } catch {
      // Nothing there: it could not be made.
      return error.code == .notFound ? denied : error
    }
  }

  /// The information of what is at a path, or the number of the error.
  func information(_ path: String) throws(EngineError) -> Result<stat, SystemErrorNumber> {
    try resolve(path).use { directory, name in
      var information = stat()
      guard unsafe fstatat(directory, name, &information, 0) == 0 else { return .failure(SystemErrorNumber(errno)) }
      return .success(information)
    }
  }

  /// A zero byte would end the path early, at another file.
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
