import EngineTestSupport
import Foundation
import Varve

@testable import VarveTesting

/// A snapshot of the first version of a program, in its own directory.
final class Golden: Sendable {
  private let directory: TemporaryDirectory
  let snapshot: GoldenSnapshot

  init() throws {
    directory = try TemporaryDirectory()
    let scratch = URL(fileURLWithPath: directory.path + "/scratch", isDirectory: true)
    try FileManager.default.createDirectory(at: scratch, withIntermediateDirectories: true)
    snapshot = GoldenSnapshot(path: directory.path + "/golden", scratch: scratch)
  }

  /// Creates a snapshot with the rows that `rows` describes.
  convenience init(
    _ definition: DatabaseDefinition? = nil, @FixtureBuilder _ rows: () throws -> Fixture
  ) throws {
    try self.init()
    let definition = definition ?? DatabaseDefinition { OldBookFormat.self }
    try snapshot.write(definition: definition) { database in try database.fill(rows) }
  }

  var path: String { snapshot.path }

  /// The names of the files in the directory for copies.
  var leftovers: [String] {
    (try? FileManager.default.contentsOfDirectory(atPath: directory.path + "/scratch")) ?? ["?"]
  }

  /// Returns the files of the snapshot.
  func files() throws -> [String: Data] {
    var files: [String: Data] = [:]
    for name in try FileManager.default.subpathsOfDirectory(atPath: path) {
      files[name] = FileManager.default.contents(atPath: path + "/" + name)
    }
    return files
  }

  /// Changes a byte in the middle of each file whose name has the suffix. Returns the number of files.
  func damage(_ suffix: String) throws -> Int {
    let names = try files().filter { $0.key.hasSuffix(suffix) && !$0.value.isEmpty }
    for (name, data) in names {
      var bytes = [UInt8](data)
      bytes[bytes.count / 2] ^= 0x55
      try Data(bytes).write(to: URL(fileURLWithPath: path + "/" + name))
    }
    return names.count
  }
}
