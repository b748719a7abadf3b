import VarveEngine

/// Whether a path is in the directory of a database, where nothing but the database belongs: `verify` reports what it
/// finds there besides.
enum DatabaseLocation {
  /// Throws a usage error if a path that a command is about to make is in a database.
  ///
  /// Links are followed as far as the path exists. `what` is what would be made there.
  static func check(_ path: String, for what: String) throws {
    guard let found = database(containing: path) else { return }
    throw ToolError(
      .usage, "\(what) is not made in the directory of a database, and \"\(found)\" is one: choose another place",
      file: path)
  }

  /// Returns whether a directory is that of a database.
  static func isDatabase(_ path: String) -> Bool {
    guard let source = try? ByteSource(path + "/CURRENT") else { return false }
    return (try? source.next(prefix.count)) == prefix
  }

  /// What the name of a MANIFEST, the content of CURRENT, begins with.
  private static let prefix = Array("MANIFEST-".utf8)

  /// Returns the database that contains a path, which need not exist.
  private static func database(containing path: String) -> String? {
    let whole = LiveDatabase.absolute(path)
    var folder = parent(of: RealPath.of(whole) ?? whole)
    while folder != "/", RealPath.of(folder) == nil { folder = parent(of: folder) }
    folder = RealPath.of(folder) ?? folder
    while folder != "/" {
      if isDatabase(folder) { return folder }
      folder = parent(of: folder)
    }
    return nil
  }

  /// Returns the directory that contains an absolute path.
  private static func parent(of path: String) -> String {
    var path = path[...]
    while path.count > 1, path.hasSuffix("/") { path.removeLast() }
    guard let slash = path.lastIndex(of: "/"), slash > path.startIndex else { return "/" }
    return String(path[..<slash])
  }
}
