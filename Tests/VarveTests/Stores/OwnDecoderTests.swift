import Synchronization
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of a format with one version that decodes its rows itself.
struct OwnDecoderTests {
  /// A format that also reads rows that were written without a rating.
  private struct RatedFormat: StoreFormat {
    static let collection = "rated"
    struct Instance: Codable, Identifiable, Hashable, Sendable {
      var id: Int
      var rating: Int
    }
    struct Unrated: Codable, Sendable { var id: Int }

    static func decode(_ stored: StoredValue, version: SingleVersion) throws -> Instance {
      if let instance = try? stored.decode(Instance.self) { return instance }
      return Instance(id: try stored.decode(Unrated.self).id, rating: -1)
    }
  }

  @Test func `every call uses the custom decoder of a format with one version`() throws {
    let backend = try SharedBackend()
    let before = OpenDatabase(try backend.open(), nil)
    try before.writing { tx in try tx.set(RatedFormat.Unrated(id: 1), key: 1, in: "rated") }
    let wanted = RatedFormat.Instance(id: 1, rating: -1)

    let definition = DatabaseDefinition {
      RatedFormat.self
    }
    let after = OpenDatabase(try backend.open(definition), nil)
    let heard = Mutex<[RatedFormat.Instance]>([])
    var hooks = Hooks()
    hooks.willRemove = { _, change in
      let instance = try #require(try change.old).object(as: RatedFormat.Instance.self)
      heard.withLock { $0.append(instance) }
    }
    try after.database.registerReady(hooks, as: "hooks")
    let rated = Store<RatedFormat>(in: after.database)
    try after.reading { tx throws in
      #expect(try rated.load(1, in: tx) == wanted)
      #expect(try tx.object(RatedFormat.Instance.self, key: 1, in: "rated") == wanted)
      #expect(try tx.row(key: 1, in: "rated")?.object(as: RatedFormat.Instance.self) == wanted)
      #expect(try tx.row(key: 1, in: "rated")?.definedObject() as? RatedFormat.Instance == wanted)
    }
    let connection = after.database.connection()
    func read<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result { try connection.read(body) }
    for _ in 0..<2 { #expect(try read { tx in try rated.load(1, in: tx) } == wanted) }
    try after.writing { tx in try tx.remove(key: 1, in: "rated") }
    #expect(heard.withLock { $0 } == [wanted])
  }
}
