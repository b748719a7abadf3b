import EngineTestSupport
import Foundation
import Testing

@testable import Varve

/// Tests of the default directory of databases, and of opening by URL.
struct DefaultURLTests {
  private let directory: TemporaryDirectory
  private let home: URL

  init() throws {
    directory = try TemporaryDirectory()
    home = URL(fileURLWithPath: directory.path, isDirectory: true)
  }

  private func code(_ body: () throws -> Void) -> DatabaseError.Code? {
    do { try body() } catch { return (error as? DatabaseError)?.code }
    return nil
  }

  private func path(_ environment: [String: String], program: String? = nil) throws -> String {
    try DefaultLocation(environment: environment, home: home, program: "reader").url(name: "library", program: program)
      .path
  }

  @Test func `the default directory is in the configured data directory, below the program's name`() throws {
    let data = directory.path + "/some/data"
    #expect(try path(["XDG_DATA_HOME": data]) == data + "/reader/library")
    #expect(try path(["XDG_DATA_HOME": data], program: "writer") == data + "/writer/library")
  }

  @Test(arguments: [nil, "", "data", "./data", "~/data"])
  func `the default directory is below the user's home directory if no absolute path is configured`(setting: String?)
    throws
  {
    let environment = setting.map { ["XDG_DATA_HOME": $0] } ?? [:]
    #expect(try path(environment) == directory.path + "/.local/share/reader/library")
  }

  @Test func `missing parent directories are created, for the user alone, and nothing else`() throws {
    let url = URL(fileURLWithPath: try path([:]))
    let folder = url.deletingLastPathComponent().path
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder).isEmpty)
    let permissions = try FileManager.default.attributesOfItem(atPath: folder)[.posixPermissions] as? NSNumber
    #expect(permissions?.intValue == 0o700)
    #expect(try path([:]) == url.path, "those that are there stay")
  }

  @Test(arguments: ["", ".", "..", "a/b", "/", "/a", "a/", "a\0b", "\0"])
  func `a name that can't be a file of the directory is refused, and nothing is created`(name: String) throws {
    let location = DefaultLocation(environment: [:], home: home, program: "reader")
    #expect(code { _ = try location.url(name: name, program: nil) } == .invalidArgument)
    #expect(code { _ = try location.url(name: "library", program: name) } == .invalidArgument)
    #expect(code { _ = try Database.defaultURL(name: name) } == .invalidArgument)
    #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path).isEmpty)
  }

  @Test(arguments: ["...", ".library", "a b", "Bücher", "library.varve", "%2F"])
  func `a valid name is used unchanged`(name: String) throws {
    let location = DefaultLocation(environment: [:], home: home, program: "reader")
    let url = try location.url(name: name, program: nil)
    #expect(url.isFileURL)
    #expect(url.path == directory.path + "/.local/share/reader/" + name)
  }

  @Test func `a file where a directory should be is a storage error`() throws {
    try Data().write(to: home.appending(path: ".local"))
    let location = DefaultLocation(environment: [:], home: home, program: "reader")
    do {
      _ = try location.url(name: "library", program: nil)
      Issue.record("it should throw")
    } catch let error as DatabaseError {
      #expect(error.code == .storage)
      #expect(error.cause != nil)
    }
  }

  @Test func `the program's name is that of its bundle or process, and never empty`() throws {
    #expect(try DefaultLocation.current().program.isEmpty == false)
  }

  // MARK: - Opening by URL

  @Test func `a database opened by URL is the one at the path`() throws {
    let url = try DefaultLocation(environment: [:], home: home, program: "a reader").url(
      name: "my library", program: nil)
    var database = try Database.open(at: url)
    #expect(database.path == directory.path + "/.local/share/a reader/my library")
    try database.write { tx in try tx.set("Emma", key: 1, in: "books") }
    try database.close()
    database = try Database.open(at: url.path)
    #expect(try database.read { tx in try tx.object(String.self, key: 1, in: "books") } == "Emma")
    try database.close()
  }

  @Test func `a task opens a database by its URL, too`() async throws {
    let database = try await Database.open(at: home.appending(path: "library", directoryHint: .isDirectory))
    #expect(database.path == directory.path + "/library")
    try await database.close()
  }

  @Test func `a URL that does not name a file is refused`() async throws {
    let url = try #require(URL(string: "https://example.com/library"))
    #expect(code { _ = try Self.open(url) } == .invalidArgument)
    await #expect(throws: DatabaseError.self) { try await Database.open(at: url) }
  }

  /// Opens by the blocking form, which a task could not name otherwise.
  private static func open(_ url: URL) throws -> Database { try Database.open(at: url) }
}
