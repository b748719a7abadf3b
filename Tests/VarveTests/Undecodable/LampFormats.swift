import EngineTestSupport
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// A lamp as a newer program stores it, in any color.
struct WideLamp: Codable, Identifiable, Hashable, Sendable {
  var id: Int
  var name: String
  var watt: Int
  var room = "hall"
  var color = "white"
}

/// A lamp as this program knows it: a row with another color can't be decoded.
struct Lamp: Codable, Identifiable, Hashable, Sendable {
  enum Color: String, Codable, Sendable { case white, red }
  var id: Int
  var name: String
  var watt: Int
  var room = "hall"
  var color = Color.white
}

/// The indexes that all formats of lamps have.
protocol LampFormat: StoreFormat where Instance == Lamp, Identifier == Int, Metadata == Never {
  var byName: PlainIndex<Lamp, String> { get }
  var byWatt: PlainIndex<Lamp, Int> { get }
  var byRoom: PlainIndex<Lamp, String, Int> { get }
  var one: UniqueIndex<Lamp, Int> { get }
}

extension LampFormat {
  static var collection: String { "lamps" }
}

struct ThrowingLamps: LampFormat {
  typealias Instance = Lamp
  let byName = Index(\.name)
  let byWatt = Index(\.watt)
  let byRoom = Index(\.room, \.id, counted: true)
  let one = OneToOneIndex(\.id)
}

struct SkippingLamps: LampFormat {
  typealias Instance = Lamp
  static let undecodable: UndecodablePolicy = .skips
  let byName = Index(\.name)
  let byWatt = Index(\.watt)
  let byRoom = Index(\.room, \.id, counted: true)
  let one = OneToOneIndex(\.id)
}

struct ReplacingLamps: LampFormat {
  typealias Instance = Lamp
  static let undecodable: UndecodablePolicy = .fallback { row in
    (try? row.key.key(as: Int.self)).map { Lamp(id: $0, name: "unknown", watt: 1, color: .red) }
  }
  let byName = Index(\.name)
  let byWatt = Index(\.watt)
  let byRoom = Index(\.room, \.id, counted: true)
  let one = OneToOneIndex(\.id)
}

/// The formats of the newer program. One has stand-ins, because indexes are reviewed if the next program has them and
/// the last one had not.
struct WideLamps: StoreFormat {
  typealias Instance = WideLamp
  static let collection = "lamps"
  let byName = Index(\.name)
  let byWatt = Index(\.watt)
  let byRoom = Index(\.room, \.id, counted: true)
  let one = OneToOneIndex(\.id)
}

struct WideReplacingLamps: StoreFormat {
  typealias Instance = WideLamp
  static let collection = "lamps"
  static let undecodable: UndecodablePolicy = .fallback { _ in nil }
  let byName = Index(\.name)
  let byWatt = Index(\.watt)
  let byRoom = Index(\.room, \.id, counted: true)
  let one = OneToOneIndex(\.id)
}

/// The newer program without indexes.
struct BareLamps: StoreFormat {
  typealias Instance = WideLamp
  static let collection = "lamps"
}

/// How the row that can't be decoded came into the database.
enum LampHistory: CaseIterable, Sendable {
  /// A newer program has written it, with its entries in the indexes.
  case indexed
  /// The indexes were built when it was there: it is in none of them.
  case listed
}

/// Six lamps, of which the third can't be decoded by the formats of this program.
struct LampShop {
  let shared: SharedBackend
  static let bad = 3

  init() throws { shared = try SharedBackend() }

  static let lamps = (1...6).map { WideLamp(id: $0, name: "lamp \($0)", watt: $0 * 10) }
  static let violet = WideLamp(id: bad, name: "lamp 3", watt: 30, color: "violet")

  /// Writes the lamps as a newer program does.
  private func fill<Format: StoreFormat>(_ format: Format.Type) async throws where Format.Instance == WideLamp {
    let database = try shared.open(DatabaseDefinition { format })
    let store = Store<Format>(in: database)
    try await store.persist(contentsOf: Self.lamps + [Self.violet])
    try await database.close()
  }

  /// Opens the filled shop with a format of this program, whose indexes are built.
  func open<Format: LampFormat>(
    _ format: Format.Type, _ history: LampHistory
  ) async throws -> (database: Database, lamps: Store<Format>) {
    switch history {
    case .listed: try await fill(BareLamps.self)
    case .indexed where Format.undecodable.standIn == nil: try await fill(WideLamps.self)
    case .indexed: try await fill(WideReplacingLamps.self)
    }
    let database = try shared.open(DatabaseDefinition { format })
    let lamps = Store<Format>(in: database)
    try await lamps.warm()
    return (database, lamps)
  }

  /// Stores a lamp over a row by its bytes, as this program can't read them.
  static func store(_ lamp: WideLamp, in database: Database) async throws {
    try await database.write { tx in
      let info = try #require(try tx.info("lamps"))
      let key = try info.storageKey(lamp.id, limit: database.core.limits.keySize)
      let (shape, bytes) = try ValueCoder(.binary, binary: database.core.coding.binaryCoder).encode(lamp)
      let old = try tx.present(key, info)
      var header = RowHeader(hasMetadata: false, shape: shape)
      header.id = try old?.header.id ?? database.core.catalog.nextRowID()
      let row = unsafe header.row(bytes.span.bytes)
      try tx.put(row, id: header.id, of: nil, nil, key, info, over: old)
    }
  }
}
