import Foundation
import Testing

@testable import QuickstartJob

struct PackageIndexTests {
  @Test(arguments: ["", "\n", "\n\n\n"])
  func `each stanza with package and version is found, whatever the end looks like`(end: String) throws {
    let text =
      "Package: a\nVersion: 1:2-3\nDescription: one\n Package: not a field\n\n\nPackage: no-version\nSize: 1\n\n"
      + "Version: 2\nPackage: b" + end
    let found = try Self.packages(text)
    #expect(found.map(\.id) == [PackageID(name: "a", version: "1:2-3"), PackageID(name: "b", version: "2")])
    #expect(found.first?.otherFields == "Description: one\n Package: not a field\n")
    #expect(found.last?.otherFields == "")
  }

  @Test func `the fields of a package are read, and all other fields are kept`() throws {
    let text = """
      Package: emma
      Architecture: amd64
      Version: 1815-1
      Maintainer: Jane <jane@example.org>
      Installed-Size: 42
      Depends: libc6 (>= 2.34), highbury | hartfield,
       weston
      Section: novels
      Version: 1816-1
      Size: 7

      """
    let package = try #require(try Self.packages(text).first)
    #expect(package.id == PackageID(name: "emma", version: "1815-1"))
    #expect(package.maintainer == "Jane <jane@example.org>")
    #expect(package.dependencies == ["libc6 (>= 2.34)", "highbury | hartfield", "weston"])
    #expect(package.section == "novels" && package.installedSize == 42)
    #expect(package.metadata == DebianPackage.Metadata(architecture: "amd64", priority: nil))
    #expect(package.otherFields == "Version: 1816-1\nSize: 7\n")
  }

  @Test(arguments: ["", "-1", "many", "99999999999999999999", "4294967296"])
  func `an invalid installed size is left out`(size: String) throws {
    let package = try #require(try Self.packages("Package: a\nVersion: 1\nInstalled-Size: \(size)\n").first)
    #expect(package.installedSize == nil)
  }

  @Test(arguments: ["Package:\nVersion: 1\n", "Package: a\nVersion: \n", " Package: a\nVersion: 1\n"])
  func `a stanza without a name or a version is not a package`(text: String) throws {
    #expect(try Self.packages(text).isEmpty)
  }

  @Test func `the shipped sample has fifty packages with all fields that the queries need`() throws {
    var packages: [DebianPackage] = []
    try PackageIndex(contentsOf: PackageSamples.path).forEach { packages.append($0) }
    #expect(Set(packages.map(\.id)).count == 50)
    for package in packages {
      #expect(package.maintainer != nil && package.otherFields.contains("SHA256: "))
      #expect(package.section != nil && package.installedSize != nil)
      #expect(package.metadata?.architecture != nil && package.metadata?.priority != nil)
    }
    #expect(packages.contains { $0.dependencies.count > 1 })
  }

  private static func packages(_ text: String) throws -> [DebianPackage] {
    var packages: [DebianPackage] = []
    try PackageSamples.index(text).forEach { packages.append($0) }
    return packages
  }
}

enum PackageSamples {
  /// The path of the repository's sample.
  static var path: String {
    URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "tools/sample/Packages").path
  }

  static func index(_ text: String) throws -> PackageIndex {
    let path = NSTemporaryDirectory() + "varve-packages-\(UUID().uuidString)"
    try Data(text.utf8).write(to: URL(fileURLWithPath: path))
    defer { try? FileManager.default.removeItem(atPath: path) }
    return try PackageIndex(contentsOf: path)
  }
}
