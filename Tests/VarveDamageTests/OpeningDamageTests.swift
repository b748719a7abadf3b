import EngineTestSupport
import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of opening a damaged database with each policy.
struct OpeningDamageTests {
  private func keys(_ database: Database) throws -> [Int] {
    try database.read { tx in try tx.keys(Int.self, in: "c") }
  }

  private func fill(_ path: String) throws {
    let database = try Database.open(at: path)
    try database.write { tx in for key in 0..<10 { try tx.set("row \(key)", key: key, in: "c", metadata: key) } }
    try database.close()
  }

  @Test(arguments: [CorruptionPolicy.fail, .renameAside, .salvage])
  func `a damaged database is refused, renamed aside, or salvaged as far as possible`(policy: CorruptionPolicy) throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    try fill(path)
    let files = try FileManager.default.contentsOfDirectory(atPath: path)
    let manifest = path + "/" + (try #require(files.first { $0.hasPrefix("MANIFEST") }))
    var bytes = try #require(FileManager.default.contents(atPath: manifest))
    for index in bytes.indices where index % 16 == 12 { bytes[index] ^= 0xFF }
    try bytes.write(to: URL(fileURLWithPath: manifest))
    var options = DatabaseOptions()
    options.onCorruption = policy
    switch policy {
    case .fail:
      #expect(errorCode { _ = try Database.open(at: path, options: options) } == .corruption)
      #expect(try FileManager.default.contentsOfDirectory(atPath: path).sorted() == files.sorted())
    case .renameAside, .salvage:
      let database = try Database.open(at: path, options: options)
      #expect(try keys(database) == (policy == .salvage ? Array(0..<10) : []))
      #expect(
        FileManager.default.fileExists(atPath: path + ".1.corrupt/" + URL(fileURLWithPath: manifest).lastPathComponent))
      try database.close()
    }
  }
}
