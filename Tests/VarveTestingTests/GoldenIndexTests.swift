import Foundation
import Synchronization
import Testing
import Varve

@testable import VarveTesting

/// Tests of indexes of databases that older versions wrote.
struct GoldenIndexTests {
  fileprivate struct Track: Codable, Identifiable, Hashable, Sendable {
    var id: Int
    var title: String
    var seconds = 0
    var minutes: Int { seconds / 60 }
  }

  fileprivate enum One: Int, CaseIterable { case first = 1 }
  fileprivate enum Two: Int, CaseIterable { case first = 1, second }

  /// The format that was shipped.
  fileprivate struct Shipped: StoreFormat {
    typealias Instance = Track
    static let collection = "tracks"
    static let currentVersion = One.first
    static func decode(_ stored: StoredValue, version: One) throws -> Track { try stored.decode() }
    let title = Index(\.title)
    let length = Index(\.minutes, version: 1)
    let unique = OneToOneIndex(\.title, name: "uniqueTitle")
  }

  /// A format that reads a title in another way, without declaring it.
  fileprivate struct Trimmed: StoreFormat {
    typealias Instance = Track
    static let collection = "tracks"
    static let currentVersion = One.first
    static func decode(_ stored: StoredValue, version: One) throws -> Track {
      var track = try stored.decode(Track.self)
      if track.id == 3 { track.title = "trimmed" }
      return track
    }
    let title = Index(\.title)
    let length = Index(\.minutes, version: 1)
    let unique = OneToOneIndex(\.title, name: "uniqueTitle")
  }

  /// The same format as `Trimmed`, with a new version.
  fileprivate struct TrimmedVersion: StoreFormat {
    typealias Instance = Track
    static let collection = "tracks"
    static let currentVersion = Two.second
    static func decode(_ stored: StoredValue, version: Two) throws -> Track {
      var track = try stored.decode(Track.self)
      if version == .first, track.id == 3 { track.title = "trimmed" }
      return track
    }
    let title = Index(\.title)
    let length = Index(\.minutes, version: 1)
    let unique = OneToOneIndex(\.title, name: "uniqueTitle")
  }

  /// A format that declares that its conversion changes no value of an index, and changes one.
  fileprivate struct Surviving: StoreFormat {
    typealias Instance = Track
    static let collection = "tracks"
    static let currentVersion = Two.second
    static let indexesSurvive = true
    static func decode(_ stored: StoredValue, version: Two) throws -> Track {
      try TrimmedVersion.decode(stored, version: version)
    }
    let title = Index(\.title)
    let length = Index(\.minutes, version: 1)
    let unique = OneToOneIndex(\.title, name: "uniqueTitle")
  }

  /// A format that computes an indexed value in another way.
  fileprivate struct Rounded: StoreFormat {
    typealias Instance = Track
    static let collection = "tracks"
    static let currentVersion = One.first
    static func decode(_ stored: StoredValue, version: One) throws -> Track { try stored.decode() }
    let title = Index(\.title)
    let length = Index(\.roundedMinutes, name: "length", version: 1)
    let unique = OneToOneIndex(\.title, name: "uniqueTitle")
  }

  /// The same format as `Rounded`, with a new version.
  fileprivate struct RoundedVersion: StoreFormat {
    typealias Instance = Track
    static let collection = "tracks"
    static let currentVersion = One.first
    static func decode(_ stored: StoredValue, version: One) throws -> Track { try stored.decode() }
    let title = Index(\.title)
    let length = Index(\.roundedMinutes, name: "length", version: 2)
    let unique = OneToOneIndex(\.title, name: "uniqueTitle")
  }

  /// A format with another name for the collection, and with indexes that have changed.
  fileprivate struct Moved: StoreFormat {
    typealias Instance = Track
    static let collection = "songs"
    static let formerKeys = ["tracks"]
    static let currentVersion = One.first
    static func decode(_ stored: StoredValue, version: One) throws -> Track { try stored.decode() }
    let title = Index(\.seconds)
    let unique = OneToOneIndex(\.title, name: "uniqueTitle")
    let late = Index(\.id)
  }

  private static func golden() throws -> Golden {
    try Golden(DatabaseDefinition { Shipped.self }) {
      for id in 1...50 { Fixture(Shipped.self, Track(id: id, title: "title \(id)", seconds: id * 20)) }
    }
  }

  private func open<Format: StoreFormat>(
    _ golden: Golden, _ format: Format.Type, _ body: (Database, Store<Format>) throws -> Void
  ) throws {
    try golden.snapshot.open(definition: DatabaseDefinition { format }) { database in
      try body(database, Store(in: database))
    }
  }

  private func error<Format: StoreFormat>(_ golden: Golden, _ format: Format.Type) -> DatabaseError? {
    databaseError { try open(golden, format) { _, _ in Issue.record("the closure should not run") } }
  }

  private func changes<Format: StoreFormat>(_ golden: Golden, _ format: Format.Type) throws -> [IndexChange] {
    try golden.snapshot.indexChanges(definition: DatabaseDefinition { format })
  }

  @Test func `indexes with unchanged definitions are used, and no change is listed`() throws {
    let golden = try Self.golden()
    let before = try golden.files()
    #expect(try changes(golden, Shipped.self) == [])
    try open(golden, Shipped.self) { database, tracks throws in
      #expect(try reading(database) { tx in try tracks.load(.value("title 7"), from: \.unique, in: tx)?.id } == 7)
      #expect(try reading(database) { tx in try tracks.count(.range(0...3), from: \.length, in: tx) } == 11)
    }
    #expect(try golden.files() == before && golden.leftovers.isEmpty)
  }

  @Test func `a conversion that changes an index key without a new version is an error that names the row`() throws {
    let golden = try Self.golden()
    // The definitions do not differ: their hashes are equal.
    #expect(try changes(golden, Trimmed.self) == [])
    let error = error(golden, Trimmed.self)
    #expect(error?.code == .definitionDiffers && error?.collection == "tracks" && error?.key == "3", "\(error as Any)")
    #expect(error?.message.contains("index \"title\": missing \"trimmed\" of tracks/3") == true, "\(error as Any)")
    try open(golden, TrimmedVersion.self) { database, tracks throws in
      #expect(try reading(database) { tx in try tracks.load(.value("trimmed"), from: \.unique, in: tx)?.id } == 3)
      #expect(try reading(database) { tx in try tracks.count(.value("title 3"), from: \.title, in: tx) } == 0)
    }
  }

  @Test func `a conversion that changes an index key although it declares the opposite is an error`() throws {
    let error = error(try Self.golden(), Surviving.self)
    #expect(error?.code == .definitionDiffers && error?.key == "3", "\(error as Any)")
  }

  @Test func `a changed computation of an index key requires a new version of the index`() throws {
    let golden = try Self.golden()
    #expect(error(golden, Rounded.self)?.code == .definitionDiffers)
    try open(golden, RoundedVersion.self) { database, tracks throws in
      #expect(try reading(database) { tx in try tracks.count(.range(1...1), from: \.length, in: tx) } == 3)
    }
  }

  @Test func `changed index definitions are listed in both forms, even for a renamed collection`() throws {
    let golden = try Self.golden()
    let changes = try changes(golden, Moved.self)
    #expect(changes.map(\.kind) == [.added, .removed, .redefined])
    #expect(changes.map(\.index) == ["late", "length", "title"])
    #expect(changes.allSatisfy { $0.collection == "songs" })
    #expect(
      changes.last?.description
        == "index \"title\" of \"songs\" is redefined: index|string|false|title, now index|int|false|seconds")
    try open(golden, Moved.self) { database, songs throws in
      #expect(try reading(database) { tx in try songs.load(.value("title 9"), from: \.unique, in: tx)?.id } == 9)
      #expect(try reading(database) { tx in try songs.count(.range(20...60), from: \.title, in: tx) } == 3)
    }
  }

  @Test func `listing the index changes of a missing snapshot is an error`() throws {
    let golden = try Golden()
    #expect(databaseError { _ = try changes(golden, Shipped.self) }?.code == .notFound)
  }
}

extension GoldenIndexTests.Track {
  fileprivate var roundedMinutes: Int { (seconds + 30) / 60 }
}
