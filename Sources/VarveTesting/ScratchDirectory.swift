internal import Foundation
internal import Varve

/// A unique temporary directory that exists until it is removed.
struct ScratchDirectory {
  let url: URL

  /// Creates the directory inside another one. Throws `.storage`.
  init(below parent: URL) throws {
    url = parent.appending(path: "varve-testing-\(UUID().uuidString)", directoryHint: .isDirectory)
    let url = url
    try Self.reporting("the temporary directory can't be made") {
      try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }
  }

  /// Removes the directory with everything in it.
  func remove() { try? FileManager.default.removeItem(at: url) }

  /// Copies a directory file by file to a path that does not exist.
  ///
  /// The copies belong to this process and may be written even if the originals may not, for example those in a bundle.
  /// Throws `.storage`.
  static func copy(_ source: URL, to target: URL) throws {
    try reporting("\(source.path) can't be copied to \(target.path)") {
      try copyTree(source, to: target)
    }
  }

  private static func copyTree(_ source: URL, to target: URL) throws {
    let files = FileManager.default
    try files.createDirectory(at: target, withIntermediateDirectories: true)
    for name in try files.contentsOfDirectory(atPath: source.path) {
      let from = source.appending(path: name, directoryHint: .notDirectory)
      let to = target.appending(path: name, directoryHint: .notDirectory)
      if isDirectory(from) {
        try copyTree(from, to: to)
      } else {
        try Data(contentsOf: from).write(to: to)
      }
    }
  }

  static func isDirectory(_ url: URL) -> Bool {
    let values = try? url.resolvingSymlinksInPath().resourceValues(forKeys: [.isDirectoryKey])
    return values?.isDirectory == true
  }

  private static func reporting(_ message: String, _ body: () throws -> Void) throws {
    do { try body() } catch { throw DatabaseError(.storage, message, cause: error) }
  }
}
