import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveEngine
import VarveTestSupport

@testable import ObjectFixtures

/// A book that records where it was decoded.
private struct Witness: Persistable, Equatable {
  static let collection = "witnesses"
  var id: Int
  var text = "text"
  var isHere = false

  static let unreadable = "unreadable"
  private enum CodingKeys: String, CodingKey { case id, text }

  init(_ id: Int) { self.id = id }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    id = try container.decode(Int.self, forKey: .id)
    text = try container.decode(String.self, forKey: .text)
    isHere = Caller.isHere
    if text == Self.unreadable { throw CancellationError() }
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(id, forKey: .id)
    try container.encode(text, forKey: .text)
  }
}

private struct WitnessFormat: StoreFormat {
  static let collection = "witnesses"
  typealias Instance = Witness
}

/// Tests of where the typed asynchronous calls look up one row: a change of the executor costs ten times what the
/// lookup does.
struct InlineReadTests {
  private static func definition() throws -> DatabaseDefinition {
    let definition = DatabaseDefinition {
      WitnessFormat.self
    }
    return definition
  }

  @Test func `rows in memtable and cache are read on the calling thread, and others on the database's threads`()
    async throws
  {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    try Self.fill(path)
    let database = try await Database.open(at: path, definition: Self.definition())
    let witnesses = Store<WitnessFormat>(in: database)
    try await withTaskExecutorPreference(Caller()) { () async throws in
      // The table has not been read yet.
      #expect(try await witnesses.load(7)?.isHere == false)
      #expect(try await witnesses.load(7)?.isHere == true)
      #expect(try await witnesses.contains(7))
      #expect(try await witnesses.load(70) == nil)
      try await witnesses.persist(Witness(8))
      #expect(try await witnesses.load(8)?.isHere == true)
      #expect(try await witnesses.count == 2)
      // A program's closure runs only once, and therefore never where it may have to wait.
      #expect(try await database.read { tx in try witnesses.load(7, in: tx)?.isHere } == false)
    }
    try await database.close()
  }

  /// Stores one row in a table.
  private static func fill(_ path: String, _ witness: Witness = Witness(7)) throws {
    let engine = try Engine.open(at: path)
    let database = try Database.open(try EngineBackend(engine), path: path, definition: definition())
    try database.write { tx in try Store<WitnessFormat>(in: database).persist(witness, in: tx) }
    try engine.flush()
    try database.close()
  }

  @Test func `a read that would have to wait is repeated, and returns the second result`()
    async throws
  {
    var faults = ToyFaults(seed: 3)
    faults.atOnceOneIn = 3
    let database = try await Database.open(ToyBackend(faults: faults), path: "toy", definition: Self.definition())
    let witnesses = Store<WitnessFormat>(in: database)
    for number in 0..<20 { try await witnesses.persist(Witness(number)) }
    try await withTaskExecutorPreference(Caller()) { () async throws in
      var hereCount = 0
      for number in 0..<60 {
        let found = try #require(try await witnesses.load(number % 20))
        #expect(found.id == number % 20)
        if found.isHere { hereCount += 1 }
      }
      #expect(hereCount > 10 && hereCount < 35, "\(hereCount) of 60 where they were called")
    }
  }

  @Test func `a lookup inside perform sees the writes of the perform`() async throws {
    let directory = try TemporaryDirectory()
    let database = try await Database.open(at: directory.path + "/db", definition: Self.definition())
    let witnesses = Store<WitnessFormat>(in: database)
    try await witnesses.persist(Witness(1))
    try await database.perform {
      try await witnesses.persist(Witness(2))
      #expect(try await witnesses.load(2)?.id == 2)
      #expect(try await witnesses.contains(2))
      #expect(try await witnesses.count == 2)
      try await witnesses.delete(1)
      #expect(try await witnesses.load(1) == nil)
    }
    try await database.close()
  }

  @Test func `an unreadable row is an error, wherever it is looked up`() async throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    var unreadable = Witness(7)
    unreadable.text = Witness.unreadable
    try Self.fill(path, unreadable)
    let database = try await Database.open(at: path, definition: Self.definition())
    // The first row is read from the table, and the second one from the cache.
    let witnesses = Store<WitnessFormat>(in: database)
    for _ in 0..<2 {
      #expect(await errorCode { () async throws in _ = try await witnesses.load(7) } == .decodingFailed)
    }
    try await database.close()
  }
}
