import EngineTestSupport
import Foundation
import Synchronization
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of formats with versions: how newer programs read rows of older ones, and vice versa.
struct FormatVersionTests {
  // Three successive programs. The order of their versions differs from that of their texts on purpose.
  fileprivate struct First: StoreFormat {
    static let collection = "cars"
    enum Version: String, CaseIterable, Sendable { case v9 }
    static let currentVersion = Version.v9
    struct Instance: Codable, Identifiable, Hashable, Sendable {
      var id: Int
      var name: String
    }
    typealias Metadata = Int
    static func decode(_ stored: StoredValue, version: Version) throws -> Instance { try stored.decode() }
    static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> Int { try stored.decode() }
  }

  fileprivate struct Second: StoreFormat {
    static let collection = "cars"
    enum Version: String, CaseIterable, Sendable { case v9, v10 }
    static let currentVersion = Version.v10
    struct Instance: Codable, Identifiable, Hashable, Sendable {
      var id: Int
      var maker: String
      var model: String
    }
    typealias Metadata = Double
    static func decode(_ stored: StoredValue, version: Version) throws -> Instance {
      switch version {
      case .v9:
        let parts = try stored.decode(First.Instance.self)
        let names = parts.name.split(separator: " ").map(String.init)
        return Instance(id: parts.id, maker: names[0], model: names[1])
      case .v10: return try stored.decode()
      }
    }
    static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> Double {
      switch version {
      case .v9: Double(try stored.decode(Int.self)) / 10
      case .v10: try stored.decode()
      }
    }
  }

  fileprivate struct Third: DecoderTableFormat {
    static let collection = "cars"
    enum Version: String, CaseIterable, Sendable { case v9, v10, final = "Final" }
    static let currentVersion = Version.final
    struct Instance: Codable, Identifiable, Hashable, Sendable {
      var id: Int
      var title: String
    }
    typealias Metadata = String
    static let decoders: Decoders = [
      .v9: { try Instance($0.decode(First.Instance.self)) },
      .v10: { try Instance($0.decode(Second.Instance.self)) },
      .final: { try $0.decode() },
    ]
    static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> String {
      switch version {
      case .v9: "\(try stored.decode(Int.self))"
      case .v10: "\(try stored.decode(Double.self))"
      case .final: try stored.decode()
      }
    }
  }

  /// Runs one of the successive programs on a storage.
  private static func run<Format: StoreFormat>(
    _ format: Format.Type, on backend: SharedBackend, defined isDefined: Bool,
    _ body: (Store<Format>) async throws -> Void
  ) async throws {
    let definition = DatabaseDefinition {
      if isDefined { format }
    }
    let database = try backend.open(definition)
    try await body(Store(in: database))
    try await database.close()
  }

  private static func history(_ backend: SharedBackend, _ isDefined: Bool) async throws {
    try await run(First.self, on: backend, defined: isDefined) { cars async throws in
      try await cars.persist(First.Instance(id: 1, name: "Saab 900"), metadata: 17)
      try await cars.persist(First.Instance(id: 2, name: "Fiat 500"))
    }
    try await run(Second.self, on: backend, defined: isDefined) { cars async throws in
      try await cars.persist(Second.Instance(id: 3, maker: "Lada", model: "Niva"), metadata: 2.5)
    }
    try await run(Third.self, on: backend, defined: isDefined) { cars async throws in
      try await cars.persist(Third.Instance(id: 4, title: "Trabant"), metadata: "none")
    }
  }

  @Test(arguments: [true, false])
  func `reads convert from each declared version`(isDefined: Bool) async throws {
    let backend = try SharedBackend()
    try await Self.history(backend, isDefined)
    try await Self.run(Third.self, on: backend, defined: isDefined) { cars async throws in
      #expect(try await cars.load(...).collect().map(\.title) == ["Saab/900", "Fiat/500", "Lada/Niva", "Trabant"])
      #expect(try await cars.load(ids: [3, 1]).map { $0?.title } == ["Lada/Niva", "Saab/900"])
      var metadata: [String?] = []
      for id in 1...4 { metadata.append(try await cars.metadata(of: id)) }
      #expect(metadata == ["17", nil, "2.5", "none"])
    }
  }

  @Test(arguments: [true, false])
  func `a row of a version unknown to the program is refused, and the others are not`(
    isDefined: Bool
  ) async throws {
    let backend = try SharedBackend()
    try await Self.history(backend, isDefined)
    try await Self.run(Second.self, on: backend, defined: isDefined) { cars async throws in
      #expect(try await cars.load(ids: [1, 2, 3]).map { $0?.model } == ["900", "500", "Niva"])
      do {
        _ = try await cars.load(4)
        Issue.record("a newer row was read")
      } catch let error as DatabaseError {
        #expect(error.code == .unsupportedVersion)
        #expect(error.message.contains("\"Final\""), "\(error)")
        #expect(error.message.contains("\"v9\", \"v10\""), "\(error)")
        #expect(error.collection == "cars" && error.key == "4")
      }
      let older = Second.Instance(id: 4, maker: "VEB", model: "Sachsenring")
      #expect(await errorCode { _ = try await cars.load(...).collect() } == .unsupportedVersion)
      #expect(await errorCode { _ = try await cars.load(ids: [1, 4]) } == .unsupportedVersion)
      #expect(await errorCode { _ = try await cars.metadata(of: 4) } == .unsupportedVersion)
      #expect(await errorCode { try await cars.persist(older) } == .unsupportedVersion)
      #expect(await errorCode { try await cars.persist(older, metadata: 1) } == .unsupportedVersion)
      #expect(await errorCode { try await cars.persist(contentsOf: [older]) } == .unsupportedVersion)
      #expect(await errorCode { try await cars.update(older) } == .unsupportedVersion)
      #expect(await errorCode { try await cars.modify(4) { $0.model = "" } } == .unsupportedVersion)
      #expect(await errorCode { try await cars.delete(4) } == .unsupportedVersion)
      #expect(await errorCode { try await cars.migrate() } == .unsupportedVersion)
      #expect(try await cars.count == 4)
      #expect(try await cars.contains(4))
    }
    try await Self.run(Third.self, on: backend, defined: isDefined) { cars async throws in
      #expect(try await cars.load(4)?.title == "Trabant", "it is as it was")
    }
  }

  @Test(arguments: [true, false])
  func `no call replaces a newer row, or newer metadata of an older one`(hasRule: Bool) async throws {
    let backend = try SharedBackend()
    try await Self.history(backend, true)
    try await Self.run(Third.self, on: backend, defined: true) { cars async throws in
      try await cars.database.write { tx in
        // The object's bytes remain those that an older program wrote.
        _ = try tx.replaceMetadata("newer", key: 3, in: "cars")
      }
    }
    var collection = try CollectionDefinition(Second.self)
    // Otherwise, a rule that removes the row would lose it.
    if hasRule {
      collection = collection.sanitized(before: { (car: Second.Instance) in car.maker.isEmpty ? nil : car })
    }
    let rule = collection
    let open = OpenDatabase(try backend.open(DatabaseDefinition { rule }), nil)
    let cars = Store<Second>(in: open.database)
    func car(_ id: Int, maker: String = "VEB") -> Second.Instance {
      Second.Instance(id: id, maker: maker, model: "P 240")
    }
    try open.writing { tx throws in
      let calls: [(WriteTransaction) throws -> Void] = [
        { try $0.set(car(4), key: 4, in: "cars") },
        { try $0.set(car(4, maker: ""), key: 4, in: "cars") },
        { try $0.set(car(4), key: 4, in: "cars", metadata: 1.5) },
        { try $0.replaceObject(car(4), key: 4, in: "cars") },
        { try $0.replaceObject(car(4, maker: ""), key: 4, in: "cars") },
        { try $0.replaceMetadata(1.5, key: 4, in: "cars") },
        { try $0.removeMetadata(key: 4, in: "cars") },
        { try cars.persist(car(4), in: $0) },
        { try cars.persist(car(4), metadata: nil, in: $0) },
        { try cars.persist(contentsOf: [car(4)], in: $0) },
        { try cars.insert(car(4), in: $0) },
        { try cars.update(car(4), in: $0) },
        { try cars.modify(4, in: $0) { $0.model = "" } },
        { try cars.setMetadata(1.5, of: 4, in: $0) },
        { try $0.set(car(3), key: 3, in: "cars") },
        { try $0.replaceMetadata(1.5, key: 3, in: "cars") },
        { try cars.persist(car(3), metadata: 1.5, in: $0) },
        { try cars.setMetadata(nil, of: 3, in: $0) },
      ]
      for (number, call) in calls.enumerated() {
        let error = #expect(throws: DatabaseError.self, "call \(number)") { try call(tx) }
        #expect(error?.code == .unsupportedVersion, "call \(number): \(error as Any)")
        #expect(error?.collection == "cars" && error?.key == (number < 14 ? "4" : "3"), "call \(number)")
      }
      // The program may replace rows of known versions, and the metadata is kept.
      try cars.persist(car(3), in: tx)
      try tx.set(car(1), key: 1, in: "cars")
    }
    try await Self.run(Third.self, on: backend, defined: true) { cars async throws in
      #expect(try await cars.load(ids: [1, 3, 4]).map { $0?.title } == ["VEB/P 240", "VEB/P 240", "Trabant"])
      #expect(try await cars.metadata(of: 4) == "none")
      #expect(try await cars.metadata(of: 3) == "newer")
    }
  }

  @Test(arguments: [true, false])
  func `a program without the format replaces no versioned row, before and after the first use of a store`(
    usesStoreFirst: Bool
  ) async throws {
    let backend = try SharedBackend()
    try await Self.history(backend, true)
    let open = OpenDatabase(try backend.open(), nil)
    if usesStoreFirst { _ = try await Store<Second>(in: open.database).load(1) }
    let car = Second.Instance(id: 4, maker: "VEB", model: "P 240")
    try open.writing { tx throws in
      let calls: [(WriteTransaction) throws -> Void] = [
        { try $0.set(car, key: 4, in: "cars") },
        { try $0.set(car, key: 4, in: "cars", metadata: 1.5) },
        { try $0.replaceObject(car, key: 4, in: "cars") },
        { try $0.replaceMetadata(1.5, key: 4, in: "cars") },
        { try $0.removeMetadata(key: 4, in: "cars") },
      ]
      for (number, call) in calls.enumerated() {
        let error = #expect(throws: DatabaseError.self, "call \(number)") { try call(tx) }
        #expect(error?.code == .unsupportedVersion, "call \(number): \(error as Any)")
        #expect(error?.collection == "cars" && error?.key == "4", "call \(number)")
        #expect(error?.message.contains("\"Final\"") == true, "call \(number): \(error as Any)")
      }
      // A new row has no version that could be lost, and any row can be removed.
      try tx.set(Second.Instance(id: 9, maker: "a", model: "b"), key: 9, in: "cars")
      try? tx.savepoint { () throws in
        #expect(try tx.remove(key: 4, in: "cars"))
        throw StoreStop()
      }
    }
    try await open.database.close()
    try await Self.run(Third.self, on: backend, defined: true) { cars async throws in
      #expect(try await cars.load(4)?.title == "Trabant", "it is as it was")
      #expect(try await cars.metadata(of: 4) == "none")
    }
  }

  @Test func `a newer row is removed by all calls that need not return it`() async throws {
    let backend = try SharedBackend()
    try await Self.history(backend, true)
    let definition = DatabaseDefinition {
      Second.self
    }
    let open = OpenDatabase(try backend.open(definition), nil)
    let cars = Store<Second>(in: open.database)
    // The calls, each with its result: the number of rows removed, or `nil` for a row that cannot be decoded.
    let calls: [((WriteTransaction) throws -> Int?, Int?)] = [
      ({ try cars.deleteIfPresent(4, in: $0)?.id }, nil),
      ({ try cars.delete(ids: [4], in: $0) }, 1),
      ({ try cars.delete(4...4, in: $0) }, 1),
      ({ try cars.delete(..., in: $0) }, 4),
      ({ try $0.remove(key: 4, in: "cars") ? 1 : 0 }, 1),
      ({ try $0.remove(keys: [4], in: "cars") }, 1),
      ({ try $0.remove(in: "cars", 4...4) }, 1),
      ({ try $0.removeAll(in: "cars") }, 4),
    ]
    for (call, result) in calls {
      try open.writing { tx throws in
        try? tx.savepoint { () throws in
          #expect(try call(tx) == result)
          #expect(try tx.contains(key: 4, in: "cars") == false)
          throw StoreStop()
        }
        #expect(try tx.contains(key: 4, in: "cars"))
      }
    }
    let error = #expect(throws: DatabaseError.self) { try open.writing { tx in try cars.delete(4, in: tx) } }
    #expect(error?.code == .unsupportedVersion)
    #expect(error?.message.contains("deleteIfPresent does without") == true, "\(error as Any)")
    #expect(try await cars.count == 4)
  }

  @Test func `a read-only program knows the versions too, and those that it would number itself`() async throws {
    let backend = try SharedBackend()
    try await Self.run(First.self, on: backend, defined: true) { cars async throws in
      try await cars.persist(First.Instance(id: 1, name: "Saab 900"), metadata: 17)
    }
    for isDefined in [true, false] {
      try await Self.run(Third.self, on: backend.readOnly(), defined: isDefined) { cars async throws in
        #expect(try await cars.load(1)?.title == "Saab/900")
        #expect(try await cars.metadata(of: 1) == "17")
        #expect(await errorCode { try await cars.persist(Third.Instance(id: 2, title: "")) } == .readOnly)
        #expect(await errorCode { try await cars.migrate() } == .readOnly)
      }
    }
  }

  @Test func `rows written without a versioned format have the first version`() async throws {
    struct Plain: StoreFormat {
      static let collection = "cars"
      typealias Instance = First.Instance
      typealias Metadata = Int
    }
    let backend = try SharedBackend()
    try await Self.run(Plain.self, on: backend, defined: false) { cars async throws in
      try await cars.persist(First.Instance(id: 1, name: "Saab 900"), metadata: 3)
    }
    try await Self.run(Third.self, on: backend, defined: true) { cars async throws in
      #expect(try await cars.load(1)?.title == "Saab/900")
      #expect(try await cars.metadata(of: 1) == "3")
      #expect(try await cars.migrate() == 1)
      #expect(try await cars.migrate() == 0)
    }
    try await Self.run(Plain.self, on: backend, defined: true) { cars async throws in
      #expect(await errorCode { _ = try await cars.load(1) } == .unsupportedVersion)
      #expect(await errorCode { _ = try await cars.metadata(of: 1) } == .unsupportedVersion)
      #expect(await errorCode { try await cars.migrate() } == .unsupportedVersion)
      #expect(
        await errorCode { try await cars.persist(contentsOf: [First.Instance(id: 1, name: "")]) } == .unsupportedVersion
      )
    }
  }

  @Test func `the row API reads and writes versions as the store does`() async throws {
    let backend = try SharedBackend()
    try await Self.history(backend, true)
    let definition = DatabaseDefinition {
      Third.self
    }
    let database = try backend.open(definition)
    let cars = Store<Third>(in: database)
    let title = try await database.read { tx in try tx.object(Third.Instance.self, key: 1, in: "cars")?.title }
    #expect(title == "Saab/900")
    let metadata = try await database.read { tx in try tx.row(key: 3, in: "cars")?.metadata(as: String.self) }
    #expect(metadata == "2.5")
    try await database.write { tx in try tx.set(Third.Instance(id: 5, title: "new"), key: 5, in: "cars") }
    #expect(try await cars.load(5)?.title == "new")
    #expect(try await cars.migrate() == 3)
  }

  @Test func `an error thrown by the program's closure is the cause of the error`() async throws {
    struct Broken: StoreFormat {
      static let collection = "cars"
      enum Version: String, CaseIterable, Sendable { case v9, next }
      static let currentVersion = Version.next
      typealias Instance = First.Instance
      typealias Metadata = Int
      static func decode(_ stored: StoredValue, version: Version) throws -> Instance { throw StoreStop() }
      static func decodeMetadata(_ stored: StoredValue, version: Version) throws -> Int { throw StoreStop() }
    }
    let backend = try SharedBackend()
    try await Self.run(First.self, on: backend, defined: true) { cars async throws in
      try await cars.persist(First.Instance(id: 1, name: "Saab 900"), metadata: 17)
    }
    try await Self.run(Broken.self, on: backend, defined: true) { cars async throws in
      for body: () async throws -> Void in [{ _ = try await cars.load(1) }, { _ = try await cars.metadata(of: 1) }] {
        do {
          try await body()
          Issue.record("it should throw")
        } catch let error as DatabaseError {
          #expect(error.code == .decodingFailed)
          #expect(error.cause is StoreStop)
          #expect(error.key == "1")
        }
      }
    }
  }

  @Test func `versions may be integers`() async throws {
    struct Numbered: StoreFormat {
      static let collection = "numbered"
      enum Version: Int, CaseIterable, Sendable { case old = 20, new = 3 }
      static let currentVersion = Version.new
      struct Instance: Codable, Identifiable, Hashable, Sendable { var id: Int }
      static func decode(_ stored: StoredValue, version: Version) throws -> Instance {
        switch version {
        case .old: Instance(id: -1)
        case .new: try stored.decode()
        }
      }
    }
    let backend = try SharedBackend()
    try await Self.run(Numbered.self, on: backend, defined: true) { store async throws in
      try await store.persist(Numbered.Instance(id: 1))
      #expect(try await store.load(1)?.id == 1)
      #expect(try await store.migrate() == 0)
    }
  }
}

extension FormatVersionTests.Third.Instance {
  fileprivate init(_ car: FormatVersionTests.First.Instance) {
    self.init(id: car.id, title: car.name.replacing(" ", with: "/"))
  }
  fileprivate init(_ car: FormatVersionTests.Second.Instance) {
    self.init(id: car.id, title: "\(car.maker)/\(car.model)")
  }
}
