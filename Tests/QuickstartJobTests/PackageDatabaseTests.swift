import Foundation
import Testing
import Varve
import VarveEngine
import VarveInspection

@testable import QuickstartJob

/// Tests of the job that checks the database: a check that misses a difference would hide a database that lost data.
struct PackageDatabaseTests {
  private let packages: PackageDatabase

  init() throws {
    packages = PackageDatabase(try Database.inMemory(definition: try PackageDatabase.definition()))
  }

  @Test func `loaded packages are found by every query`() throws {
    let loaded = try load()
    #expect(loaded.stanzaCount == 50 && loaded.packages.count == 50 && loaded.transactionCount == 1)
    let queries = try PackageChecks(packages, loaded.packages).run().queries
    #expect(queries.sections.map(\.count).reduce(0, +) == 50)
    #expect(queries.sections.map(\.installedSize) == queries.sections.map(\.installedSize).sorted(by: >))
    #expect(queries.byMaintainer.foundCount == 50 && queries.bySection.foundCount > 50)
    #expect(queries.byName.foundCount > 100 && queries.byName.queryCount > 50)
  }

  @Test func `a transaction holds a thousand packages, and the later of two stanzas of a package counts`() throws {
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
    let queries = try PackageChecks(packages, loaded.packages).run().queries
    #expect(
      queries.sections == [
        PackageQueryChecks.Section(name: "large", count: 1, installedSize: 5),
        PackageQueryChecks.Section(name: "small", count: 2, installedSize: 4),
        PackageQueryChecks.Section(name: "none", count: 1, installedSize: 0),
      ])
  }

  @Test func `packages are stored with a format version, and their architecture and priority as metadata`() throws {
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
    #expect(contents.metadata?.json == #"{"architecture":"amd64","priority":"optional"}"#)
    #expect(contents.object.json?.contains("architecture") == false)
    #expect(try inspector.indexes { throw $0 }.map(\.name) == ["byMaintainer", "byName", "bySection"])
    try inspector.close()
  }

  /// The faults that are made in the stored packages; the check must find each of them.
  enum Fault: CaseIterable {
    case absent, additional, otherField, otherDependency, otherSection, otherSize, otherMetadata, noMetadata
  }

  @Test(arguments: Fault.allCases)
  func `every difference between the stored and the loaded packages is found`(fault: Fault) throws {
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
      case .otherSection: try store.modify(id, in: tx) { $0.section = "other" }
      case .otherSize: try store.modify(id, in: tx) { $0.installedSize = 1 }
      case .otherMetadata: try store.modify(id, in: tx) { $0.metadata?.priority = "other" }
      case .noMetadata: try store.setMetadata(nil, of: id, in: tx)
      }
    }
    #expect(throws: JobError.self) { try PackageChecks(packages, loaded.packages).run() }
  }

  /// The faults that are made in an index while the packages are right.
  enum IndexFault: CaseIterable {
    case withoutEntry, additionalEntry
  }

  @Test(arguments: IndexFault.allCases, ["byMaintainer", "bySection", "byName"])
  func `an index that differs from the packages is found`(fault: IndexFault, index: String) throws {
    let path = NSTemporaryDirectory() + "varve-packages-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: path) }
    let stored = try PackageDatabase(try Engine.open(at: path), path: path)
    let loaded = try stored.load(try PackageIndex(contentsOf: PackageSamples.path))
    try stored.close()

    let engine = try Engine.open(at: path)
    let family = try #require(engine.families.first { $0.name.hasSuffix(".i.\(index)") })
    let entry = try Self.entry(17, in: family, of: engine)
    switch fault {
    case .withoutEntry: try engine.delete(entry, in: family)
    case .additionalEntry:
      // An entry of the same row for another value.
      var other = entry
      other[3] += 1
      try engine.put(other, [], in: family)
    }
    try engine.close()

    let again = try PackageDatabase(try Engine.open(at: path), path: path)
    #expect(throws: JobError.self) { try PackageChecks(again, loaded.packages).run() }
    try again.close()
  }

  private static func entry(_ number: Int, in family: ColumnFamily, of engine: Engine) throws -> [UInt8] {
    var cursor = try engine.cursor(in: family)
    try cursor.seekToFirst()
    for _ in 0..<number { try cursor.next() }
    return cursor.keyBytes
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
