/// The directory `lost` in a database: what repairs replaced or could not read. Nothing in the engine reads
/// it; it may be removed when no one wants to look at it any more.
final class LostDirectory {
  /// The name of the directory in a database's.
  static let name = "lost"

  private let directory: String
  private let fileSystem: any FileSystem
  private var path: String { directory + "/" + Self.name }
  /// Files that have a second name there.
  private var linked: [(original: String, copy: String)] = []

  init(_ directory: String, _ fileSystem: any FileSystem) {
    self.directory = directory
    self.fileSystem = fileSystem
  }

  /// Where a new file is built, so that one that a crash cut short is never taken for a file of the database.
  func workPath(_ name: FileName) throws(EngineError) -> String {
    try make()
    let path = "\(path)/\(name.name).new"
    if try fileSystem.attributes(path) != nil { try fileSystem.remove(path) }
    return path
  }

  private func make() throws(EngineError) {
    if try fileSystem.attributes(path) == nil { try fileSystem.createDirectory(path) }
  }

  /// Gives files a second name in the directory, durably; copies them where they can't be linked.
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

  /// An earlier repair may have put a file of the same name there.
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

  /// Removes the first names, but for one, and returns the second ones.
  func removeOriginals(but kept: String) throws(EngineError) -> [String] {
    for file in linked where file.original != kept { try fileSystem.remove(file.original) }
    if !linked.isEmpty { try fileSystem.syncDirectory(directory) }
    return linked.map(\.copy)
  }
}
