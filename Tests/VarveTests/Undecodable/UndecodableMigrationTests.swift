import EngineTestSupport
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of what a row that can't be decoded does to a migration: the line `migrate` of the table in the guide
/// *Queries*. It never keeps other rows from being rewritten, and never loses its bytes.
struct UndecodableMigrationTests {
  private struct OldBulbs: StoreFormat {
    static let collection = "bulbs"
    enum Version: String, CaseIterable, Sendable { case one }
    static let currentVersion = Version.one
    struct Instance: Codable, Identifiable, Hashable, Sendable {
      var id: Int
      var label: String
      var color: String
    }
    static func decode(_ stored: StoredValue, version: Version) throws -> Instance { try stored.decode() }
  }

  fileprivate struct Bulb: Codable, Identifiable, Hashable, Sendable {
    enum Color: String, Codable, Sendable { case white, red }
    var id: Int
    var name: String
    var color: Color
  }

  /// A row of the older version, as this program reads it.
  fileprivate struct OldBulb: Codable {
    var id: Int
    var label: String
    var color: Bulb.Color
  }

  fileprivate enum BulbVersion: String, CaseIterable, Sendable { case one, two }

  private struct Throwing: BulbFormat {
    typealias Instance = Bulb
    let name = Index(\.name)
  }

  private struct Skipping: BulbFormat {
    typealias Instance = Bulb
    static let undecodable: UndecodablePolicy = .skips
    let name = Index(\.name)
  }

  private struct Replacing: BulbFormat {
    typealias Instance = Bulb
    static let undecodable: UndecodablePolicy = .fallback { row in
      (try? row.key.key(as: Int.self)).map { Bulb(id: $0, name: "unknown", color: .red) }
    }
    let name = Index(\.name)
  }

  /// A newer program, whose rows have a version that the others don't know.
  private struct NewerBulbs: StoreFormat {
    typealias Instance = Bulb
    static let collection = "bulbs"
    enum Version: String, CaseIterable, Sendable { case one, two, three }
    static let currentVersion = Version.three
    static func decode(_ stored: StoredValue, version: Version) throws -> Bulb { try stored.decode() }
  }

  /// The rows of the older version that can't be decoded, in several steps of a migration.
  private static let bad = [5, 700, 1_150]
  private static let count = 1_200

  private static func filled(withNewer: Bool = false) async throws -> SharedBackend {
    let shared = try SharedBackend()
    let old = try shared.open(DatabaseDefinition { OldBulbs.self })
    try await Store<OldBulbs>(in: old).persist(
      contentsOf: (0..<count).map { .init(id: $0, label: "bulb \($0)", color: bad.contains($0) ? "violet" : "red") })
    try await old.close()
    if withNewer {
      let newer = try shared.open(DatabaseDefinition { NewerBulbs.self })
      try await Store<NewerBulbs>(in: newer).persist(Bulb(id: 9_000, name: "newer", color: .red))
      try await newer.close()
    }
    return shared
  }

  private static func migrateBlocking<Format: StoreFormat>(
    _ store: Store<Format>, _ progress: @escaping (BuildProgress) -> Void
  ) throws -> Int { try store.migrate(progress: progress) }

  private func check<Format: BulbFormat>(_ format: Format.Type, isBlocking: Bool) async throws {
    let database = try await Self.filled(withNewer: true).open(DatabaseDefinition { format })
    let bulbs = Store<Format>(in: database)
    try await bulbs.warm()
    func migrate() async throws -> (rewritten: Int, progress: [BuildProgress]) {
      var steps: [BuildProgress] = []
      let count =
        isBlocking
        ? try Self.migrateBlocking(bulbs) { steps.append($0) } : try await bulbs.migrate { steps.append($0) }
      return (count, steps)
    }
    let (rewritten, steps) = try await migrate()
    #expect(rewritten == Self.count - 3, "the rows before, between and after them are rewritten")
    #expect(steps.map(\.rowsSkipped) == steps.map(\.rowsSkipped).sorted() && steps.count > 1)
    #expect(steps.last == BuildProgress(rowsDone: Self.count + 1, rowsTotal: Self.count + 1, rowsSkipped: 4))
    let again = try await migrate()
    #expect(again.rewritten == 0 && again.progress.last?.rowsSkipped == 4, "they stay, and are counted again")
    let undecodable = try await bulbs.undecodableRows()
    #expect(undecodable.map(\.key.text) == ["5", "700", "1150", "9000"])
    let kept = try undecodable.prefix(3).map { try $0.stored?.decode(OldBulbs.Instance.self) }
    #expect(kept == Self.bad.map { .init(id: $0, label: "bulb \($0)", color: "violet") }, "no stand-in is stored")
    #expect(try await bulbs.load(1_199)?.name == "bulb 1199")
    #expect(try await bulbs.verifyIndexes().isEmpty)
    try await database.close()
  }

  @Test(arguments: [false, true])
  func `a format that skips such rows continues past them, leaves them as they are, and counts them`(
    isBlocking: Bool
  ) async throws { try await check(Skipping.self, isBlocking: isBlocking) }

  @Test(arguments: [false, true])
  func `a format with stand-ins stores none, and continues past such rows`(isBlocking: Bool) async throws {
    try await check(Replacing.self, isBlocking: isBlocking)
  }

  @Test func `a format that throws names the first such row at the end, when all others are rewritten`() async throws {
    let database = try await Self.filled().open(DatabaseDefinition { Throwing.self })
    let bulbs = Store<Throwing>(in: database)
    var last: BuildProgress?
    for rewritten in [Self.count - 3, 0] {
      let error = await #expect(throws: DatabaseError.self) { try await bulbs.migrate { last = $0 } }
      #expect(error?.code == .decodingFailed && error?.collection == "bulbs" && error?.key == "5")
      let message = error?.message ?? ""
      #expect(message.contains("this row and 2 more are left as they are, and \(rewritten) others are rewritten"))
      #expect(last?.rowsSkipped == 3 && last?.fraction == 1)
    }
    #expect(try await bulbs.delete(ids: Self.bad.dropFirst()) == 2)
    let one = await #expect(throws: DatabaseError.self) { try await bulbs.migrate() }
    #expect(one?.message.contains("the row is left as it is, and 0 others are rewritten") == true)
    #expect(try await bulbs.persist(Bulb(id: 5, name: "white", color: .white)) == nil)
    #expect(try await bulbs.migrate() == 0)
    #expect(try await bulbs.count == Self.count - 2)
    try await database.close()
  }

  @Test func `an error that is of no row ends the migration at once`() async throws {
    let shared = try await Self.filled()
    let database = try shared.open(DatabaseDefinition { Skipping.self })
    let bulbs = Store<Skipping>(in: database)
    try await bulbs.warm()
    shared.refuseNext(DatabaseError(.corruption, "a block of the storage"))
    await #expect(throws: DatabaseError.self) { try await bulbs.migrate() }
    try await database.close()
  }
}

private protocol BulbFormat: StoreFormat
where
  Instance == UndecodableMigrationTests.Bulb, Identifier == Int, Version == UndecodableMigrationTests.BulbVersion,
  Metadata == Never
{}

extension BulbFormat {
  static var collection: String { "bulbs" }
  static var currentVersion: UndecodableMigrationTests.BulbVersion { .two }

  static func decode(
    _ stored: StoredValue, version: UndecodableMigrationTests.BulbVersion
  ) throws -> UndecodableMigrationTests.Bulb {
    switch version {
    case .one:
      let old = try stored.decode(UndecodableMigrationTests.OldBulb.self)
      return UndecodableMigrationTests.Bulb(id: old.id, name: old.label, color: old.color)
    case .two: return try stored.decode()
    }
  }
}
