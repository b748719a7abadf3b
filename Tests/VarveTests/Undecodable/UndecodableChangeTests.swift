import EngineTestSupport
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of what calls that change instances do with a row that can't be decoded: the lines of the table in the guide
/// *Queries* that write.
struct UndecodableChangeTests {
  private static func code(_ body: () async throws -> Void) async -> DatabaseError.Code? {
    do { try await body() } catch { return (error as? DatabaseError)?.code }
    return nil
  }

  /// Checks the calls that treat a row by itself, which are the same for all formats.
  private func checkByID<Format: LampFormat>(_ format: Format.Type) async throws {
    let (database, lamps) = try await LampShop().open(format, .indexed)
    let lamp = Lamp(id: 3, name: "new", watt: 7)
    #expect(await Self.code { try await lamps.update(lamp) } == .decodingFailed)
    #expect(await Self.code { try await lamps.delete(3) } == .decodingFailed)
    #expect(await Self.code { try await lamps.insert(lamp) } == .alreadyExists)
    #expect(
      await Self.code { try await lamps.modify(3) { $0.watt = 7 } } == .decodingFailed, "no stand-in is stored")
    #expect(try await lamps.undecodableRows().count == 1, "nothing was changed")
    try await database.write { tx throws in
      try? tx.savepoint { () throws in
        #expect(try lamps.deleteIfPresent(3, in: tx) == nil)
        #expect(try lamps.count(in: tx) == 5)
        throw StoreStop()
      }
      #expect(try lamps.delete(ids: [3], in: tx) == 1)
    }
    try await LampShop.store(LampShop.violet, in: database)
    #expect(try await lamps.undecodableRows().count == 1)
    #expect(try await lamps.persist(lamp) == nil)
    #expect(try await lamps.load(3) == lamp)
    #expect(try await lamps.count == 6)
    #expect(try await lamps.query.sorted(by: \.name).count() == 6)
    #expect(try await lamps.undecodableRows().isEmpty)
    #expect(try await lamps.verifyIndexes().isEmpty)
    try await database.close()
  }

  @Test("calls for one row replace and remove it, and refuse to return or to modify it, in every format")
  func byID() async throws {
    try await checkByID(ThrowingLamps.self)
    try await checkByID(SkippingLamps.self)
    try await checkByID(ReplacingLamps.self)
  }

  @Test("a deletion by query removes what the query finds, and says what it leaves", arguments: LampHistory.allCases)
  func deletion(_ history: LampHistory) async throws {
    let (database, lamps) = try await LampShop().open(SkippingLamps.self, history)
    try await database.write { tx throws in
      #expect(try lamps.query.filter { $0.watt >= 20 }.delete(in: tx) == 4)
      #expect(tx.skippedRows.count == 1 && tx.skippedRows.first.map(\.key.text) == ["3"])
    }
    #expect(try await lamps.query.delete(inBatchesOf: 2) == 1)
    #expect(try await lamps.query.count() == 0)
    #expect(try await lamps.undecodableRows().count == 1)
    #expect(try await lamps.delete(...) == 1, "all rows are removed without being decoded")
    try await database.close()

    let (replaced, stands) = try await LampShop().open(ReplacingLamps.self, history)
    #expect(try await stands.query.filter { $0.room == "hall" }.delete() == 6)
    #expect(try await stands.undecodableRows().isEmpty)
    try await replaced.close()
  }

  @Test("a deletion by a query that can't be answered removes nothing")
  func refusedDeletion() async throws {
    let (database, lamps) = try await LampShop().open(ThrowingLamps.self, .listed)
    #expect(await Self.code { _ = try await lamps.query.filter { $0.watt >= 20 }.delete() } == .decodingFailed)
    #expect(try await lamps.count == 6)
    try await database.close()
    let (indexed, known) = try await LampShop().open(ThrowingLamps.self, .indexed)
    #expect(try await known.query.filter { $0.watt >= 20 }.delete() == 5, "its entry is that of the row")
    try await indexed.close()
  }

  private func checkUpdate<Format: LampFormat>(_ format: Format.Type, _ history: LampHistory) async throws {
    let (database, lamps) = try await LampShop().open(format, history)
    try await database.write { tx throws in
      #expect(try lamps.query.filter { $0.room == "hall" }.update(in: tx) { $0.watt += 1 } == 5)
      #expect(tx.skippedRows.count == 1 && tx.skippedRows.first.map(\.key.text) == ["3"])
    }
    #expect(try await lamps.query.update(inBatchesOf: 4) { $0.watt += 1 } == 5)
    #expect(try await lamps.load(ids: [1, 2, 4]).map { $0?.watt } == [12, 22, 42])
    #expect(try await lamps.undecodableRows().map { try $0.stored?.decode(WideLamp.self) } == [LampShop.violet])
    try await database.close()
  }

  @Test("an update by query leaves the row out, and never stores a stand-in", arguments: LampHistory.allCases)
  func update(_ history: LampHistory) async throws {
    try await checkUpdate(SkippingLamps.self, history)
    try await checkUpdate(ReplacingLamps.self, history)
    let (database, lamps) = try await LampShop().open(ThrowingLamps.self, history)
    #expect(await Self.code { _ = try await lamps.query.update { $0.watt += 1 } } == .decodingFailed)
    #expect(try await lamps.load(1)?.watt == 10, "nothing was changed")
    try await database.close()
  }
}
