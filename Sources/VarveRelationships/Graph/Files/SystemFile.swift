internal import Foundation

/// The identity of the file at a path, as the system distinguishes files.
struct FileIdentity: Equatable {
  let device: UInt64
  let inode: UInt64
  let size: UInt64
  /// The modification time in nanoseconds since 1970.
  let modified: UInt64

  static let byteCount = 32

  /// The encoding on disk, which must never change: four numbers of eight bytes, big-endian.
  var bytes: [UInt8] {
    [device, inode, size, modified].flatMap { number in
      stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> UInt64($0)) }
    }
  }

  init?(_ bytes: [UInt8]) {
    guard bytes.count == Self.byteCount else { return nil }
    func number(_ index: Int) -> UInt64 { bytes[(index * 8)..<(index * 8 + 8)].reduce(0) { $0 << 8 | UInt64($1) } }
    (device, inode, size, modified) = (number(0), number(1), number(2), number(3))
  }

  init(_ status: stat) {
    device = UInt64(truncatingIfNeeded: status.st_dev)
    inode = UInt64(truncatingIfNeeded: status.st_ino)
    size = UInt64(truncatingIfNeeded: status.st_size)
    #if canImport(Darwin)
      let time = status.st_mtimespec
    #else
      let time = status.st_mtim
    #endif
    modified = UInt64(truncatingIfNeeded: time.tv_sec &* 1_000_000_000 &+ time.tv_nsec)
  }
}

/// The system calls that removing files needs.
enum SystemFile {
  /// A system call that failed.
  struct Failure: Error, CustomStringConvertible {
    let code: Int32
    let call: String
    var description: String { "\(call): \(unsafe String(cString: strerror(code)))" }
  }

  /// Returns the identity of the file at a path without following a link there, or nil if there is no file, or a
  /// directory.
  static func identity(_ path: String) throws -> FileIdentity? {
    var status = stat()
    guard unsafe lstat(path, &status) == 0 else {
      if errno == ENOENT || errno == ENOTDIR { return nil }
      throw Failure(code: errno, call: "stat \(path)")
    }
    guard status.st_mode & S_IFMT != S_IFDIR else { return nil }
    return FileIdentity(status)
  }

  static func isDirectory(_ path: String) -> Bool {
    var status = stat()
    return unsafe stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
  }

  /// Returns a path with links resolved, or nil if it does not exist.
  static func realPath(_ path: String) -> String? {
    guard let real = unsafe realpath(path, nil) else { return nil }
    defer { unsafe free(real) }
    return unsafe String(cString: real)
  }

  static func rename(_ path: String, to target: String) throws {
    guard unsafe Foundation.rename(path, target) == 0 else { throw Failure(code: errno, call: "rename \(path)") }
  }

  static func unlink(_ path: String) throws {
    guard unsafe Foundation.unlink(path) == 0 || errno == ENOENT else {
      throw Failure(code: errno, call: "unlink \(path)")
    }
  }

  static func makeDirectory(_ path: String) throws {
    guard unsafe mkdir(path, 0o700) == 0 || errno == EEXIST else { throw Failure(code: errno, call: "mkdir \(path)") }
  }

  /// Removes an empty directory.
  static func removeDirectory(_ path: String) { _ = unsafe rmdir(path) }

  /// Returns the names of the files in a directory, or no names if it does not exist.
  static func names(_ path: String) -> [String] { (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? [] }
}
