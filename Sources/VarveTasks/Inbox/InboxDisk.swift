internal import Foundation

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

/// Files of an inbox, as far as they have to survive a loss of power.
enum InboxDisk {
  /// A file is there as a whole when the call returns, or not at all: written beside its name, and renamed.
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

  /// What was renamed and removed in a directory survives a loss of power.
  static func sync(_ directory: String) throws {
    let descriptor = unsafe open(directory, O_RDONLY)
    guard descriptor >= 0 else { throw CocoaError(.fileReadUnknown, userInfo: [NSFilePathErrorKey: directory]) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else {
      throw CocoaError(.fileWriteUnknown, userInfo: [NSFilePathErrorKey: directory])
    }
  }

  /// The files of commands in a directory, by name; none where it does not exist.
  static func files(_ directory: String) -> [String] {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
    return names.filter { $0.hasSuffix(InboxFile.suffix) }.sorted()
  }
}
