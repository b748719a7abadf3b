/// A directory that appears at its path at once and complete: it is built under a name beside it, and
/// renamed when all of it is durable.
///
/// A crash leaves the path as it was, and at most a leftover of the other name, which `prepare` removes.
package struct DirectoryUnderConstruction {
  package let target: String
  /// Where it is built.
  package let workspace: String
  /// For messages: what is being made.
  let purpose: String
  let fileSystem: any FileSystem

  /// The workspace is the target's path with `.suffix`.
  package init(_ target: String, purpose: String, suffix: String, _ fileSystem: any FileSystem) {
    var target = target[...]
    while target.count > 1, target.hasSuffix("/") { target.removeLast() }
    self.target = String(target)
    workspace = self.target + "." + suffix
    self.purpose = purpose
    self.fileSystem = fileSystem
  }

  /// Throws unless the target is free: it does not exist, or is an empty directory. Removes what a crash
  /// left of an earlier try, and nothing else, and makes the workspace.
  package func prepare() throws(EngineError) {
    _ = try hasTarget()
    try removeLeftover()
    try fileSystem.createDirectory(workspace)
  }

  /// Whether an empty directory is at the target. Throws where anything else is.
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

  /// Removes what a crash left of an earlier try, and nothing else. Throws where it holds other files.
  package func removeLeftover() throws(EngineError) {
    guard try fileSystem.attributes(workspace) != nil else { return }
    for name in try fileSystem.list(workspace).sorted() where FileName(name) == nil {
      throw EngineError(
        .alreadyExists, "\(purpose) is built in this directory first, and it holds \(name)", file: workspace)
    }
    // Whoever builds there now holds it.
    let lock = try fileSystem.lock(workspace + "/" + FileName.lock.name)
    defer { lock.release() }
    try remove(try fileSystem.list(workspace), from: workspace)
  }

  /// Gives the workspace, all of which is durable, the target's name.
  package func install() throws(EngineError) {
    let hasTarget = try hasTarget()
    if hasTarget { try fileSystem.removeDirectory(target) }
    do throws(EngineError) { try fileSystem.rename(workspace, to: target) } catch {
      if hasTarget { try? fileSystem.createDirectory(target) }
      throw error
    }
    do throws(EngineError) { try fileSystem.syncDirectory(Opening.parent(of: target) ?? "/") } catch {
      // It is whole, but nobody knows for how long: the caller is told that there is none.
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

  /// CURRENT goes first: what is left of a removal that was cut short is no database.
  private func remove(_ names: [String], from directory: String) throws(EngineError) {
    let current = FileName.current.name
    for name in names.filter({ $0 == current }) + names.filter({ $0 != current }).sorted() {
      try fileSystem.remove(directory + "/" + name)
    }
    try fileSystem.removeDirectory(directory)
  }
}
