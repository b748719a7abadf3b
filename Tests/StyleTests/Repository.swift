import Foundation

/// The files of the work tree that the style rules are about.
enum Repository {
  /// The folder that holds Package.swift.
  static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().path

  /// All files below the given folders, with one of the extensions, as paths from the root. Hidden files and
  /// build products are no part of it.
  static func files(in folders: [String], _ extensions: Set<String>) -> [SourceFile] {
    var files: [SourceFile] = []
    for folder in folders {
      let paths = FileManager.default.subpaths(atPath: root + "/" + folder) ?? []
      for path in paths.sorted() {
        let isHidden = path.split(separator: "/").contains { $0.hasPrefix(".") }
        guard !isHidden, extensions.contains((path as NSString).pathExtension) else { continue }
        if let file = file(folder + "/" + path) { files.append(file) }
      }
    }
    return files
  }

  static func file(_ path: String) -> SourceFile? {
    guard let data = FileManager.default.contents(atPath: root + "/" + path) else { return nil }
    return SourceFile(path: path, text: String(decoding: data, as: UTF8.self))
  }

  /// All Swift files that people write.
  static var swiftFiles: [SourceFile] {
    files(in: ["Sources", "Tests", "tools", "Benchmarks", "Fuzz"], ["swift"])
      + [file("Package.swift")].compactMap { $0 }
  }

  /// Everything that people write: code, C, documents, scripts.
  static var textFiles: [SourceFile] {
    let scripts = ["tools/test", "tools/quickstart", "tools/install-libraries", ".ci/run", "README.md"]
    return swiftFiles + files(in: ["Sources", "Tests", "tools", "Benchmarks", "Fuzz"], ["c", "h", "md", "sh", "txt"])
      + scripts.compactMap { file($0) }
  }

  /// The Swift files of the engine.
  static var engineFiles: [SourceFile] { files(in: ["Sources/VarveEngine"], ["swift"]) }

  /// The Swift files of the object floor.
  static var objectFiles: [SourceFile] { files(in: ["Sources/Varve"], ["swift"]) }

  /// The Swift files of the relationships.
  static var relationshipFiles: [SourceFile] { files(in: ["Sources/VarveRelationships"], ["swift"]) }

  /// The Swift files of the tasks.
  static var taskFiles: [SourceFile] { files(in: ["Sources/VarveTasks"], ["swift"]) }

  /// The documents of the DocC catalogs.
  static var articles: [SourceFile] {
    files(
      in: [
        "Sources/VarveEngine/VarveEngine.docc", "Sources/Varve/Varve.docc",
        "Sources/VarveRelationships/VarveRelationships.docc", "Sources/VarveTasks/VarveTasks.docc",
      ], ["md"])
  }
}

/// A file by its path from the root. Rules are functions of these, so that each can be shown to fail.
struct SourceFile {
  let path: String
  let text: String

  var lines: [Substring] { text.split(separator: "\n", omittingEmptySubsequences: false) }
}

/// A location that breaks a rule.
struct Violation: Hashable, CustomStringConvertible {
  let path: String
  let line: Int
  let message: String

  var description: String { "\(path):\(line): \(message)" }
}

extension [Violation] {
  /// For a failed expectation: each location on a line of its own.
  var report: String { "\n" + map(\.description).joined(separator: "\n") }
}
