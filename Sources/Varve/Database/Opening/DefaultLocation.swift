internal import Foundation

/// The default location of a program's databases.
struct DefaultLocation {
  /// The directory of the user's data for all programs.
  let data: URL
  /// The name of this program's folder, unless another one is given.
  let program: String

  /// Returns the location for this process. Throws `.storage`.
  static func current() throws -> DefaultLocation {
    let program = Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName
    #if canImport(Darwin)
      guard let data = FileManager.default.urls(for: .applicationSupportDirectory, in: .userDomainMask).first else {
        throw DatabaseError(.storage, "the user has no Application Support")
      }
      return DefaultLocation(data: data, program: program)
    #else
      let home = FileManager.default.homeDirectoryForCurrentUser
      return DefaultLocation(environment: ProcessInfo.processInfo.environment, home: home, program: program)
    #endif
  }

  init(data: URL, program: String) {
    self.data = data
    self.program = program
  }

  /// Creates a location by the rules of the XDG Base Directory Specification, which ignores a path that is not
  /// absolute.
  init(environment: [String: String], home: URL, program: String) {
    if let path = environment["XDG_DATA_HOME"], path.hasPrefix("/") {
      self.init(data: URL(fileURLWithPath: path, isDirectory: true), program: program)
    } else {
      self.init(data: home.appending(path: ".local/share", directoryHint: .isDirectory), program: program)
    }
  }

  /// Returns the URL of a database, whether it exists or not, and creates its parent directories. Throws
  /// `.invalidArgument`, `.storage`.
  func url(name: String, program: String?) throws -> URL {
    let program = program ?? self.program
    try Self.check(name, "name of a database")
    try Self.check(program, "name of a program")
    let folder = data.appending(path: program, directoryHint: .isDirectory)
    do {
      try FileManager.default.createDirectory(
        at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    } catch {
      throw DatabaseError(.storage, "\(folder.path) can't be made", cause: error)
    }
    return folder.appending(path: name, directoryHint: .notDirectory)
  }

  private static func check(_ name: String, _ what: String) throws {
    guard !["", ".", ".."].contains(name), !name.utf8.contains(0), !name.utf8.contains(UInt8(ascii: "/")) else {
      throw DatabaseError(
        .invalidArgument, "\"\(name)\" is not a valid \(what): it would not be a file in that directory")
    }
  }
}
