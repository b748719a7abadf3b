import Foundation
import Testing
import Varve
import VarveEngine
import VarveViews

@testable import QuickstartJob

/// Tests of the check of lists: one that misses a difference would hide a view that has lost rows.
struct PackageListTests {
  @Test func `lists by a view and by a counted index show all packages, and one moves there and back`() throws {
    let packages = PackageDatabase(try Database.inMemory(definition: try PackageDatabase.definition()))
    let loaded = try packages.load(try PackageIndex(contentsOf: PackageSamples.path))
    let sections = Dictionary(grouping: loaded.packages.values, by: \.section)
    let largest = try #require(sections.values.map(\.count).max())
    for _ in 0..<2 {
      let outcome = try PackageListChecks(packages).run()
      #expect(outcome.sectionCount == sections.count && outcome.offsetCount == 50)
      #expect(outcome.moved.from == 0 && outcome.moved.to == largest - 1)
      #expect(sections[outcome.moved.section]?.count == largest)
    }
    // The packages are what they were.
    _ = try PackageChecks(packages, loaded.packages).run()
  }

  @Test func `packages without a section or a size are first, and one package alone stays`() throws {
    let text = "Package: a\nVersion: 1\n\nPackage: b\nVersion: 1\nSection: s\n"
    let packages = PackageDatabase(try Database.inMemory(definition: try PackageDatabase.definition()))
    _ = try packages.load(try PackageSamples.index(text))
    let outcome = try PackageListChecks(packages).run()
    #expect(outcome.sectionCount == 2 && outcome.offsetCount == 2 && outcome.moved.to == 0)
    #expect(try packages.database.read { tx in try tx[DebianPackage.sections].groups().map(\.group) } == [nil, "s"])
  }

  @Test func `a database without packages has no lists`() throws {
    let packages = PackageDatabase(try Database.inMemory(definition: try PackageDatabase.definition()))
    #expect(try PackageListChecks(packages).run().sectionCount == 0)
  }

  /// The faults that are made in the order while the packages are right.
  enum Fault: CaseIterable {
    case withoutEntry, additionalEntry, otherPosition
  }

  @Test(arguments: Fault.allCases, [".i.bySection", ".rows"])
  func `an order that differs from the packages is found`(fault: Fault, suffix: String) throws {
    let path = NSTemporaryDirectory() + "varve-packages-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: path) }
    let stored = try PackageDatabase(try Engine.open(at: path), path: path)
    _ = try stored.load(try PackageIndex(contentsOf: PackageSamples.path))
    try stored.close()

    let engine = try Engine.open(at: path)
    let family = try #require(engine.families.first { $0.name.hasSuffix(suffix) })
    var cursor = try engine.cursor(in: family)
    try cursor.seekToFirst()
    for _ in 0..<17 { try cursor.next() }
    let (entry, value) = (cursor.keyBytes, cursor.valueBytes)
    if fault != .additionalEntry { try engine.delete(entry, in: family) }
    if fault != .withoutEntry {
      // Another letter in the name makes it another section.
      var other = entry
      other[3] += 1
      try engine.put(other, value, in: family)
    }
    try engine.close()

    let again = try PackageDatabase(try Engine.open(at: path), path: path)
    #expect(throws: (any Error).self) { try PackageListChecks(again).run() }
    try again.close()
  }
}
