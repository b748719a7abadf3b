internal import Foundation

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

/// Writes and lists the files of an inbox so that they survive a power loss.
enum InboxDisk {
  /// Writes a file atomically: under a temporary name that is then renamed. The file exists completely or not at all.
  static func write(_ bytes: [UInt8], _ path: String) throws {
    let temporary = path + ".part"
    do {
      try Data(bytes).write(to: URL(fileURLWithPath: temporary))
      let handle = try FileHandle(forUpdating: URL(fileURLWithPath: temporary))
      try handle.synchronize()
      try handle.close()
    } catch {
      try? FileManager.default.removeItem(atPath: temporary)
      throw error
    }
    guard unsafe rename(temporary, path) == 0 else {
      let code = errno
      try? FileManager.default.removeItem(atPath: temporary)
      throw CocoaError(.fileWriteUnknown, userInfo: [NSFilePathErrorKey: path, "errno": Int(code)])
    }
    let directory = (path as NSString).deletingLastPathComponent
    try sync(directory)
    try sync((directory as NSString).deletingLastPathComponent)
  }

  /// Syncs a directory, so that files renamed or removed in it stay so after a power loss.
  static func sync(_ directory: String) throws {
    let descriptor = unsafe open(directory, O_RDONLY)
    guard descriptor >= 0 else { throw CocoaError(.fileReadUnknown, userInfo: [NSFilePathErrorKey: directory]) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else {
      throw CocoaError(.fileWriteUnknown, userInfo: [NSFilePathErrorKey: directory])
    }
  }

  /// Returns the names of the files of commands in a directory, sorted. Returns none if the directory does not exist.
  static func files(_ directory: String) -> [String] {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
    return names.filter { $0.hasSuffix(InboxFile.suffix) }.sorted()
  }
}
