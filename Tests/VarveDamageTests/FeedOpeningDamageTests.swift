import EngineTestSupport
import Testing
import VarveEngine

@testable import ObjectFixtures
@testable import Varve

/// Tests of databases whose feed is damaged when they are opened.
struct FeedOpeningDamageTests {
  private func options() -> DatabaseOptions {
    let time = ManualTime()
    var options = DatabaseOptions()
    options.feed?.sizeMaximum = 1 << 16
    options.feed?.ageMaximum = .seconds(24_000)
    options.clock = time.clock
    return options
  }

  @Test func `a feed that is damaged or of another database does not keep a database from being opened`() throws {
    let damages: [(EngineBackend, StorageFamily) throws -> Void] = [
      { try $0.put(FeedKey.record, [1, 2, 3], $1) },
      { try $0.put(BigEndian.bytes(UInt64(1) << 50) + [0, 0, 0, 0], [1, 1, 0, 0, 0], $1) },
      { try $0.put(BigEndian.bytes(UInt64(1) << 50) + [0, 0, 0, 0], [99], $1) },
      { try $0.put([0xF0], [1, 1, 0, 0, 0], $1) },
    ]
    for (index, damage) in damages.enumerated() {
      let kept = KeptDatabase(options: options())
      var database = try kept.open()
      try database.put("a")
      let seen = try database.lastVersion()
      try damage(try #require(database.core.backend as? EngineBackend), database.core.catalog.families.feed)
      try database.endNow()
      if index == 2 {
        // An entry of a later version must not be discarded.
        #expect(throws: DatabaseError.self) { try kept.open() }
        continue
      }
      database = try kept.open()
      #expect(try database.look { try $0.count() } == 1)
      try database.put("b")
      #expect(try database.feedEvents(after: seen).map(\.text) == ["gap", "+b"])
      try database.endNow()
    }
  }
}

extension EngineBackend {
  fileprivate func put(_ key: [UInt8], _ value: [UInt8], _ family: StorageFamily) throws {
    var batch = StorageBatch()
    batch.put(key, value, in: family)
    _ = try commit(batch, check: nil, durability: .process)
  }
}
