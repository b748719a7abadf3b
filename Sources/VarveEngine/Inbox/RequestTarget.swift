/// Decides where an engine makes a checkpoint that another process requests.
///
/// The engine writes with its own permissions, so it writes only where the owner of the database can expect copies of
/// it: in the directory that contains the database, in the folders that the program names, and in folders below them.
/// (`CheckpointJob` refuses the database itself.) The root directory counts only if the program names it.
struct RequestTarget {
  let databasePath: String
  let folders: [String]
  let fileSystem: PosixFileSystem

  /// Returns the path of a target without links in its parent. Throws `.permissionDenied` for a target elsewhere,
  /// `.invalidArgument` for a path that is not absolute or ends in no name, and `.notFound` if its parent does not
  /// exist.
  func resolve(_ target: String) throws(EngineError) -> String {
    var path = target[...]
    while path.count > 1, path.hasSuffix("/") { path.removeLast() }
    guard path.hasPrefix("/"), !path.utf8.contains(0), let slash = path.lastIndex(of: "/") else {
      throw EngineError(.invalidArgument, "the target of a request is an absolute path", file: target)
    }
    let name = path[path.index(after: slash)...]
    guard !name.isEmpty, name != ".", name != ".." else {
      throw EngineError(.invalidArgument, "the target of a request ends in the name of a directory", file: target)
    }
    let parent = try fileSystem.realPath(slash == path.startIndex ? "/" : String(path[..<slash]))
    let database = try fileSystem.realPath(databasePath)
    guard try allowed(database).contains(where: { Self.contains($0, parent) }) else {
      throw EngineError(
        .permissionDenied,
        "a process makes checkpoints for others only beside the database, and in the folders that its program names in "
          + "EngineOptions.backupFolders or DatabaseOptions.backupFolders",
        file: target)
    }
    return parent == "/" ? "/" + name : parent + "/" + name
  }

  private func allowed(_ database: String) throws(EngineError) -> [String] {
    var allowed: [String] = []
    // A path without links is absolute.
    let parent = database.lastIndex(of: "/").map { String(database[..<$0]) } ?? ""
    if !parent.isEmpty { allowed.append(parent) }
    // A folder that does not exist is none.
    for folder in folders { if let path = try? fileSystem.realPath(folder) { allowed.append(path) } }
    return allowed
  }

  /// Returns whether a directory is another one, or is below it. Both are paths without links.
  private static func contains(_ directory: String, _ other: String) -> Bool {
    directory == "/" || other == directory || other.hasPrefix(directory + "/")
  }
}
