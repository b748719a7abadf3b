import Foundation

/// The files of the work tree to which the style rules apply.
enum Repository {
  /// The path of the folder that contains Package.swift.
  static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().path

  /// Returns all files below the folders with one of the extensions, with paths relative to the root. Hidden files
  /// and build products are excluded.
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

  /// All Swift files that are not generated.
  static var swiftFiles: [SourceFile] {
    files(in: ["Sources", "Tests", "tools", "Benchmarks", "Fuzz"], ["swift"])
      + [file("Package.swift")].compactMap { $0 }
  }

  /// All text files that are not generated: Swift, C, documents and scripts.
  static var textFiles: [SourceFile] {
    let scripts = ["tools/test", "tools/quickstart", "tools/install-libraries", ".ci/run", "README.md"]
    return swiftFiles + files(in: ["Sources", "Tests", "tools", "Benchmarks", "Fuzz"], ["c", "h", "md", "sh", "txt"])
      + scripts.compactMap { file($0) }
  }

  /// The Swift files of the engine.
  static var engineFiles: [SourceFile] { files(in: ["Sources/VarveEngine"], ["swift"]) }

  /// The Swift files of the object layer.
  static var objectFiles: [SourceFile] { files(in: ["Sources/Varve"], ["swift"]) }

  /// The Swift files of the relationships module.
  static var relationshipFiles: [SourceFile] { files(in: ["Sources/VarveRelationships"], ["swift"]) }

  /// The Swift files of the tasks module.
  static var taskFiles: [SourceFile] { files(in: ["Sources/VarveTasks"], ["swift"]) }

  /// The Swift files of the views module.
  static var viewFiles: [SourceFile] { files(in: ["Sources/VarveViews"], ["swift"]) }

  /// The articles of the DocC catalogs.
  static var articles: [SourceFile] {
    files(
      in: [
        "Sources/VarveEngine/VarveEngine.docc", "Sources/Varve/Varve.docc",
        "Sources/VarveRelationships/VarveRelationships.docc", "Sources/VarveTasks/VarveTasks.docc",
        "Sources/VarveViews/VarveViews.docc",
      ], ["md"])
  }
}

/// A file and its path from the root. Rules are functions of such files, so that a test can show that each rule fails
/// when it must.
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
  /// The violations as text for a failed expectation, one on each line.
  var report: String { "\n" + map(\.description).joined(separator: "\n") }
}
