import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of the examples of extensions and of plain rows in the documents that the project grew from: they compile,
/// run, and are no longer than there. The test suites of views, indexes, relationships and tasks contain those of
/// their area.
struct SeedExtensionTests {
  // MARK: - Writing an extension

  /// The features that the document shows for an extension: it knows whether a row is new, and keeps row identifiers
  /// and settings.
  struct Sauce: DatabaseExtension {
    static let kind = "test.sauce"
    var version = "1"
    var configuration: ExtensionConfiguration {
      var configuration = ExtensionConfiguration(version: version)
      configuration.events = [.inserts, .updates]
      configuration.parts = [PartDefinition("heard"), PartDefinition("ids")]
      return configuration
    }
    func makeTransaction(_ context: ExtensionContext<Self>) throws -> SauceTransaction { try SauceTransaction(context) }
  }

  final class SauceTransaction: ExtensionTransaction {
    typealias Definition = Sauce
    let context: ExtensionContext<Sauce>
    let lines: Part
    private let ids: Part
    init(_ context: ExtensionContext<Sauce>) throws {
      self.context = context
      lines = try context.part("heard")
      ids = try context.part("ids")
    }

    func didChange(_ change: borrowing RowChange) throws {
      guard let row = try change.row else { return }
      let key = Array("\(row.key)".utf8)
      let metadata = try row.metadata(as: String.self) ?? "-"
      try lines.put(key, Array("\(change.event) \(try row.object(as: String.self)) \(metadata)".utf8))
      try ids.put(key, Array("\(row.id)".utf8))
    }

    func heard(_ key: String) throws -> String? { try text(lines, key) }
    func id(_ key: String) throws -> String? { try text(ids, key) }
    private func text(_ part: Part, _ key: String) throws -> String? {
      try part.get(Array(key.utf8)).map { String(decoding: $0, as: UTF8.self) }
    }
  }

  @Test func `hooks distinguish inserts from updates, with key, object, metadata and a stable number`() throws {
    let database = try Database.inMemory()
    let sauce = try database.registerReady(Sauce(), as: "awesome_sauce")
    func look(_ key: String) throws -> (heard: String?, id: String?) {
      try database.read { tx in (try tx[sauce].heard(key), try tx[sauce].id(key)) }
    }
    try database.write { tx in try tx.set("bar", key: "foo", in: "c") }
    let inserted = try look("c/\"foo\"")
    #expect(inserted.heard == "inserted bar -")
    try database.write { tx in try tx.set("baz", key: "foo", in: "c", metadata: "m") }
    let updated = try look("c/\"foo\"")
    #expect(updated.heard == "updated baz m")
    #expect(updated.id == inserted.id && inserted.id != nil, "a row keeps its number")
    // A number is not reused, even for a row with the same key.
    try database.write { tx in
      try tx.remove(key: "foo", in: "c")
      try tx.set("again", key: "foo", in: "c")
    }
    #expect(try look("c/\"foo\"").id != inserted.id)
    let id = try database.read { tx in try tx.row(key: "foo", in: "c")?.id }
    #expect(try look("c/\"foo\"").id == id.map { "\($0)" })
  }

  @Test func `registering delivers existing rows at the first start, and again for another version`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    for (version, expected) in [("1", "inserted bar -"), ("1", "kept"), ("2", "inserted bar -")] {
      let database = try Database.open(at: path)
      if try database.read({ tx in try tx.count() }) == 0 {
        try database.write { tx in try tx.set("bar", key: "foo", in: "c") }
      }
      let sauce = try database.registerReady(Sauce(version: version), as: "awesome_sauce")
      let heard = try database.read { tx in try tx[sauce].heard("c/\"foo\"") }
      #expect(heard == expected, "version \(version)")
      // If the extension is not rebuilt, this entry is still there at the next start.
      try database.write { tx in try tx[sauce].lines.put(Array("c/\"foo\"".utf8), Array("kept".utf8)) }
      try database.close()
    }
  }

  @Test func `settings of each type are stored and read, on disk and in memory`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    var database = try Database.open(at: path)
    var sauce = try database.registerReady(Sauce(), as: "awesome_sauce")
    try database.write { [sauce] tx in
      let context = try tx[sauce].context
      try context.set("bar", for: "foo")
      try context.set(true, for: "isHot")
      try context.set(7, for: "spices")
      try context.set(2.5, for: "litres")
      try context.set(.data([1, 2]), for: "label")
      try context.set("gone soon", for: "foo", isPersistent: false)
    }
    func check(_ inMemory: String?) throws {
      try database.read { [sauce] tx throws in
        let context = try tx[sauce].context
        #expect(try context.setting("foo")?.stringValue == "bar")
        #expect(try context.setting("isHot")?.boolValue == true)
        #expect(try context.setting("spices")?.integerValue == 7)
        #expect(try context.setting("litres")?.doubleValue == 2.5)
        #expect(try context.setting("label")?.dataValue == [1, 2])
        #expect(try context.setting("foo", isPersistent: false)?.stringValue == inMemory)
        #expect(try context.setting("spices")?.stringValue == nil, "another kind")
        #expect(try context.setting("never set") == nil)
      }
    }
    try check("gone soon")
    try database.close()
    database = try Database.open(at: path)
    sauce = try database.registerReady(Sauce(), as: "awesome_sauce")
    try check(nil)
    try database.write { [sauce] tx in try tx[sauce].context.set(nil, for: "foo") }
    let gone = try database.read { [sauce] tx in try tx[sauce].context.setting("foo") }
    #expect(gone == nil)
    try database.close()
  }

  // MARK: - Objects that refer to each other

  struct Song: Codable, Sendable {
    var title: String
    var albumID: String
    var artistID: UUID
  }
  struct Album: Codable, Sendable, Hashable { var title: String }

  @Test func `an object's relatives are read by the keys that it holds, and exist until they are removed`() throws {
    let database = try Database.inMemory()
    let artist = UUID()
    try database.write { tx in
      try tx.set(Song(title: "Wanderers Nachtlied", albumID: "op96", artistID: artist), key: 3, in: "songs")
      try tx.set(Album(title: "Opus 96"), key: "op96", in: "albums")
      try tx.set("Schubert", key: artist, in: "artists")
    }
    var found: (album: Album?, artist: String?) = (nil, nil)
    try database.read { tx in
      if let song = try tx.object(Song.self, key: 3, in: "songs") {
        found.album = try tx.object(Album.self, key: song.albumID, in: "albums")
        found.artist = try tx.object(String.self, key: song.artistID, in: "artists")
      }
    }
    #expect(found.album == Album(title: "Opus 96") && found.artist == "Schubert")
    var exists: [Bool] = []
    try database.write { tx in
      exists.append(try tx.contains(key: "op96", in: "albums"))
      try tx.remove(key: "op96", in: "albums")
      exists.append(try tx.contains(key: "op96", in: "albums"))
    }
    exists.append(try database.read { tx in try tx.contains(key: "op96", in: "albums") })
    #expect(exists == [true, false, false])
  }
}
