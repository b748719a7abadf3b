import EngineTestSupport
import Testing
import Varve

@testable import ObjectFixtures

/// The metadata of a newer program, of any kind.
private struct WideStamp: Codable, Sendable {
  var kind: String
}

/// The metadata as this program knows them: another kind can't be decoded.
private struct Stamp: Codable, Hashable, Sendable {
  enum Kind: String, Codable, Sendable { case new, seen }
  var kind: Kind
}

private struct WideStampedLamps: StoreFormat {
  typealias Instance = WideLamp
  typealias Metadata = WideStamp
  static let collection = "lamps"
}

private struct ThrowingStamps: StoreFormat {
  typealias Instance = Lamp
  typealias Metadata = Stamp
  static let collection = "lamps"
}

private struct SkippingStamps: StoreFormat {
  typealias Instance = Lamp
  typealias Metadata = Stamp
  static let collection = "lamps"
  static let undecodable: UndecodablePolicy = .skips
}

private struct ReplacingStamps: StoreFormat {
  typealias Instance = Lamp
  typealias Metadata = Stamp
  static let collection = "lamps"
  static let undecodable: UndecodablePolicy = .fallback { row in
    (try? row.key.key(as: Int.self)).map { Lamp(id: $0, name: "unknown", watt: 1) }
  }
}

/// Tests of metadata that can't be decoded, and of those of a row that can't be decoded: the lines of `metadata(of:)`
/// of the table in the guide *Queries*.
struct UndecodableMetadataTests {
  /// The row whose metadata can't be decoded.
  private static let odd = 2
  /// The row whose object can't be decoded.
  private static let bad = 3

  private func open<Format: StoreFormat>(_ format: Format.Type) async throws -> (Database, Store<Format>) {
    let shared = try SharedBackend()
    let newer = try shared.open(DatabaseDefinition { WideStampedLamps.self })
    let lamps = Store<WideStampedLamps>(in: newer)
    for id in 1...4 {
      let color = id == Self.bad ? "violet" : "white"
      try await lamps.persist(
        WideLamp(id: id, name: "lamp \(id)", watt: id, color: color),
        metadata: id == 4 ? nil : WideStamp(kind: id == Self.odd ? "burnt" : "seen"))
    }
    try await newer.close()
    let database = try shared.open(DatabaseDefinition { format })
    return (database, Store<Format>(in: database))
  }

  /// Checks a format that leaves metadata out, and returns the instances that it answers with.
  private func check<Format: StoreFormat>(
    _ format: Format.Type
  ) async throws -> [Lamp] where Format.Instance == Lamp, Format.Metadata == Stamp, Format.Identifier == Int {
    let (database, lamps) = try await open(format)
    let (found, skipped) = try await database.read { tx throws in
      (try lamps.metadata(of: Self.odd, in: tx), tx.skippedRows)
    }
    #expect(found == nil && skipped.count == 1)
    #expect(skipped.first.first?.key.text == "\(Self.odd)" && skipped.first.first?.error.code == .decodingFailed)
    let (all, skippedOfAll) = try await database.read { tx throws in
      (try lamps.metadata(ids: [1, Self.odd, Self.bad, 4, 9], in: tx), tx.skippedRows.count)
    }
    let seen = Stamp(kind: .seen)
    // The metadata of a row whose object can't be decoded are those of the row.
    #expect(all == [seen, nil, seen, nil, nil] && skippedOfAll == 1)
    #expect(try await lamps.metadata(of: Self.odd) == nil)
    #expect(try await lamps.metadata(of: Self.bad) == seen)
    #expect(try await lamps.load(Self.odd)?.name == "lamp 2", "the instance has no part of its metadata")
    // What can't be read can be replaced.
    try await lamps.persist(Lamp(id: Self.odd, name: "lamp 2", watt: 2), metadata: Stamp(kind: .new))
    #expect(try await lamps.metadata(of: Self.odd) == Stamp(kind: .new))
    let instances = try await lamps.query.scan().fetch()
    try await database.close()
    return instances
  }

  @Test("metadata that can't be decoded are nil where the format skips or has stand-ins, and are counted as skipped")
  func leftOut() async throws {
    #expect(try await check(SkippingStamps.self).map(\.id) == [1, 2, 4])
    #expect(try await check(ReplacingStamps.self).map(\.name) == ["lamp 1", "lamp 2", "unknown", "lamp 4"])
  }

  @Test("metadata that can't be decoded throw where the format throws, and those of other rows are read")
  func throwing() async throws {
    let (database, lamps) = try await open(ThrowingStamps.self)
    func error(_ body: () async throws -> Void) async -> DatabaseError? {
      do { try await body() } catch { return error as? DatabaseError }
      return nil
    }
    let one = await error { _ = try await lamps.metadata(of: Self.odd) }
    #expect(one?.code == .decodingFailed && one?.collection == "lamps" && one?.key == "\(Self.odd)")
    let several = await error { _ = try await database.read { tx in try lamps.metadata(ids: [1, Self.odd], in: tx) } }
    #expect(several?.code == .decodingFailed && several?.key == "\(Self.odd)")
    #expect(try await lamps.metadata(of: 1) == Stamp(kind: .seen))
    #expect(try await lamps.metadata(of: Self.bad) == Stamp(kind: .seen))
    #expect(try await lamps.metadata(of: 4) == nil)
    #expect(try await lamps.load(Self.odd)?.name == "lamp 2")
    try await database.close()
  }
}
