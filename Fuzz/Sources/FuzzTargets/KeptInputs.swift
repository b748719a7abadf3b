package import Foundation

/// The inputs that found a fault once, in `Fuzz/Corpus/<target>/`. Every test run replays them.
package enum KeptInputs {
  package static let directory = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Corpus")

  /// Returns the names and bytes of the inputs, in the order of the names.
  package static func load(_ target: FuzzTarget) throws -> [(name: String, bytes: [UInt8])] {
    let folder = directory.appendingPathComponent(target.rawValue)
    guard FileManager.default.fileExists(atPath: folder.path) else { return [] }
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
    return try names.filter { !$0.hasPrefix(".") }.map { name in
      (name, [UInt8](try Data(contentsOf: folder.appendingPathComponent(name))))
    }
  }

  /// Stores an input under a name, and returns its path.
  package static func keep(_ bytes: [UInt8], _ target: FuzzTarget, name: String) throws -> String {
    let folder = directory.appendingPathComponent(target.rawValue)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let file = folder.appendingPathComponent(name)
    try Data(bytes).write(to: file)
    return file.path
  }
}
