import Foundation
import Testing

/// Tests of `varve import` as a script sees it. The tests that need the trait SQLite are run by
/// `Tests/ImportTarget/run`.
struct ImportCommandTests {
  private let directory = TemporaryDirectory()

  private var arguments: [String] {
    ["import", "sqlite", directory.path + "/db", directory.path + "/none", "note", "--into", "notes", "--key", "id"]
  }

  @Test func `the help of import has an example, and describes how to build the command`() throws {
    #expect(try Tool.good(["import", "--help"]).contains("Example: varve import sqlite"))
    let help = try Tool.good(["import", "sqlite", "--help"])
    #expect(help.contains("Example: varve import sqlite") && help.contains("--json"))
    #expect(help.contains("--traits SQLite") && help.contains("Core Data"))
  }

  @Test func `an import from a missing file creates no database`() throws {
    let result = try Tool.run(arguments + ["--create"])
    // Without the trait, the error describes how to build the command.
    #expect(result.status == 3 || result.errors.contains("--traits SQLite"), "\(result)")
    #expect(result.status != 0 && !FileManager.default.fileExists(atPath: directory.path + "/db"))
  }

  @Test(arguments: [["--batch", "0"], ["--batch", "many"], ["--field"]])
  func `an invalid command line exits with status 2`(more: [String]) throws {
    #expect(try Tool.run(arguments + more).status == 2)
    #expect(try Tool.run(Array(arguments.dropLast(2))).status == 2)
  }
}
