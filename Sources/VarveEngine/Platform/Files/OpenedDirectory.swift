/// The path of an anchored directory, which may lead to another directory later.
struct OpenedDirectory {
  private let path: String
  private let fileSystem: any FileSystem
  private let identity: FileIdentity?

  /// Creates the value for the directory to which `anchored` leads; `fileSystem` is not anchored.
  init(_ path: String, _ fileSystem: any FileSystem, anchored: any FileSystem) {
    self.path = path
    self.fileSystem = fileSystem
    identity = try? anchored.attributes(path)?.identity
  }

  /// Returns whether the path leads to another directory now. A path that leads nowhere does not count, because the
  /// directory may have been renamed.
  var isReplaced: Bool {
    guard let identity, let found = try? fileSystem.attributes(path)?.identity else { return false }
    return found != identity
  }
}
