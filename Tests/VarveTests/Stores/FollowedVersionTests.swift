import EngineTestSupport
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of a process that follows a database whose writer adds versions of a format meanwhile.
struct FollowedVersionTests {
  /// The format before the update of the program, with one version.
  private struct Before: StoreFormat {
    static let collection = "letters"
    enum Version: String, CaseIterable, Sendable { case first }
    static let currentVersion = Version.first
    typealias Instance = Note
    typealias Metadata = Stars
    static func decode(_ stored: StoredValue, version: Version) throws -> Note { try stored.decode() }
    static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> Stars { try stored.decode() }
  }

  private struct After: StoreFormat {
    static let collection = "letters"
    enum Version: String, CaseIterable, Sendable { case first, second }
    static let currentVersion = Version.second
    typealias Instance = Note
    typealias Metadata = Stars
    static func decode(_ stored: StoredValue, version: Version) throws -> Note {
      switch version {
      case .first: Note(id: try stored.decode(Note.self).id, text: "of the first")
      case .second: try stored.decode()
      }
    }
    static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> Stars { try stored.decode() }
  }

  private static func followed(_ directory: TemporaryDirectory, isDefined: Bool) throws -> Database {
    let definition = DatabaseDefinition {
      if isDefined { After.self }
    }
    var options = DatabaseOptions()
    options.follows = true
    return try OpenDatabase.database(in: directory, definition, options: options)
  }

  @Test(arguments: [true, false])
  func `a follower reads rows of a version its writer numbered since, in a known collection`(
    isDefined: Bool
  ) async throws {
    let directory = try TemporaryDirectory()
    var writer = try OpenDatabase.database(in: directory)
    try await Store<Before>(in: writer).persist(Note(1))
    let reader = try Self.followed(directory, isDefined: isDefined)
    let read = Store<After>(in: reader)
    #expect(try await read.load(1)?.text == "of the first")
    // The writing program is updated: there is a new version, and no new collection.
    try await writer.close()
    writer = try OpenDatabase.database(in: directory)
    try await Store<After>(in: writer).persist(Note(2), metadata: Stars(stars: 2))
    #expect(try await read.load(2) == Note(2))
    #expect(try await read.metadata(of: 2) == Stars(stars: 2))
    #expect(try await read.load(...).collect().map(\.text) == ["of the first", "note 2"])
    let title = try await reader.read { tx in try tx.object(Note.self, key: 2, in: "letters")?.text }
    #expect(title == "note 2")
    let connection = reader.connection()
    #expect(try await connection.read { tx in try read.load(2, in: tx) } == Note(2))
    #expect(await errorCode { try await read.persist(Note(3)) } == .readOnly)
    try await reader.close()
    try await writer.close()
  }

  @Test func `a connection of a follower learns new versions too`() async throws {
    let directory = try TemporaryDirectory()
    let writer = try OpenDatabase.database(in: directory)
    try await Store<Before>(in: writer).persist(Note(1))
    try await writer.close()
    let updated = try OpenDatabase.database(in: directory)
    let reader = try Self.followed(directory, isDefined: true)
    let read = Store<After>(in: reader)
    let connection = reader.connection()
    #expect(try await connection.read { tx in try read.load(1, in: tx)?.text } == "of the first")
    try await Store<After>(in: updated).persist(Note(1))
    #expect(try await connection.read { tx in try read.load(1, in: tx) } == Note(1))
    try await reader.close()
    try await updated.close()
  }

  @Test func `a version unknown to the follower's program is refused by name`() async throws {
    let directory = try TemporaryDirectory()
    let writer = try OpenDatabase.database(in: directory)
    let written = Store<After>(in: writer)
    var options = DatabaseOptions()
    options.follows = true
    try await Store<NoteFormat>(in: writer).persist(Note(1))
    let reader = try OpenDatabase.database(in: directory, options: options)
    let read = Store<Before>(in: reader)
    #expect(try await read.load(1) == nil)
    try await written.persist(Note(1))
    do {
      _ = try await read.load(1)
      Issue.record("a newer row was read")
    } catch let error as DatabaseError {
      #expect(error.code == .unsupportedVersion)
      #expect(error.message.contains("\"second\""), "\(error)")
    }
    try await reader.close()
    try await writer.close()
  }
}
