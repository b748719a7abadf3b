import Foundation
import Synchronization
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of types with a collection: the calls of stores as methods of the type.
struct PersistableTests {
  private static let items = (1...5).map { Item(id: "k\($0)", count: $0) }
  private static let photos = [
    Photo(id: 1, name: "one", metadata: Photo.Size(width: 10)), Photo(id: 2, name: "two"),
    Photo(id: 3, name: "three", metadata: Photo.Size(width: 30)),
  ]

  private func filled(_ location: StoreLocation = .memory) throws -> OpenDatabase {
    let open = try location.open()
    try open.writing { tx in
      try Self.items.persist(in: tx)
      try Self.photos.persist(in: tx)
    }
    return open
  }

  // MARK: - In a transaction

  @Test(arguments: StoreLocation.allCases)
  func `items are set, loaded, changed and removed in a transaction`(location: StoreLocation) throws {
    let open = try location.open()
    let store = Item.store(in: open.database)
    try open.writing { tx throws in
      #expect(try Self.items[0].persist(in: tx) == nil)
      #expect(try Item(id: "k1", count: 9).persist(in: tx) == Self.items[0])
      try Self.items.persist(in: tx)
      #expect(try Item.load("k1", in: tx) == Self.items[0])
      #expect(try Item.load("none", in: tx) == nil)
      #expect(try Item.load(ids: ["k3", "none", "k1", "k3"], in: tx).map { $0?.id } == ["k3", nil, "k1", "k3"])
      #expect(try Array(Item.load(..., in: tx)) == Self.items)
      #expect(try Array(Item.load("k2"..."k3", descending: true, in: tx)).map(\.count) == [3, 2])
      #expect(try Array(store.ids(limit: 2, in: tx)) == ["k1", "k2"])
      #expect(try Array(store.ids("k4"..., in: tx)) == ["k4", "k5"])
      #expect(try store.contains("k5", in: tx) && !store.contains("k6", in: tx))
      #expect(try store.count(in: tx) == 5 && store.count("k2"..<"k4", in: tx) == 2)
      #expect(errorCode { try Self.items[0].insert(in: tx) } == .alreadyExists)
      #expect(errorCode { try Item(id: "k9", count: 9).update(in: tx) } == .notFound)
      try Item(id: "k6", count: 6).insert(in: tx)
      #expect(try Item(id: "k6", count: 7).update(in: tx) == Item(id: "k6", count: 6))
      #expect(try Item.modify("k6", in: tx) { $0.count += 1 } == Item(id: "k6", count: 8))
      #expect(errorCode { try Item.modify("k6", in: tx) { $0.id = "other" } } == .invalidArgument)
      #expect(errorCode { try Item.modify("k9", in: tx) { $0.count = 0 } } == .notFound)
      #expect(try Item(id: "k6", count: 0).delete(in: tx) == Item(id: "k6", count: 8))
      #expect(errorCode { try Item.delete("k6", in: tx) } == .notFound)
      #expect(try Item.deleteIfPresent("k6", in: tx) == nil)
      #expect(try Item(id: "k5", count: 0).deleteIfPresent(in: tx) == Self.items[4])
      #expect(try store.delete(ids: ["k4", "k6"], in: tx) == 1)
      #expect(try Self.items[2...].delete(in: tx) == 1)
      #expect(try store.delete("k2"..., in: tx) == 1)
      #expect(try store.delete(..., in: tx) == 1)
      #expect(try store.count(in: tx) == 0)
    }
  }

  @Test(arguments: StoreLocation.allCases)
  func `items are found by their rows too`(location: StoreLocation) throws {
    let open = try filled(location)
    try open.reading { tx throws in
      let row = try Self.items[1].rowKey
      #expect(row.collection == "items")
      #expect(try row == RowKey("k2", in: "items") && row == Item.rowKey("k2"))
      #expect(try Item.load(Item.identifier(of: row), in: tx) == Self.items[1])
      #expect(try Photo.metadata(of: Photo.identifier(of: Photo.rowKey(3)), in: tx) == Photo.Size(width: 30))
      #expect(errorCode { _ = try Item.identifier(of: Photo.rowKey(1)) } == .invalidArgument)
      #expect(errorCode { _ = try Item.identifier(of: RowKey(1, in: "items")) } == .keyTypeDiffers)
      let store = Item.store(in: open.database)
      #expect(try store.rowKey("k2") == row && store.identifier(of: row) == "k2")
      #expect(errorCode { _ = try store.identifier(of: Photo.rowKey(1)) } == .invalidArgument)
    }
  }

  @Test(arguments: StoreLocation.allCases)
  func `metadata is read with its item, and alone`(location: StoreLocation) throws {
    let open = try filled(location)
    let photoStore = Photo.store(in: open.database)
    try open.writing { tx throws in
      #expect(try Photo.load(1, in: tx) == Self.photos[0])
      #expect(try Array(Photo.load(..., in: tx)) == Self.photos)
      #expect(try Photo.load(ids: [3, 2, 9, 1], in: tx) == [Self.photos[2], Self.photos[1], nil, Self.photos[0]])
      #expect(try Photo.metadata(of: 1, in: tx) == Photo.Size(width: 10))
      #expect(try Photo.metadata(of: 2, in: tx) == nil && Photo.metadata(of: 9, in: tx) == nil)
      #expect(try photoStore.metadata(ids: [3, 2, 9, 1], in: tx).map { $0?.width } == [30, nil, nil, 10])
      try photoStore.setMetadata(Photo.Size(width: 20), of: 2, in: tx)
      #expect(try Photo.load(2, in: tx)?.metadata?.width == 20)
      #expect(errorCode { try photoStore.setMetadata(nil, of: 9, in: tx) } == .notFound)
    }
  }

  @Test func `an item is set as given: without metadata its row has none afterwards`() throws {
    let open = try filled()
    try open.writing { tx throws in
      var photo = try #require(try Photo.load(1, in: tx))
      photo.name = "changed"
      try photo.persist(in: tx)
      #expect(try Photo.metadata(of: 1, in: tx) == Photo.Size(width: 10))
      photo.metadata = nil
      try photo.persist(in: tx)
      #expect(try Photo.metadata(of: 1, in: tx) == nil)
      #expect(try Photo.load(1, in: tx) == photo)
      photo.metadata = Photo.Size(width: 5)
      try [photo].persist(in: tx)
      try photo.delete(in: tx)
      try Photo(id: 1, name: "new").persist(in: tx)
      #expect(try Photo.metadata(of: 1, in: tx) == nil)
    }
  }

  @Test func `metadata is read with its items in both directions`() async throws {
    let open = try StoreLocation.memory.open()
    let photos = (0..<700).map { id in
      Photo(id: id, name: "", metadata: id % 7 < 3 ? Photo.Size(width: id) : nil)
    }
    try await photos.persist(in: open.database)
    let store = Photo.store(in: open.database)
    #expect(try await store.load(...).collect() == photos)
    #expect(try await store.load(..., descending: true).collect() == photos.reversed())
    #expect(try await store.load(100..<300, descending: true).collect() == photos[100..<300].reversed())
    try await open.database.perform {
      try await store.delete(0)
      try await store.setMetadata(Photo.Size(width: -1), of: 5)
      try await store.setMetadata(nil, of: 7)
      #expect(try await store.load(...9).collect().map { $0.metadata?.width } == [1, 2, nil, nil, -1, nil, nil, 8, 9])
    }
  }

  // MARK: - Outside of transactions

  @Test(arguments: StoreLocation.allCases)
  func `each call has a form that is its own transaction`(location: StoreLocation) async throws {
    let open = try location.open()
    let database = open.database
    #expect(try await Self.items[0].persist(in: database) == nil)
    #expect(try await Self.items[0].persist(in: database, label: "again", durability: .power) == Self.items[0])
    try await Self.items.persist(in: database)
    try await Self.photos.lazy.filter { $0.id > 0 }.map(\.self).persist(in: database, durability: .process)
    #expect(try await Item.load("k1", in: database) == Self.items[0])
    #expect(try await Item.load(ids: ["k2", "no", "k1"], in: database).map { $0?.count } == [2, nil, 1])
    #expect(try await Photo.load(..., in: database).collect() == Self.photos)
    #expect(try await Item.load("k4"..., descending: true, in: database).first?.count == 5)
    #expect(try await Item.store(in: database).ids(limit: 1).collect() == ["k1"])
    #expect(try await Item.store(in: database).ids("k4"...).collect() == ["k4", "k5"])
    #expect(try await Item.store(in: database).contains("k2"))
    #expect(try await Item.store(in: database).count == 5)
    #expect(try await Item.store(in: database).count("k2"..<"k4") == 2)
    #expect(try await Photo.metadata(of: 1, in: database)?.width == 10)
    #expect(try await Photo.store(in: database).metadata(ids: [1, 2, 3]).map { $0?.width } == [10, nil, 30])
    try await Photo.store(in: database).setMetadata(nil, of: 1, durability: .power)
    #expect(try await Photo.metadata(of: 1, in: database) == nil)
    #expect(await errorCode { try await Self.items[0].insert(in: database) } == .alreadyExists)
    try await Item(id: "k6", count: 6).insert(in: database, durability: .power)
    #expect(try await Item(id: "k6", count: 7).update(in: database, durability: .power).count == 6)
    #expect(try await Item.modify("k6", in: database, durability: .power) { $0.count += 1 }.count == 8)
    #expect(try await Item(id: "k6", count: 0).delete(in: database, durability: .power).count == 8)
    #expect(await errorCode { try await Item.delete("k6", in: database) } == .notFound)
    #expect(try await Item.store(in: database).deleteIfPresent("k6") == nil)
    #expect(try await Item(id: "k5", count: 0).deleteIfPresent(in: database)?.count == 5)
    #expect(try await Item.store(in: database).delete(ids: ["k4", "k6"]) == 1)
    #expect(try await Self.items.delete(in: database) == 3)
    #expect(try await Photo.store(in: database).delete(3...) == 1)
    #expect(try await Photo.store(in: database).delete(...) == 2)
  }

  @Test func `a single call has the durability that it requests, in both vocabularies`() async throws {
    let backend = try SharedBackend()
    let database = try backend.open()
    let items = Item.store(in: database)
    try await items.persist(Self.items[0])
    backend.setBack()
    try await items.persist(Self.items[0], durability: .power)
    try await Self.items[0].persist(in: database, durability: .power)
    try await items.modify("k1", durability: .power) { $0.count = 2 }
    try await items.delete("k1", label: "gone", durability: .power)
    #expect(backend.asked.durabilities == [.power, .power, .power, .power])
    try await items.insert(Self.items[0], durability: .process)
    #expect(backend.asked.durabilities.last == .process)
  }

  @Test func `a sequence is one transaction: if one item can't be written, none is`() async throws {
    struct Measure: Persistable {
      static let collection = "measures"
      var id: Double
    }
    let open = try StoreLocation.memory.open()
    let measures = [1, Double.nan].map(Measure.init)
    #expect(await errorCode { try await measures.persist(in: open.database) } == .invalidKey)
    #expect(try await Measure.store(in: open.database).count == 0)
    try open.writing { tx throws in
      #expect(errorCode { try measures.persist(in: tx) } == .invalidKey)
      #expect(try Measure.store(in: open.database).count(in: tx) == 0)
    }
    let backend = try SharedBackend()
    let database = try backend.open()
    try await Self.items[0].persist(in: database)
    backend.setBack()
    try await Self.items.persist(in: database)
    try await Self.items.delete(in: database)
    #expect(backend.asked.commits == 2)
  }

  @Test func `calls inside perform belong to it`() async throws {
    let open = try StoreLocation.memory.open()
    let database = open.database
    await #expect(throws: StoreStop.self) {
      try await database.perform {
        try await Self.items.persist(in: database)
        #expect(try await Item.store(in: database).count == 5)
        throw StoreStop()
      }
    }
    #expect(try await Item.store(in: database).count == 0)
  }

  @Test func `closures of connections read and write items, at the connection's snapshot`()
    async throws
  {
    let open = try StoreLocation.memory.open()
    let connection = open.database.connection()
    try await connection.write { tx in
      try Self.photos.persist(in: tx)
      try Self.items.persist(in: tx)
    }
    #expect(try await connection.read { tx in try Array(Photo.load(..., in: tx)) } == Self.photos)
    for _ in 0..<2 {
      #expect(try await connection.read { tx in try Item.load("k1", in: tx) } == Self.items[0])
      #expect(try await connection.read { tx in try Photo.load(1, in: tx) } == Self.photos[0])
    }
    try await connection.beginLongLivedRead()
    try await Item(id: "k1", count: 77).persist(in: open.database)
    #expect(try await connection.read { tx in try Item.load("k1", in: tx) }?.count == 1)
    try await connection.advance()
    #expect(try await connection.read { tx in try Item.load("k1", in: tx) }?.count == 77)
  }

  @Test func `a store of a type sets and reads its metadata too`() async throws {
    let open = try filled()
    let photos = Photo.store(in: open.database)
    #expect(try await photos.load(1) == Self.photos[0])
    #expect(try await photos.persist(Photo(id: 1, name: "bare")) == Self.photos[0])
    #expect(try await photos.metadata(of: 1) == nil)
    try await photos.modify(1) { $0.metadata = Photo.Size(width: 8) }
    #expect(try await Photo.metadata(of: 1, in: open.database)?.width == 8)
    #expect(try await photos.delete(1).metadata?.width == 8)
    try await photos.persist(contentsOf: [Photo(id: 3, name: "three", metadata: Photo.Size(width: 9))])
    #expect(try await photos.load(ids: [3, 2]).map { $0?.metadata?.width } == [9, nil])
    #expect(await errorCode { try await photos.insert(Self.photos[2]) } == .alreadyExists)
  }

  @Test func `items may be classes`() async throws {
    let open = try StoreLocation.memory.open()
    try await Keeper(id: 1, metadata: "first").persist(in: open.database)
    let keeper = try #require(try await Keeper.load(1, in: open.database))
    #expect(keeper.id == 1 && keeper.metadata == "first")
  }

  private final class Keeper: Persistable {
    static let collection = "keepers"
    let id: Int
    private let kept: Mutex<String?>
    var metadata: String? {
      get { kept.withLock { $0 } }
      set { kept.withLock { $0 = newValue } }
    }
    init(id: Int, metadata: String?) {
      self.id = id
      kept = Mutex(metadata)
    }
    enum CodingKeys: CodingKey { case id }
    convenience init(from decoder: any Decoder) throws {
      self.init(id: try decoder.container(keyedBy: CodingKeys.self).decode(Int.self, forKey: .id), metadata: nil)
    }
    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(id, forKey: .id)
    }
  }
}
