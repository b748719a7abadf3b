import EngineTestSupport
import Foundation
import Synchronization
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// Tests of indexes across the versions of a format.
struct FormatIndexTests {
  fileprivate struct Song: Codable, Identifiable, Hashable, Sendable {
    var id: Int
    var name: String
    var length = 0
  }

  /// The format of songs as one start of the program defines it.
  fileprivate protocol Program: Sendable {
    associatedtype Version: RawRepresentable & Hashable & CaseIterable & Sendable where Version.RawValue == Int
    static var current: Version { get }
    static var survive: Bool { get }
    static func song(_ stored: StoredValue, _ version: Version) throws -> Song
  }

  /// The versions of two starts of the program.
  fileprivate enum One: Int, CaseIterable { case first = 1 }
  fileprivate enum Two: Int, CaseIterable { case first = 1, second }

  fileprivate enum First: Program {
    typealias Version = One
    static let current = One.first
    static func song(_ stored: StoredValue, _ version: One) throws -> Song { try stored.decode() }
  }

  /// A program whose new version converts names to upper case.
  fileprivate enum Renamed: Program {
    typealias Version = Two
    static let current = Two.second
    static func song(_ stored: StoredValue, _ version: Two) throws -> Song {
      var song = try stored.decode(Song.self)
      if version == .first { song.name = song.name.uppercased() }
      return song
    }
  }

  /// A program whose new version computes a field that is in no index.
  fileprivate enum Lengthened: Program {
    typealias Version = Two
    static let current = Two.second
    static let survive = true
    static func song(_ stored: StoredValue, _ version: Two) throws -> Song {
      var song = try stored.decode(Song.self)
      if version == .first { song.length = song.name.count }
      return song
    }
  }

  /// A program that computes the same field without declaring it.
  fileprivate enum LengthenedQuietly: Program {
    typealias Version = Two
    static let current = Two.second
    static func song(_ stored: StoredValue, _ version: Two) throws -> Song { try Lengthened.song(stored, version) }
  }

  /// A program that declares that no key changes, and changes one.
  fileprivate enum Mistaken: Program {
    typealias Version = Two
    static let current = Two.second
    static let survive = true
    static func song(_ stored: StoredValue, _ version: Two) throws -> Song { try Renamed.song(stored, version) }
  }

  /// A program that decodes rows of the same version differently.
  fileprivate enum Unversioned: Program {
    typealias Version = One
    static let current = One.first
    static func song(_ stored: StoredValue, _ version: One) throws -> Song {
      var song = try stored.decode(Song.self)
      if song.id % 10 == 0 { song.name += "!" }
      return song
    }
  }

  /// A value of a program whose encoding fails with an error that is not about the row, for numbers that end in 7.
  fileprivate struct Picky: KeyCodable {
    static let takesAll = Mutex(false)
    static var keyType: KeyType { .integer }
    var number: Int

    func encodeKey(into encoder: inout KeyEncoder) throws {
      if number % 10 == 7, !Self.takesAll.withLock({ $0 }) { throw DatabaseError(.encodingFailed, "not \(number)") }
      try encoder.append(integer: number)
    }

    static func decodeKey(from decoder: inout KeyDecoder) throws -> Picky {
      Picky(number: try decoder.decodeInteger())
    }
  }

  fileprivate struct PickySongs: StoreFormat {
    typealias Instance = Song
    static let collection = "songs"
    let picky = Index(\.picky, version: 1)
  }

  fileprivate struct Songs<Start: Program>: StoreFormat {
    typealias Instance = Song
    typealias Version = Start.Version
    static var collection: String { "songs" }
    static var currentVersion: Start.Version { Start.current }
    static var indexesSurvive: Bool { Start.survive }
    static func decode(_ stored: StoredValue, version: Start.Version) throws -> Song { try Start.song(stored, version) }
    let name = Index(\.name)
  }

  /// The same collection without indexes.
  fileprivate struct BareSongs: StoreFormat {
    typealias Instance = Song
    static let collection = "songs"
  }

  private let shared: SharedBackend

  init() throws { shared = try SharedBackend() }

  private func run<Start: Program>(
    _ program: Start.Type, _ body: (Database, Store<Songs<Start>>) throws -> Void
  ) throws {
    let database = try shared.open(DatabaseDefinition { Songs<Start>.self })
    try body(database, Store(in: database))
    try database.endNow()
  }

  private func fill(_ count: Int) throws {
    try run(First.self) { database, songs throws in
      try database.change { tx throws in
        for id in 1...count { try songs.persist(Song(id: id, name: "song \(id % 4)"), in: tx) }
      }
    }
  }

  /// Returns the progress that `warm` reported.
  private func warm<Format: StoreFormat>(_ store: Store<Format>) throws -> [WarmProgress] {
    let seen = Mutex<[WarmProgress]>([])
    try store.warm { progress in seen.withLock { $0.append(progress) } }
    return seen.withLock { $0 }
  }

  private func differences<Format: StoreFormat>(
    _ store: Store<Format>, sample: Int? = nil
  ) throws -> [IndexDifference] {
    try store.verifyIndexes(sample: sample)
  }

  @Test func `a version whose conversion changes keys has them in the index after the review, not a migration`()
    throws
  {
    try fill(40)
    try run(Renamed.self) { database, songs throws in
      _ = try warm(songs)
      try database.look { tx throws in
        #expect(try songs.count(.value("SONG 1"), from: \.name, in: tx) == 10)
        #expect(try songs.count(.value("song 1"), from: \.name, in: tx) == 0)
        #expect(try Array(songs.load(.value("SONG 2"), from: \.name, in: tx)).allSatisfy { $0.name == "SONG 2" })
      }
      #expect(try differences(songs).isEmpty)
      #expect(try migrate(songs) == 40)
      #expect(try differences(songs).isEmpty)
    }
    // The index is reviewed once: the next start finds it complete.
    try run(Renamed.self) { _, songs throws in #expect(try warm(songs) == [.evaluating, .complete(total: 40)]) }
  }

  @Test func `a version whose conversion changes no key is reviewed too, without writes to the index`() throws {
    try fill(40)
    func entries(_ database: Database) throws -> [[UInt8]] {
      let family = try #require(try database.core.backend.families().first { $0.name.hasSuffix(".i.name") })
      let page = try database.core.backend.snapshot().page(
        StorageRange(), in: family, isReverse: false, keysOnly: false, byteLimit: 1 << 20, rowLimit: 1_000)
      return (0..<page.count).map { page.key($0) }
    }
    var before: [[UInt8]] = []
    try run(First.self) { database, _ throws in before = try entries(database) }
    try run(LengthenedQuietly.self) { database, songs throws in
      #expect(try warm(songs).last == .complete(total: 40))
      #expect(try entries(database) == before)
      try database.look { tx throws in
        #expect(try Array(songs.load(.value("song 3"), from: \.name, in: tx)).allSatisfy { $0.length == 6 })
      }
      #expect(try differences(songs).isEmpty)
    }
  }

  @Test func `rows are not reviewed if the format declares indexesSurvive`() throws {
    try fill(40)
    try run(Lengthened.self) { database, songs throws in
      #expect(database.core.extensions.list[IndexesName.name(for: "songs")]?.record.state == .ready)
      #expect(try warm(songs) == [.evaluating, .complete(total: 40)])
      #expect(try database.look { tx in try songs.count(.value("song 1"), from: \.name, in: tx) } == 10)
      #expect(try differences(songs).isEmpty)
    }
  }

  @Test func `an undeclared change of keys by a conversion is found by a comparison and repaired by rebuild`()
    throws
  {
    try fill(40)
    try run(Mistaken.self) { database, songs throws in
      #expect(try warm(songs) == [.evaluating, .complete(total: 40)])
      let found = try differences(songs)
      #expect(found.count { $0.kind == .missing } == 40 && found.count { $0.kind == .stale } == 40)
      try rebuild(songs)
      #expect(try database.look { tx in try songs.count(.value("SONG 1"), from: \.name, in: tx) } == 10)
      #expect(try differences(songs).allSatisfy { $0.kind == .emitted })
    }
  }

  @Test func `a conversion that changed without a version is found, row by row`() throws {
    try fill(40)
    try run(Unversioned.self) { _, songs throws in
      #expect(try warm(songs) == [.evaluating, .complete(total: 40)])
      let found = try differences(songs)
      let rows = ["10", "20", "30", "40"]
      #expect(found.filter { $0.kind == .missing }.map(\.row.text) == rows)
      #expect(Set(found.filter { $0.kind == .stale }.map(\.row.text)) == Set(rows))
      #expect(found.first?.description == "index \"name\": missing \"song 2!\" of songs/10")
    }
  }

  @Test func `a sample compares about as many rows as requested, and one without rows is refused`() throws {
    try fill(200)
    try run(Mistaken.self) { _, songs throws in
      #expect(try differences(songs).count { $0.kind == .missing } == 200)
      for (sample, count) in [(1, 1), (20, 20), (200, 200), (10_000, 200)] {
        let found = try differences(songs, sample: sample)
        #expect(found.count { $0.kind == .missing } == count && found.count { $0.kind == .stale } == count, "\(sample)")
      }
      for sample in [0, -1] { #expect(errorCode { _ = try differences(songs, sample: sample) } == .invalidArgument) }
    }
  }

  @Test func `a build that fails for another reason than its rows is not ready, and is retried`() throws {
    let database = try shared.open(DatabaseDefinition { BareSongs.self })
    let bare = Store<BareSongs>(in: database)
    try database.change { tx throws in for id in 1...20 { try bare.persist(Song(id: id, name: "n\(id)"), in: tx) } }
    try database.endNow()
    Picky.takesAll.withLock { $0 = false }
    let picky = try shared.open(DatabaseDefinition { PickySongs.self })
    let songs = Store<PickySongs>(in: picky)
    #expect(errorCode { _ = try warm(songs) } == .encodingFailed)
    func count(_ number: Int) throws -> Int {
      try picky.look { tx in try songs.count(.value(Picky(number: number)), from: \.picky, in: tx) }
    }
    #expect(errorCode { _ = try count(1) } == .notReady)
    // Rows can be written nevertheless.
    try picky.change { tx in _ = try songs.persist(Song(id: 100, name: "n100"), in: tx) }
    Picky.takesAll.withLock { $0 = true }
    try picky.core.retry(IndexesName.name(for: "songs"))
    #expect(try warm(songs).last == .complete(total: 21))
    #expect(try count(7) == 1)
    #expect(try picky.look { tx in try songs.indexDifferences(in: tx) }.isEmpty)
    try picky.endNow()
  }

  private func migrate<Format: StoreFormat>(_ store: Store<Format>) throws -> Int { try store.migrate() }
  private func rebuild<Start: Program>(_ store: Store<Songs<Start>>) throws { try store.rebuild(\.name) }
}

extension FormatIndexTests.Song {
  fileprivate var picky: FormatIndexTests.Picky { FormatIndexTests.Picky(number: id) }
}

extension FormatIndexTests.Program {
  static var survive: Bool { false }
}
