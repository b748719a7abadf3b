import EngineTestSupport
import Foundation
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of indexes of collections of rows, defined by closures.
struct RowIndexTests {
  private struct Song: Codable, Hashable, Sendable {
    var title: String
    var artist: String
    var genres: [String] = []
    var seconds: Double = 180
  }

  private struct Play: Codable, Hashable, Sendable {
    var count: Int
  }

  private static let byArtist = RowIndex("byArtist", in: "songs", version: 1) { row in
    try row.object(as: Song.self).artist
  }
  private static let byTitle = RowIndex("byTitle", in: "songs", version: 1, isUnique: true) { row in
    try row.object(as: Song.self).title
  }
  private static let byGenre = RowIndex("byGenre", in: "songs", version: 1, isDirect: true) { row in
    try row.object(as: Song.self).genres
  }
  private static let byPlays = RowIndex("byPlays", in: "songs", version: 1) { row in
    try row.metadata(as: Play.self).map { Compound(Descending($0.count), try row.key(as: String.self)) }
  }
  private static let byLength = RowIndex("byLength", in: "songs", version: 1, skipsInvalid: true) { row in
    try row.object(as: Song.self).seconds
  }

  private static func definition() throws -> DatabaseDefinition {
    try DatabaseDefinition {
      try CollectionDefinition("songs", Song.self, key: String.self)
        .indexed(by: byArtist, byTitle, byGenre, byPlays, byLength)
    }
  }

  private static let songs: [String: Song] = [
    "a": Song(title: "Feeling Good", artist: "Nina Simone", genres: ["jazz", "soul", "jazz"]),
    "b": Song(title: "Sinnerman", artist: "Nina Simone", genres: ["jazz"], seconds: 620),
    "c": Song(title: "Hyperballad", artist: "Björk", seconds: .nan),
    "d": Song(title: "Naima", artist: "John Coltrane", genres: ["jazz"], seconds: 261),
  ]

  private static func filled() throws -> Database {
    let database = try Database.inMemory(definition: definition())
    try database.write { tx in
      for (key, song) in songs.sorted(by: { $0.key < $1.key }) { try tx.set(song, key: key, in: "songs") }
    }
    return database
  }

  private static func keys<Value: KeyCodable>(_ rows: consuming IndexedRows<Value>) throws -> [String] {
    try rows.compactMap { try $0.key(as: String.self) }
  }

  @Test func `rows are found by values, ranges and first parts, in the order of the index`() async throws {
    let database = try Self.filled()
    try database.core.read { tx throws in
      #expect(try Self.keys(tx.rows(.value("Nina Simone"), from: Self.byArtist)) == ["a", "b"])
      #expect(try Self.keys(tx.rows(.value("Nina Simone"), from: Self.byArtist, descending: true, limit: 1)) == ["b"])
      #expect(try Self.keys(tx.rows(.range("C"..<"K"), from: Self.byArtist)) == ["d"])
      #expect(try Self.keys(tx.rows(.all, from: Self.byArtist)) == ["c", "d", "a", "b"])
      #expect(try tx.row(.value("Naima"), from: Self.byTitle)?.object(as: Song.self) == Self.songs["d"])
      #expect(try tx.row(.value("naima"), from: Self.byTitle) == nil)
      #expect(try Self.keys(tx.rows(.value("jazz"), from: Self.byGenre)) == ["a", "b", "d"])
      #expect(try Self.keys(tx.rows(.range("a"...), from: Self.byGenre)) == ["a", "b", "d"])
      #expect(try tx.count(.value("jazz"), from: Self.byGenre) == 3)
      #expect(try tx.count(.all, from: Self.byGenre) == 3)
      #expect(try tx.count(.range("A"..<"C"), from: Self.byArtist) == 1)
      // A NaN is not in the index that excludes NaNs.
      #expect(try Self.keys(tx.rows(.all, from: Self.byLength)) == ["a", "d", "b"])
      var rows = try tx.rows(.all, from: Self.byArtist)
      try rows.seek(to: "K")
      #expect(try Array(rows).map { try $0.key(as: String.self) } == ["a", "b"])
      #expect(errorCode { _ = try tx.rows(.all, from: Self.byArtist, limit: -1) } == .invalidArgument)
    }
    #expect(
      try await database.rows(.value("jazz"), from: Self.byGenre).collect().map { try $0.key(as: String.self) } == [
        "a", "b", "d",
      ])
    #expect(try await database.rows(.range("C"...), from: Self.byArtist, limit: 2).collect().count == 2)
    #expect(try await database.rows(.all, from: Self.byArtist, descending: true).collect().count == 4)
  }

  @Test func `changes of objects and metadata change the indexes, and a touch does not`() throws {
    let database = try Self.filled()
    func plays(_ tx: ReadTransaction) throws -> [String] { try Self.keys(tx.rows(.all, from: Self.byPlays)) }
    try database.write { tx throws in
      #expect(try plays(tx) == [])
      _ = try tx.replaceMetadata(Play(count: 3), key: "a", in: "songs")
      _ = try tx.replaceMetadata(Play(count: 9), key: "c", in: "songs")
      _ = try tx.replaceMetadata(Play(count: 3), key: "b", in: "songs")
      // The row with the most plays is first.
      #expect(try plays(tx) == ["c", "a", "b"])
      #expect(try Self.keys(tx.rows(.prefix(Descending(3)), from: Self.byPlays)) == ["a", "b"])
    }
    try database.write { tx throws in
      _ = try tx.replaceMetadata(Play(count: 1), key: "c", in: "songs")
      #expect(try plays(tx) == ["a", "b", "c"])
      _ = try tx.touchObject(key: "a", in: "songs")
      // `set` clears the metadata.
      try tx.set(Song(title: "Sinnerman", artist: "Peter Tosh"), key: "b", in: "songs")
      #expect(try plays(tx) == ["a", "c"])
      #expect(try Self.keys(tx.rows(.value("Nina Simone"), from: Self.byArtist)) == ["a"])
      #expect(try Self.keys(tx.rows(.value("jazz"), from: Self.byGenre)) == ["a", "d"])
      _ = try tx.remove(key: "a", in: "songs")
      #expect(try plays(tx) == ["c"])
    }
    #expect(try database.verifyIndexes(of: "songs").isEmpty)
  }

  @Test func `metadata alone changes an index of rows`() throws {
    let database = try Database.inMemory {
      try CollectionDefinition("songs", Song.self, key: String.self).indexed(by: Self.byPlays)
    }
    try database.write { tx in
      try tx.set(Song(title: "x", artist: "y"), key: "a", in: "songs", metadata: Play(count: 1))
    }
    try database.write { tx in _ = try tx.replaceMetadata(Play(count: 2), key: "a", in: "songs") }
    try database.read { tx throws in
      #expect(try tx.count(.value(Compound(Descending(2), "a")), from: Self.byPlays) == 1)
      #expect(try tx.count(.all, from: Self.byPlays) == 1)
    }
    #expect(try database.verifyIndexes(of: "songs").isEmpty)
  }

  @Test func `a second row with the value of a unique index is refused`() throws {
    let database = try Self.filled()
    let code = errorCode {
      try database.write { tx in try tx.set(Song(title: "Naima", artist: "X"), key: "z", in: "songs") }
    }
    #expect(code == .notUnique)
    #expect(try database.read { tx in try tx.contains(key: "z", in: "songs") } == false)
  }

  @Test func `indexes are added and removed with the definition, and rebuilt on request`() throws {
    let shared = try SharedBackend()
    let plain = DatabaseDefinition { CollectionDefinition("songs", Song.self, key: String.self) }
    var database = try shared.open(plain)
    try database.write { tx in for (key, song) in Self.songs { try tx.set(song, key: key, in: "songs") } }
    #expect(
      errorCode { _ = try database.read { tx in try tx.row(.value("x"), from: Self.byTitle) } } == .unknownExtension)
    #expect(errorCode { try database.warmIndexes(of: "songs") } == .unknownExtension)
    try database.close()
    database = try shared.open(try Self.definition())
    try database.warmIndexes(of: "songs")
    #expect(try database.read { tx in try Self.keys(tx.rows(.value("jazz"), from: Self.byGenre)) } == ["a", "b", "d"])
    try database.rebuild(Self.byGenre)
    #expect(try database.read { tx in try Self.keys(tx.rows(.value("jazz"), from: Self.byGenre)) } == ["a", "b", "d"])
    #expect(try database.verifyIndexes(of: "songs", sample: 2).isEmpty)
    #expect(try database.read { tx in try tx.unindexedRows(in: "songs") }.isEmpty)
    try database.close()
    // A program that does not name the indexes leaves them stale, and one that names none drops them.
    database = try shared.open(plain)
    try database.write { tx in try tx.set(Song(title: "Ex", artist: "Y", genres: ["jazz"]), key: "e", in: "songs") }
    try database.close()
    database = try shared.open(try Self.definition())
    try database.warmIndexes(of: "songs")
    #expect(try database.read { tx in try tx.count(.value("jazz"), from: Self.byGenre) } == 4)
    try database.close()
    database = try shared.open(
      try DatabaseDefinition { try CollectionDefinition("songs", Song.self, key: String.self).indexed() })
    #expect(try shared.families().filter { $0.name.hasPrefix("x.") }.isEmpty)
    try database.close()
  }

  @Test func `an index whose closure has other values and another version is rebuilt, and any other change is refused`()
    throws
  {
    let shared = try SharedBackend()
    var database = try shared.open(try Self.definition())
    try database.write { tx in for (key, song) in Self.songs { try tx.set(song, key: key, in: "songs") } }
    let other = RowIndex("byArtist", in: "songs", version: 2) { row in try row.object(as: Song.self).artist.uppercased()
    }
    #expect(errorCode { _ = try database.read { tx in try tx.count(.all, from: other) } } == .invalidDefinition)
    let unique = RowIndex("byArtist", in: "songs", version: 1, isUnique: true) { row in
      try row.object(as: Song.self).artist
    }
    #expect(errorCode { _ = try database.read { tx in try tx.count(.all, from: unique) } } == .invalidDefinition)
    try database.close()
    database = try shared.open(
      try DatabaseDefinition { try CollectionDefinition("songs", Song.self, key: String.self).indexed(by: other) })
    try database.warmIndexes(of: "songs")
    #expect(try database.read { tx in try tx.count(.value("NINA SIMONE"), from: other) } == 2)
    #expect(errorCode { _ = try database.read { tx in try tx.count(.all, from: Self.byTitle) } } == .invalidDefinition)
    try database.close()
  }

  @Test func `invalid definitions are refused`() {
    func code(_ body: () throws -> CollectionDefinition) -> DatabaseError.Code? { errorCode { _ = try body() } }
    let songs = CollectionDefinition("songs", Song.self, key: String.self)
    #expect(
      code { try CollectionDefinition("others", Song.self, key: String.self).indexed(by: Self.byArtist) }
        == .invalidDefinition)
    #expect(code { try songs.indexed(by: Self.byArtist, Self.byArtist) } == .invalidDefinition)
    #expect(code { try songs.indexed(by: Self.byArtist).indexed(by: Self.byArtist) } == .invalidDefinition)
    #expect(code { try songs.indexed(by: Self.byArtist).indexed(by: Self.byTitle) } == nil)
    #expect(code { try songs.indexed(by: RowIndex("x", in: "songs", version: 0) { _ in 1 }) } == .invalidDefinition)
    #expect(code { try songs.indexed(by: RowIndex("", in: "songs", version: 1) { _ in 1 }) } == .invalidDefinition)
    #expect(
      code {
        try CollectionDefinition(VolumeFormat.self).indexed(by: RowIndex("x", in: "volumes", version: 1) { _ in 1 })
      } == .invalidDefinition)
  }

  @Test func `a closure that throws refuses the change, and a build lists the rows it can't read`() throws {
    struct Refused: Error {}
    let shared = try SharedBackend()
    let picky = RowIndex("picky", in: "songs", version: 1) { row -> String? in
      let artist = try row.object(as: Song.self).artist
      if artist == "X" { throw Refused() }
      if artist == "Y" { throw DatabaseError(.decodingFailed, "no Y") }
      return artist
    }
    let definition = try DatabaseDefinition {
      try CollectionDefinition("songs", Song.self, key: String.self).indexed(by: picky)
    }
    var database = try shared.open(definition)
    #expect(throws: Refused.self) {
      try database.write { tx in try tx.set(Song(title: "x", artist: "X"), key: "x", in: "songs") }
    }
    try database.close()
    database = try shared.open(
      try DatabaseDefinition { try CollectionDefinition("songs", Song.self, key: String.self).indexed() })
    try database.write { tx in
      try tx.set(Song(title: "y", artist: "Y"), key: "y", in: "songs")
      try tx.set(Song(title: "z", artist: "Z"), key: "z", in: "songs")
    }
    try database.close()
    database = try shared.open(definition)
    try database.warmIndexes(of: "songs")
    #expect(try database.read { tx in try Self.keys(tx.rows(.all, from: picky)) } == ["z"])
    #expect(try database.read { tx in try tx.unindexedRows(in: "songs") }.map(\.key.text) == ["\"y\""])
    try database.close()
  }
}
