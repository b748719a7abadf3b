import Foundation
import Testing
import Varve
import VarveEngine
import VarveInspection

@testable import QuickstartJob

/// The job checks the database; these check the job: a check that passes over a difference would excuse a database
/// that lost something.
struct PackageDatabaseTests {
  private let packages: PackageDatabase

  init() throws {
    packages = PackageDatabase(try Database.inMemory(definition: try PackageDatabase.definition()))
  }

  @Test func `what was loaded is found in every way`() throws {
    let loaded = try load()
    #expect(loaded.stanzaCount == 50 && loaded.packages.count == 50 && loaded.transactionCount == 1)
    let outcome = try PackageChecks(packages, loaded.packages).run()
    #expect(outcome.sections.map(\.count).reduce(0, +) == 50)
    #expect(outcome.sections.map(\.installedSize) == outcome.sections.map(\.installedSize).sorted(by: >))
  }

  @Test func `a transaction holds a thousand packages, and of two stanzas for one the later counts`() throws {
    let text = (0..<2_500).map { "Package: p\($0 % 2_400)\nVersion: 1\nSize: \($0)\n" }.joined(separator: "\n")
    let loaded = try packages.load(try PackageSamples.index(text))
    #expect(loaded.stanzaCount == 2_500 && loaded.packages.count == 2_400 && loaded.transactionCount == 3)
    _ = try PackageChecks(packages, loaded.packages).run()
    let id = PackageID(name: "p7", version: "1")
    #expect(try packages.database.read { tx in try packages.store.load(id, in: tx) }?.otherFields == "Size: 2407\n")
  }

  @Test func `sections are counted, the largest first`() throws {
    let text = """
      Package: a
      Version: 1
      Section: small
      Installed-Size: 3

      Package: b
      Version: 1
      Section: large
      Installed-Size: 5

      Package: c
      Version: 1
      Section: small
      Installed-Size: 1

      Package: d
      Version: 1

      """
    let loaded = try packages.load(try PackageSamples.index(text))
    let sections = try PackageChecks(packages, loaded.packages).run().sections
    #expect(
      sections == [
        PackageChecks.Section(name: "large", count: 1, installedSize: 5),
        PackageChecks.Section(name: "small", count: 2, installedSize: 4),
        PackageChecks.Section(name: "none", count: 1, installedSize: 0),
      ])
  }

  @Test func `packages are rows of a format with a version, size and section beside them`() throws {
    let path = NSTemporaryDirectory() + "varve-packages-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: path) }
    let stored = try PackageDatabase(try Engine.open(at: path), path: path)
    let id = try #require(try stored.load(try PackageIndex(contentsOf: PackageSamples.path)).packages.keys.min())
    try stored.close()
    let inspector = try DatabaseInspector.open(at: path)
    let collection = try inspector.collection(PackageFormat.collection)
    #expect(collection.keyType == "compound(string,string)")
    let contents = try #require(try inspector.row(key: try id.encoded(), in: collection)).contents()
    #expect(contents.object.version == "2026-11-22" && contents.metadata?.version == "2026-11-22")
    #expect(contents.metadata?.json == #"{"section":"devel","installedSize":4744}"#)
    #expect(contents.object.json?.contains("devel") == false)
    try inspector.close()
  }

  /// What a fault may do to the stored packages; nothing of it may pass.
  enum Fault: CaseIterable {
    case absent, additional, otherField, otherDependency, otherSection, otherSize, noMetadata
  }

  @Test(arguments: Fault.allCases)
  func `every difference is found`(fault: Fault) throws {
    let loaded = try load()
    let id = try #require(loaded.packages.keys.sorted().dropFirst(17).first)
    let store = packages.store
    try packages.database.write { tx in
      switch fault {
      case .absent: try store.delete(id, in: tx)
      case .additional:
        let other = PackageID(name: id.name, version: id.version + "+1")
        try store.insert(DebianPackage(id: other), in: tx)
      case .otherField: try store.modify(id, in: tx) { $0.otherFields += "Size: 1\n" }
      case .otherDependency: try store.modify(id, in: tx) { $0.dependencies.append("other") }
      case .otherSection: try store.modify(id, in: tx) { $0.metadata?.section = "other" }
      case .otherSize: try store.modify(id, in: tx) { $0.metadata?.installedSize = 1 }
      case .noMetadata: try store.setMetadata(nil, of: id, in: tx)
      }
    }
    #expect(throws: JobError.self) { try PackageChecks(packages, loaded.packages).run() }
  }

  @Test func `the bytes of all families count as live`() throws {
    let engine = try Engine.open(at: "/varve", environment: .inMemory())
    try engine.put([1, 2, 3], [4, 5])
    #expect(try Checks(engine: engine).liveSize() == 5)
    let database = try PackageDatabase(engine, path: ":memory:")
    let empty = try Checks(engine: engine).liveSize()
    let loaded = try database.load(try PackageIndex(contentsOf: PackageSamples.path))
    let text = loaded.packages.values.reduce(0) { $0 + $1.otherFields.utf8.count }
    #expect(try Checks(engine: engine).liveSize() > empty + UInt64(text))
    try database.close()
  }

  private func load() throws -> PackageDatabase.Loaded {
    try packages.load(try PackageIndex(contentsOf: PackageSamples.path))
  }
}
