import Foundation
import Synchronization
import Testing
import Varve

@testable import ObjectFixtures

/// Types with a collection: everything that YapDatabaseExtensions offers, in both styles.
struct PersistableTests {
  private static let items = (1...5).map { Item(id: "k\($0)", count: $0) }
  private static let photos = [
    Photo(id: 1, name: "one", metadata: Photo.Size(width: 10)), Photo(id: 2, name: "two"),
    Photo(id: 3, name: "three", metadata: Photo.Size(width: 30)),
  ]

  private func filled(_ place: StorePlace = .memory) throws -> OpenDatabase {
    let open = try place.open()
    try open.writing { tx in
      try tx.write(Self.items)
      try tx.write(Self.photos)
    }
    return open
  }

  // MARK: - Calls of the transaction

  @Test(arguments: StorePlace.allCases)
  func `2.3: items are written, read and removed by calls of the transaction`(place: StorePlace) throws {
    let open = try place.open()
    try open.writing { tx throws in
      #expect(try tx.write(Self.items[0]) == Self.items[0])
      #expect(try tx.write(Self.items) == Self.items)
      let one: Item? = try tx.read("k1")
      #expect(one == Self.items[0])
      #expect(try tx.read("none", as: Item.self) == nil)
      let several: [Item] = try tx.read(keys: ["k3", "none", "k1", "k3"])
      #expect(several.map(\.id) == ["k3", "k1", "k3"])
      let all: [Item] = try tx.readAll()
      #expect(all == Self.items)
      #expect(try tx.remove(Item(id: "k1", count: 0)))
      #expect(try !tx.remove(Self.items[0]))
      #expect(try tx.remove(Self.items[..<3]) == 2)
      #expect(try tx.readAll(Item.self).map(\.id) == ["k4", "k5"])
    }
  }

  @Test(arguments: StorePlace.allCases)
  func `2.1: items are found by their rows too`(place: StorePlace) throws {
    let open = try filled(place)
    try open.reading { tx throws in
      let row = try Self.items[1].rowKey
      #expect(row.collection == "items")
      #expect(try row == RowKey("k2", in: "items"))
      #expect(try tx.read(at: row, as: Item.self) == Self.items[1])
      let rows = try Item.rowKeys(["k5", "none", "k2"])
      #expect(try tx.read(at: rows, as: Item.self).map(\.id) == ["k5", "k2"])
      #expect(try tx.readMetadata(at: Photo.rowKey(3), of: Photo.self) == Photo.Size(width: 30))
      #expect(try tx.readMetadata(at: Photo.rowKeys([3, 2, 1]), of: Photo.self).map(\.width) == [30, 10])
      #expect(errorCode { _ = try tx.read(at: Photo.rowKey(1), as: Item.self) } == .invalidArgument)
      #expect(errorCode { _ = try tx.read(at: RowKey(1, in: "items"), as: Item.self) } == .keyTypeDiffers)
    }
  }

  @Test(arguments: StorePlace.allCases)
  func `2.1: metadata is read with its item, and alone`(place: StorePlace) throws {
    let open = try filled(place)
    try open.reading { tx throws in
      #expect(try tx.read(1, as: Photo.self) == Self.photos[0])
      #expect(try tx.readAll(Photo.self) == Self.photos)
      #expect(try tx.read(keys: [3, 2, 9, 1], as: Photo.self) == Self.photos.reversed())
      #expect(try tx.readMetadata(1, of: Photo.self) == Photo.Size(width: 10))
      #expect(try tx.readMetadata(2, of: Photo.self) == nil)
      #expect(try tx.readMetadata(9, of: Photo.self) == nil)
      #expect(try tx.readMetadata(keys: [3, 2, 9, 1], of: Photo.self).map(\.width) == [30, 10])
    }
  }

  @Test func `2.3: an item is written as it is: without metadata its row has none then`() throws {
    let open = try filled()
    try open.writing { tx throws in
      var photo = try #require(try tx.read(1, as: Photo.self))
      photo.name = "changed"
      try tx.write(photo)
      #expect(try tx.readMetadata(1, of: Photo.self) == Photo.Size(width: 10))
      photo.metadata = nil
      try tx.write(photo)
      #expect(try tx.readMetadata(1, of: Photo.self) == nil)
      #expect(try tx.read(1, as: Photo.self) == photo)
      photo.metadata = Photo.Size(width: 5)
      try tx.write([photo])
      try tx.remove(photo)
      try tx.write(Photo(id: 1, name: "new"))
      #expect(try tx.readMetadata(1, of: Photo.self) == nil)
    }
  }

  @Test func `metadata is read beside its items in both directions`() async throws {
    let open = try StorePlace.memory.open()
    let photos = (0..<700).map { id in
      Photo(id: id, name: "", metadata: id % 7 < 3 ? Photo.Size(width: id) : nil)
    }
    try await photos.write(to: open.database)
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

  // MARK: - Calls of the item

  @Test(arguments: StorePlace.allCases)
  func `2.4: items are written, read and removed by their own calls in a transaction`(place: StorePlace) throws {
    let open = try place.open()
    try open.writing { tx throws in
      #expect(try Self.items[0].write(to: tx) == Self.items[0])
      #expect(try Self.items.write(to: tx) == Self.items)
      #expect(try Self.photos.lazy.filter { $0.id > 1 }.write(to: tx).count == 2)
      let reader = Item.read(from: tx)
      #expect(try reader.byKey("k2") == Self.items[1])
      #expect(try reader.byKey("none") == nil)
      #expect(try reader.byKeys(["k2", "k1", "none", "k2"]).map(\.count) == [2, 1, 2])
      #expect(try reader.at(Self.items[2].rowKey) == Self.items[2])
      #expect(try reader.at(Item.rowKeys(["k4", "k3"])).map(\.count) == [4, 3])
      #expect(try reader.all() == Self.items)
      #expect(try Photo.read(from: tx).metadata(byKey: 3)?.width == 30)
      #expect(try Photo.read(from: tx).metadata(byKeys: [2, 3, 3]).map(\.width) == [30, 30])
      #expect(try Photo.read(from: tx).metadata(at: Photo.rowKey(3))?.width == 30)
      #expect(try Photo.read(from: tx).metadata(at: Photo.rowKeys([3, 4])).map(\.width) == [30])
      #expect(try Self.items[0].remove(from: tx))
      #expect(try !Self.items[0].remove(from: tx))
      #expect(try Self.items.remove(from: tx) == 4)
      #expect(try reader.all().isEmpty)
    }
  }

  @Test func `2.4: what exists is told from what is missing, in order, with repetitions`() async throws {
    let open = try filled()
    let keys = ["k2", "x", "k1", "x", "k2", "y"]
    try open.reading { tx throws in
      let (existing, missing) = try Item.read(from: tx).filterExisting(keys)
      #expect(existing.map(\.id) == ["k2", "k1", "k2"])
      #expect(missing == ["x", "x", "y"])
    }
    let (existing, missing) = try await Item.read(from: open.database).filterExisting(keys)
    #expect(existing.count == 3 && missing.count == 3)
    let none = try await Item.read(from: open.database).filterExisting([])
    #expect(none.existing.isEmpty && none.missing.isEmpty)
    struct Unwritten: Persistable {
      static let collection = "unwritten"
      var id: Int
    }
    let unwritten = try await Unwritten.read(from: open.database).filterExisting([2, 1])
    #expect(unwritten.existing.isEmpty && unwritten.missing == [2, 1])
  }

  // MARK: - On a database

  /// In a function that is not asynchronous the forms that wait are meant.
  private func waitingForms(_ database: some DatabaseWriter) throws {
    #expect(try database.write(Self.items[0]) == Self.items[0])
    #expect(try database.write(Self.items) == Self.items)
    #expect(try Self.photos[0].write(to: database) == Self.photos[0])
    #expect(try Self.photos.write(to: database) == Self.photos)
    let one: Item? = try database.read("k1")
    #expect(one == Self.items[0])
    #expect(try database.read(keys: ["k2", "k1"], as: Item.self).map(\.count) == [2, 1])
    #expect(try database.read(at: Item.rowKey("k2"), as: Item.self)?.count == 2)
    #expect(try database.read(at: Item.rowKeys(["k2"]), as: Item.self).map(\.count) == [2])
    #expect(try database.readAll(Photo.self) == Self.photos)
    #expect(try database.readMetadata(1, of: Photo.self)?.width == 10)
    #expect(try database.readMetadata(keys: [1, 2, 3], of: Photo.self).map(\.width) == [10, 30])
    #expect(try database.readMetadata(at: Photo.rowKey(1), of: Photo.self)?.width == 10)
    #expect(try database.readMetadata(at: Photo.rowKeys([1]), of: Photo.self).map(\.width) == [10])
    let reader = Item.read(from: database)
    #expect(try reader.byKey("k5")?.count == 5)
    #expect(try reader.byKeys(["k5", "k4"]).map(\.count) == [5, 4])
    #expect(try reader.at(Item.rowKey("k5"))?.count == 5)
    #expect(try reader.at(Item.rowKeys(["k5"])).map(\.count) == [5])
    #expect(try reader.all().count == 5)
    #expect(try reader.filterExisting(["k5", "k6"]).missing == ["k6"])
    let metadata = Photo.read(from: database)
    #expect(try metadata.metadata(byKey: 1)?.width == 10)
    #expect(try metadata.metadata(byKeys: [3, 1]).map(\.width) == [30, 10])
    #expect(try metadata.metadata(at: Photo.rowKey(1))?.width == 10)
    #expect(try metadata.metadata(at: Photo.rowKeys([1])).map(\.width) == [10])
    #expect(try database.remove(Self.items[0]))
    #expect(try database.remove(Self.items) == 4)
    #expect(try Self.photos[0].remove(from: database))
    #expect(try Self.photos.remove(from: database) == 2)
    #expect(try database.readAll(Photo.self).isEmpty)
  }

  @Test(arguments: StorePlace.allCases)
  func `2.3, 2.4: each call has a form on the database that waits on its thread`(place: StorePlace) throws {
    let open = try place.open()
    try waitingForms(open.database)
  }

  @Test(arguments: StorePlace.allCases)
  func `2.3, 2.4: each call has a form on the database for tasks`(place: StorePlace) async throws {
    let open = try place.open()
    let database = open.database
    #expect(try await database.write(Self.items[0]) == Self.items[0])
    #expect(try await database.write(Self.items) == Self.items)
    #expect(try await Self.photos[0].write(to: database) == Self.photos[0])
    #expect(try await Self.photos.write(to: database) == Self.photos)
    let one: Item? = try await database.read("k1")
    #expect(one == Self.items[0])
    #expect(try await database.read(keys: ["k2", "k1"], as: Item.self).map(\.count) == [2, 1])
    #expect(try await database.read(at: Item.rowKey("k2"), as: Item.self)?.count == 2)
    #expect(try await database.read(at: Item.rowKeys(["k2"]), as: Item.self).map(\.count) == [2])
    #expect(try await database.readAll(Photo.self) == Self.photos)
    #expect(try await database.readMetadata(1, of: Photo.self)?.width == 10)
    #expect(try await database.readMetadata(keys: [1, 2, 3], of: Photo.self).map(\.width) == [10, 30])
    #expect(try await database.readMetadata(at: Photo.rowKey(1), of: Photo.self)?.width == 10)
    #expect(try await database.readMetadata(at: Photo.rowKeys([1]), of: Photo.self).map(\.width) == [10])
    let reader = Item.read(from: database)
    #expect(try await reader.byKey("k5")?.count == 5)
    #expect(try await reader.byKeys(["k5", "k4"]).map(\.count) == [5, 4])
    #expect(try await reader.at(Item.rowKey("k5"))?.count == 5)
    #expect(try await reader.at(Item.rowKeys(["k5"])).map(\.count) == [5])
    #expect(try await reader.all().count == 5)
    let metadata = Photo.read(from: database)
    #expect(try await metadata.metadata(byKey: 1)?.width == 10)
    #expect(try await metadata.metadata(byKeys: [3, 1]).map(\.width) == [30, 10])
    #expect(try await metadata.metadata(at: Photo.rowKey(1))?.width == 10)
    #expect(try await metadata.metadata(at: Photo.rowKeys([1])).map(\.width) == [10])
    #expect(try await database.remove(Self.items[0]))
    #expect(try await database.remove(Self.items) == 4)
    #expect(try await Self.photos[0].remove(from: database))
    #expect(try await Self.photos.remove(from: database) == 2)
    #expect(try await database.readAll(Photo.self).isEmpty)
  }

  @Test func `2.4: a sequence is one transaction: where one item can't be written, none is`() async throws {
    struct Measure: Persistable {
      static let collection = "measures"
      var id: Double
    }
    let open = try StorePlace.memory.open()
    let measures = [1, Double.nan].map(Measure.init)
    #expect(await errorCode { try await measures.write(to: open.database) } == .invalidKey)
    #expect(try await open.database.readAll(Measure.self).isEmpty)
    try open.writing { tx throws in
      #expect(errorCode { try measures.write(to: tx) } == .invalidKey)
      #expect(try tx.readAll(Measure.self).isEmpty)
    }
    let backend = try SharedBackend()
    let database = try backend.open()
    try await Self.items[0].write(to: database)
    backend.setBack()
    try await Self.items.write(to: database)
    try await Self.items.remove(from: database)
    #expect(backend.asked.commits == 2)
  }

  @Test func `calls inside of perform and inside of write belong to it`() async throws {
    let open = try StorePlace.memory.open()
    let database = open.database
    await #expect(throws: StoreStop.self) {
      try await database.perform {
        try await Self.items.write(to: database)
        #expect(try await Item.read(from: database).all().count == 5)
        throw StoreStop()
      }
    }
    #expect(throws: StoreStop.self) {
      try open.writing { _ in
        try waitingForms(database)
        throw StoreStop()
      }
    }
    #expect(try await database.readAll(Item.self).isEmpty)
  }

  @Test func `connections read and write items as databases do, at the instant that they hold`() async throws {
    let open = try StorePlace.memory.open()
    let connection = open.database.connection()
    try waitingForms(connection)
    try await Self.photos.write(to: connection)
    try await connection.write(Self.items)
    #expect(try await Photo.read(from: connection).all() == Self.photos)
    for _ in 0..<2 {
      #expect(try await connection.read("k1", as: Item.self) == Self.items[0])
      #expect(try await connection.read(1, as: Photo.self) == Self.photos[0])
    }
    try await connection.beginLongLivedRead()
    try await Item(id: "k1", count: 77).write(to: open.database)
    #expect(try await connection.read("k1", as: Item.self)?.count == 1)
    try await connection.advance()
    #expect(try await connection.read("k1", as: Item.self)?.count == 77)
  }

  // MARK: - Operations and closures

  @Test(arguments: StorePlace.allCases)
  func `2.4: operations write and remove when a queue runs them`(place: StorePlace) async throws {
    let open = try place.open()
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = 1
    let operations = [
      Self.items.writeOperation(to: open.database), Self.photos[0].writeOperation(to: open.database),
      Self.items[..<2].removeOperation(from: open.database), Self.items[2].removeOperation(from: open.database),
    ]
    let canceled = Self.photos.writeOperation(to: open.database)
    canceled.cancel()
    #expect(try await open.database.readAll(Item.self).isEmpty, "nothing is written before")
    // The queue is waited for on a thread of its own.
    await withCheckedContinuation { continuation in
      for operation in operations { queue.addOperation(operation) }
      queue.addOperation(canceled)
      queue.addBarrierBlock { continuation.resume() }
    }
    #expect(operations.allSatisfy { $0.isFinished && $0.error == nil })
    #expect(try await open.database.readAll(Item.self).map(\.id) == ["k4", "k5"])
    #expect(try await open.database.readAll(Photo.self) == [Self.photos[0]])
  }

  @Test func `an operation keeps its error`() async throws {
    let database = try Database.inMemory()
    try await database.close()
    let operation = Self.items[0].writeOperation(to: database)
    operation.start()
    #expect((operation.error as? DatabaseError)?.code == .closed)
    #expect(operation.isFinished)
  }

  @Test func `2.5: closures are handed to transactions`() async throws {
    let open = try StorePlace.memory.open()
    let database = open.database
    #expect(try await database.write(Self.items[0].write()) == Self.items[0])
    #expect(try open.writing(Self.items[1].write()) == Self.items[1])
    #expect(try await database.read(Item.read(byKey: "k1")) == Self.items[0])
    #expect(try open.reading(Item.read(byKeys: ["k2", "k3", "k1"])).map(\.count) == [2, 1])
    #expect(try await database.read(Item.read(at: Self.items[1].rowKey)) == Self.items[1])
    #expect(try await database.read(Item.read(at: Item.rowKeys(["k1", "k2"]))).count == 2)
    #expect(try await database.read(Item.readAll()).count == 2)
    #expect(try await database.write(Self.items[1].remove()))
    #expect(try await !database.write(Self.items[1].remove()))
  }

  @Test func `a store of a type sets and reads its metadata too`() async throws {
    let open = try filled()
    let photos = Photo.store(in: open.database)
    #expect(try await photos.load(1) == Self.photos[0])
    #expect(try await photos.persist(Photo(id: 1, name: "bare")) == Self.photos[0])
    #expect(try await photos.metadata(of: 1) == nil)
    try await photos.modify(1) { $0.metadata = Photo.Size(width: 8) }
    #expect(try await Photo.read(from: open.database).metadata(byKey: 1)?.width == 8)
    #expect(try await photos.delete(1).metadata?.width == 8)
    try await photos.persist(contentsOf: [Photo(id: 3, name: "three", metadata: Photo.Size(width: 9))])
    #expect(try await photos.load(ids: [3, 2]).map { $0?.metadata?.width } == [9, nil])
    #expect(await errorCode { try await photos.insert(Self.photos[2]) } == .alreadyExists)
  }

  @Test func `2.2: items of classes are items`() async throws {
    let open = try StorePlace.memory.open()
    try await Keeper(id: 1, metadata: "first").write(to: open.database)
    let keeper = try #require(try await Keeper.read(from: open.database).byKey(1))
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
