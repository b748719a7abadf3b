/// A directory that appears at its path atomically and complete.
///
/// It is built under another name in the same parent directory, and renamed once all of it is durable. A crash leaves
/// the path as it was, and at most a leftover with the other name, which `prepare` removes.
package struct DirectoryUnderConstruction {
  package let target: String
  /// The path at which the directory is built.
  package let workspace: String
  /// The purpose of the directory, for messages.
  let purpose: String
  let fileSystem: any FileSystem

  /// Creates the paths. The workspace is the target's path with `.suffix`.
  package init(_ target: String, purpose: String, suffix: String, _ fileSystem: any FileSystem) {
    var target = target[...]
    while target.count > 1, target.hasSuffix("/") { target.removeLast() }
    self.target = String(target)
    workspace = self.target + "." + suffix
    self.purpose = purpose
    self.fileSystem = fileSystem
  }

  /// Throws `.invalidArgument` if the target is in the directory of a database or below it, where every file is one of
  /// the database's own. The path of the database is in the same file system as the target.
  package func requireOutside(_ database: String) throws(EngineError) {
    let error = EngineError(
      .invalidArgument, "\(purpose) is not made in the directory of a database, which holds only its own files",
      file: target)
    if target.hasPrefix(database + "/") { throw error }
    guard let identity = try fileSystem.attributes(database)?.identity else { return }
    // A parent is found by its identity, because the path may lead through links.
    var path = Opening.parent(of: target) ?? "/"
    var last: FileIdentity?
    while let found = try fileSystem.attributes(path)?.identity, found != last {
      if found == identity { throw error }
      last = found
      path += "/.."
    }
  }

  /// Creates the workspace. Throws unless the target is free: it does not exist, or is an empty directory.
  ///
  /// Removes the leftover of an earlier attempt, and no other file.
  package func prepare() throws(EngineError) {
    _ = try hasTarget()
    try removeLeftover()
    do throws(EngineError) { try fileSystem.createDirectory(workspace) } catch {
      guard error.file == workspace else { throw error }
      // The caller knows the name of the target.
      throw EngineError(error.code, "\(purpose) can't be made: \(error.message)", cause: error.cause, file: target)
    }
  }

  /// Returns whether there is an empty directory at the target. Throws if there is anything else.
  private func hasTarget() throws(EngineError) -> Bool {
    guard !target.isEmpty, target != "/" else {
      throw EngineError(.invalidArgument, "\(purpose) needs a directory of its own; this path has none", file: target)
    }
    guard let found = try fileSystem.attributes(target) else { return false }
    guard found.isDirectory else {
      throw EngineError(.alreadyExists, "\(purpose) needs a new directory; a file exists here", file: target)
    }
    if let name = try fileSystem.list(target).sorted().first {
      throw EngineError(
        .alreadyExists, "\(purpose) wants a new or an empty directory, and this one holds \(name)", file: target)
    }
    return true
  }

  /// Removes the leftover of an earlier attempt. Throws without removing it if it has files that are not the engine's.
  package func removeLeftover() throws(EngineError) {
    guard try fileSystem.attributes(workspace) != nil else { return }
    for name in try fileSystem.list(workspace).sorted() where FileName(name) == nil {
      throw EngineError(
        .alreadyExists, "\(purpose) is built in this directory first, and it holds \(name)", file: workspace)
    }
    // A process that is building there holds the lock.
    let lock = try fileSystem.lock(workspace + "/" + FileName.lock.name)
    defer { lock.release() }
    try remove(try fileSystem.list(workspace), from: workspace)
  }

  /// Renames the workspace, all of which must be durable, to the target's name.
  package func install() throws(EngineError) {
    let hasTarget = try hasTarget()
    if hasTarget { try fileSystem.removeDirectory(target) }
    do throws(EngineError) { try fileSystem.rename(workspace, to: target) } catch {
      if hasTarget { try? fileSystem.createDirectory(target) }
      throw error
    }
    do throws(EngineError) { try fileSystem.syncDirectory(Opening.parent(of: target) ?? "/") } catch {
      // The directory is complete but may not be durable, so it is removed and the caller gets the error.
      remove(target)
      throw error
    }
  }

  /// Removes the workspace, as far as that is possible.
  package func discard() { remove(workspace) }

  private func remove(_ directory: String) {
    guard let names = try? fileSystem.list(directory) else { return }
    try? remove(names, from: directory)
  }

  /// Removes a directory's files, CURRENT first, so that the remainder of an interrupted removal is not a database.
  private func remove(_ names: [String], from directory: String) throws(EngineError) {
    let current = FileName.current.name
    for name in names.filter({ $0 == current }) + names.filter({ $0 != current }).sorted() {
      try fileSystem.remove(directory + "/" + name)
    }
    try fileSystem.removeDirectory(directory)
  }
}
