/// The directory `lost` in a database, with the files that repairs replaced or could not read.
///
/// The engine does not read it. It may be removed when its files are not needed any more.
final class LostDirectory {
  /// The name of the directory within that of the database.
  static let name = "lost"

  private let directory: String
  private let fileSystem: any FileSystem
  private var path: String { directory + "/" + Self.name }
  /// Files that have a second name in the directory.
  private var linked: [(original: String, copy: String)] = []

  init(_ directory: String, _ fileSystem: any FileSystem) {
    self.directory = directory
    self.fileSystem = fileSystem
  }

  /// Returns the path at which a new file is built, so that an incomplete one left by a crash is never taken for a file
  /// of the database.
  func workPath(_ name: FileName) throws(EngineError) -> String {
    try make()
    let path = "\(path)/\(name.name).new"
    if try fileSystem.attributes(path) != nil { try fileSystem.remove(path) }
    return path
  }

  private func make() throws(EngineError) {
    if try fileSystem.attributes(path) == nil { try fileSystem.createDirectory(path) }
  }

  /// Gives files a second name in the directory, durably. Files that can't be linked are copied.
  func link(_ files: [String]) throws(EngineError) {
    guard !files.isEmpty else { return }
    try make()
    for original in files {
      guard let size = try fileSystem.attributes(original)?.size else { continue }
      let copy = try freeName(original)
      do throws(EngineError) { try fileSystem.link(original, to: copy) } catch {
        guard error.code != .noSpace else { throw error }
        try fileSystem.copyFile(original, to: copy, size: size)
      }
      linked.append((original, copy))
    }
    try fileSystem.syncDirectory(path)
  }

  /// Returns a path for a copy that is not in use, because an earlier repair may have linked a file of that name.
  private func freeName(_ original: String) throws(EngineError) -> String {
    let name = original.split(separator: "/").last.map(String.init) ?? original
    var copy = path + "/" + name
    var number = 1
    while try fileSystem.attributes(copy) != nil {
      number += 1
      copy = "\(path)/\(name).\(number)"
    }
    return copy
  }

  /// Removes the original names except `kept`, and returns the second ones.
  func removeOriginals(but kept: String) throws(EngineError) -> [String] {
    for file in linked where file.original != kept { try fileSystem.remove(file.original) }
    if !linked.isEmpty { try fileSystem.syncDirectory(directory) }
    return linked.map(\.copy)
  }
}
