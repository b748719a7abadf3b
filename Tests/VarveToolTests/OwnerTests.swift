import EngineTestSupport
import Foundation
import Testing

/// Tests of commands that the system's administrator runs on the database of another user.
@Suite(.enabled(if: geteuid() == 0, "only the administrator can make files of another user"))
struct OwnerTests {
  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }
  /// A user that has no processes and no name.
  private static let user = uid_t(54_321)

  private func give() throws {
    #expect(unsafe chown(directory.path, Self.user, Self.user) == 0)
    for name in try FileManager.default.subpathsOfDirectory(atPath: directory.path) {
      #expect(unsafe chown(directory.path + "/" + name, Self.user, Self.user) == 0)
    }
  }

  /// The files that belong to another user than the database.
  private func foreign() throws -> [String] {
    try FileManager.default.subpathsOfDirectory(atPath: directory.path).filter { name in
      try FileManager.default.attributesOfItem(atPath: directory.path + "/" + name)[.ownerAccountID] as? Int
        != Int(Self.user)
    }
  }

  @Test func `what a command writes belongs to the user to whom the database belongs`() throws {
    try Tool.good(["put", database, "a", "1", "--create"])
    try give()
    try Tool.good(["put", database, "b", "2"])
    try Tool.good(["flush", database])
    try Tool.good(["compact", database])
    try Tool.good(["checkpoint", database, directory.path + "/copy"])
    for _ in 0..<3 { try Tool.good(["backup", "create", database, directory.path + "/backups", "--keep", "2"]) }
    try Tool.good(["backup", "prune", directory.path + "/backups", "--keep", "1"])
    try Tool.good(["delete", database, "a"])
    try Tool.good(["repair", database])
    #expect(try foreign() == [])
    #expect(try Tool.good(["scan", database]) == "b\t2\n")
  }

  @Test func `a command does not write where the user to whom the database belongs can't`() throws {
    try Tool.good(["put", database, "a", "1", "--create"])
    try give()
    let other = TemporaryDirectory()
    let result = try Tool.run(["checkpoint", database, other.path + "/copy"])
    #expect(result.status == 3 && result.errors.contains("Permission denied"), "\(result)")
    #expect(try FileManager.default.contentsOfDirectory(atPath: other.path) == [])
  }
}
