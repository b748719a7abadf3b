internal import Foundation
internal import Varve

/// A unique temporary directory that exists for the duration of a call.
struct ScratchDirectory {
  let url: URL

  /// Makes it below another. Throws `.storage`.
  init(below parent: URL) throws {
    url = parent.appending(path: "varve-testing-\(UUID().uuidString)", directoryHint: .isDirectory)
    let url = url
    try Self.reporting("the temporary directory can't be made") {
      try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }
  }

  /// Removes it with everything in it.
  func remove() { try? FileManager.default.removeItem(at: url) }

  /// Copies a directory to where nothing is, file by file: what is copied belongs to this process, and may be written
  /// even where the original may not (in a bundle, say). Throws `.storage`.
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
