import EngineTestSupport
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of the object cache of a connection beside rows that can't be decoded: an object of the cache never stands for
/// a row of another commit, and a row that is left out is never in the cache.
struct UndecodableCacheTests {
  private static let bad = LampShop.bad
  private static let good = Lamp(id: 3, name: "lamp 3", watt: 30)

  /// What the answers of a connection have of the row, which must agree.
  private struct Answers: Equatable {
    var loaded: [String?]
    var fetched: [Int]
    var count: Int
    var ids: [Int]
    var contains: Bool
    var skipped: Int
  }

  private static func answers<Format: LampFormat>(
    _ connection: Connection, _ lamps: Store<Format>
  ) throws -> Answers {
    try connection.read { tx throws in
      // The first load may come from the cache, and the second one certainly does if there is an object.
      let loaded = try (0..<2).map { _ in try lamps.load(bad, in: tx)?.name }
      return Answers(
        loaded: loaded, fetched: try lamps.query.sorted(by: \.id).scan().fetch(in: tx).map(\.id),
        count: try lamps.count(in: tx), ids: try Array(lamps.ids(in: tx)),
        contains: try lamps.contains(bad, in: tx), skipped: tx.skippedRows.count)
    }
  }

  private static let all = Answers(
    loaded: ["lamp 3", "lamp 3"], fetched: Array(1...6), count: 6, ids: Array(1...6), contains: true, skipped: 0)
  private static let without = Answers(
    loaded: [nil, nil], fetched: [1, 2, 4, 5, 6], count: 5, ids: [1, 2, 4, 5, 6], contains: false, skipped: 1)

  private func answers<Format: LampFormat>(_ connection: Connection, _ lamps: Store<Format>) throws -> Answers {
    try Self.answers(connection, lamps)
  }

  @Test("a cached object whose row can't be decoded any more is left out, as by every other answer")
  func skips() async throws {
    let (database, lamps) = try await LampShop().open(SkippingLamps.self, .indexed)
    try await lamps.persist(Self.good)
    let connection = database.connection()
    #expect(try answers(connection, lamps) == Self.all)
    #expect(connection.cachedCount == 1)
    try await LampShop.store(LampShop.violet, in: database)
    #expect(try answers(connection, lamps) == Self.without)
    #expect(connection.cachedCount == 0, "what is left out is not cached")
    try await lamps.persist(Self.good)
    #expect(try answers(connection, lamps) == Self.all)
    try await database.close()
  }

  @Test("a held read shows the object and its row, and later ones neither")
  func held() async throws {
    let (database, lamps) = try await LampShop().open(SkippingLamps.self, .indexed)
    try await lamps.persist(Self.good)
    let connection = database.connection()
    try await connection.beginLongLivedRead()
    #expect(try answers(connection, lamps) == Self.all)
    try await LampShop.store(LampShop.violet, in: database)
    #expect(try answers(connection, lamps) == Self.all, "the cache and the rows are those of the held snapshot")
    try await connection.advance()
    #expect(try answers(connection, lamps) == Self.without)
    connection.endLongLivedRead()
    #expect(try answers(connection, lamps) == Self.without)
    try await database.close()
  }

  @Test("a stand-in is made again for each read, and is not in the cache")
  func standIns() async throws {
    let (database, lamps) = try await LampShop().open(ReplacingLamps.self, .indexed)
    let connection = database.connection()
    var expected = Self.all
    expected.loaded = ["unknown", "unknown"]
    #expect(try answers(connection, lamps) == expected)
    #expect(connection.cachedCount == 0)
    try await lamps.persist(Self.good)
    #expect(try answers(connection, lamps) == Self.all)
    try await LampShop.store(LampShop.violet, in: database)
    #expect(try answers(connection, lamps) == expected)
    try await database.close()
  }

  @Test("where the format throws, the cache does not hide the error")
  func throwing() async throws {
    let (database, lamps) = try await LampShop().open(ThrowingLamps.self, .indexed)
    try await lamps.persist(Self.good)
    let connection = database.connection()
    #expect(try await connection.read { tx throws in try lamps.load(Self.bad, in: tx) } == Self.good)
    try await LampShop.store(LampShop.violet, in: database)
    for _ in 0..<2 {
      let code = await errorCode {
        _ = try await connection.read { tx throws in try lamps.load(Self.bad, in: tx) }
      }
      #expect(code == .decodingFailed)
    }
    try await database.close()
  }
}
