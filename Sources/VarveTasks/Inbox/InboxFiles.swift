internal import Foundation

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

/// The operations on files that an inbox consists of. Tests of crashes have files in memory.
///
/// A process that dies in an operation has performed it or not, except for `write`, which may leave a part of the
/// bytes. A loss of power can undo operations on names until `syncDirectory` has returned, and lose bytes until `sync`
/// has.
protocol InboxFiles: Sendable {
  /// Returns whether a file or directory exists.
  func exists(_ path: String) -> Bool
  /// Creates a directory if it does not exist.
  func createDirectory(_ path: String) throws
  /// Returns the names in a directory, or none if it does not exist.
  func names(_ directory: String) -> [String]
  /// Returns whether the entry at a path is a regular file: not a directory, a symbolic link or a pipe.
  func isFile(_ path: String) throws -> Bool
  /// Returns the size of a file in bytes.
  func size(_ path: String) throws -> Int
  /// Returns the time at which a file was last written, or `nil` if it is not known.
  func modified(_ path: String) -> Date?
  func read(_ path: String) throws -> [UInt8]
  /// Writes a file, which is created if it does not exist.
  func write(_ bytes: [UInt8], _ path: String) throws
  /// Makes the bytes of a file durable.
  func sync(_ path: String) throws
  /// Renames a file. An existing file with the new name is replaced.
  func move(_ path: String, to newPath: String) throws
  func remove(_ path: String) throws
  /// Makes the names in a directory durable, and the removal of names.
  func syncDirectory(_ path: String) throws
}

extension InboxFiles {
  /// Writes a file atomically: under a temporary name that is then renamed. The file exists completely or not at all,
  /// and survives a power loss when the call returns.
  func writeWhole(_ bytes: [UInt8], _ path: String) throws {
    let temporary = path + InboxFile.partSuffix
    do {
      try write(bytes, temporary)
      try sync(temporary)
      try move(temporary, to: path)
    } catch {
      try? remove(temporary)
      throw error
    }
    let directory = (path as NSString).deletingLastPathComponent
    try syncDirectory(directory)
    try syncDirectory((directory as NSString).deletingLastPathComponent)
  }

  /// Returns the names of the files of commands in a directory, in the order in which they are applied. Returns none if
  /// the directory does not exist.
  func commandFiles(_ directory: String) -> [String] {
    names(directory).filter { $0.hasSuffix(InboxFile.suffix) }.sorted(by: InboxFile.precedes)
  }

  /// Returns the names of files of commands that may be applied now, in their order, and whether others have to wait.
  ///
  /// A listing that is made while files arrive may have one of them, and not one that was sent before it. But that one
  /// is in a listing which is begun afterwards. So a file waits if the second listing has an earlier one that the first
  /// has not.
  func applicableFiles(_ directory: String) -> (names: [String], areLeft: Bool) {
    let listed = commandFiles(directory)
    if listed.isEmpty { return ([], false) }
    let known = Set(listed)
    guard let late = commandFiles(directory).first(where: { !known.contains($0) }) else { return (listed, false) }
    let first = listed.filter { InboxFile.precedes($0, late) }
    return (first, first.count < listed.count)
  }

  /// Removes the files that senders have begun before a time, and have not finished, and answers that they have not
  /// read: they have died.
  func removeAbandoned(_ directory: String, before time: Date) {
    let suffixes = [
      InboxFile.suffix + InboxFile.partSuffix, InboxFile.answerSuffix, InboxFile.answerSuffix + InboxFile.partSuffix,
    ]
    for name in names(directory) where suffixes.contains(where: { name.hasSuffix($0) }) {
      let path = directory + "/" + name
      // A file that can't be removed is tried again at the next start.
      if let written = modified(path), written < time { try? remove(path) }
    }
  }
}

/// The files of the operating system.
struct SystemInboxFiles: InboxFiles {
  func exists(_ path: String) -> Bool { FileManager.default.fileExists(atPath: path) }

  func createDirectory(_ path: String) throws {
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  func names(_ directory: String) -> [String] {
    (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
  }

  func isFile(_ path: String) throws -> Bool {
    // The attributes are those of a link itself.
    try FileManager.default.attributesOfItem(atPath: path)[.type] as? FileAttributeType == .typeRegular
  }

  func size(_ path: String) throws -> Int {
    (try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int) ?? 0
  }

  func modified(_ path: String) -> Date? {
    (try? FileManager.default.attributesOfItem(atPath: path))?[.modificationDate] as? Date
  }

  func read(_ path: String) throws -> [UInt8] { [UInt8](try Data(contentsOf: URL(fileURLWithPath: path))) }

  func write(_ bytes: [UInt8], _ path: String) throws { try Data(bytes).write(to: URL(fileURLWithPath: path)) }

  func sync(_ path: String) throws {
    let handle = try FileHandle(forUpdating: URL(fileURLWithPath: path))
    try handle.synchronize()
    try handle.close()
  }

  func move(_ path: String, to newPath: String) throws {
    guard unsafe rename(path, newPath) == 0 else {
      throw CocoaError(.fileWriteUnknown, userInfo: [NSFilePathErrorKey: newPath, "errno": Int(errno)])
    }
  }

  func remove(_ path: String) throws { try FileManager.default.removeItem(atPath: path) }

  func syncDirectory(_ path: String) throws {
    let descriptor = unsafe open(path, O_RDONLY)
    guard descriptor >= 0 else { throw CocoaError(.fileReadUnknown, userInfo: [NSFilePathErrorKey: path]) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else {
      throw CocoaError(.fileWriteUnknown, userInfo: [NSFilePathErrorKey: path])
    }
  }
}
