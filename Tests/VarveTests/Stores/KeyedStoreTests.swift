import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of values whose keys are passed to each call: plain bytes, and other types.
struct KeyedStoreTests {
  private struct Size: Codable, Hashable, Sendable { var width: Int }
  private static let bytes = Data((0..<300).map { UInt8(truncatingIfNeeded: $0) })

  @Test(arguments: StoreLocation.allCases)
  func `bytes are set, read, changed and removed in a transaction`(location: StoreLocation) throws {
    let open = try location.open()
    let store = Store(of: Data.self, key: String.self, in: open.database, collection: "bytes")
    try open.writing { tx throws in
      #expect(try store.persist(Self.bytes, for: "a", in: tx) == nil)
      #expect(try store.persist(Data([1, 2]), for: "a", in: tx) == Self.bytes)
      #expect(try store.load("a", in: tx) == Data([1, 2]))
      #expect(try store.load("b", in: tx) == nil)
      try store.insert(Self.bytes[100..<103], for: "b", in: tx)
      #expect(errorCode { try store.insert(Data([0]), for: "b", in: tx) } == .alreadyExists)
      #expect(try store.update(Data([UInt8]()), for: "b", in: tx) == Data([100, 101, 102]))
      #expect(try store.load("b", in: tx) == Data())
      #expect(errorCode { try store.update(Data([0]), for: "c", in: tx) } == .notFound)
      #expect(try store.modify("a", in: tx) { $0.append(3) } == Data([1, 2, 3]))
      #expect(errorCode { try store.modify("c", in: tx) { _ in } } == .notFound)
      try store.persist(contentsOf: [("x", Data([7])), ("y", Data([8]))], in: tx)
      try store.persist(contentsOf: ["z": Data([9])], in: tx)
      #expect(try store.load(ids: ["z", "no", "x"], in: tx) == [Data([9]), nil, Data([7])])
      #expect(try store.contains("x", in: tx) && !store.contains("no", in: tx))
      #expect(try store.count(in: tx) == 5)
      #expect(try store.count("x"..., in: tx) == 3)
      #expect(try Array(store.load(..., descending: true, limit: 2, in: tx)) == [Data([9]), Data([8])])
      #expect(try Array(store.load("x"..<"z", in: tx)) == [Data([7]), Data([8])])
      #expect(try store.delete("a", in: tx) == Data([1, 2, 3]))
      #expect(errorCode { try store.delete("a", in: tx) } == .notFound)
      #expect(try store.deleteIfPresent("a", in: tx) == nil)
      #expect(try store.delete(ids: ["b", "no"], in: tx) == 1)
      #expect(try store.delete(..."x", in: tx) == 1)
      #expect(try store.delete(..., in: tx) == 2)
    }
  }

  @Test(arguments: StoreLocation.allCases)
  func `bytes are set, read, changed and removed by single calls`(location: StoreLocation) async throws {
    let open = try location.open()
    let store = Store(of: Data.self, key: Int.self, in: open.database, collection: "bytes")
    #expect(try await store.persist(Self.bytes, for: 1) == nil)
    #expect(try await store.persist(Data([1, 2]), for: 1) == Self.bytes)
    #expect(try await store.load(1) == Data([1, 2]))
    try await store.insert(Data([3]), for: 2)
    #expect(await errorCode { try await store.insert(Data([0]), for: 2) } == .alreadyExists)
    #expect(try await store.update(Data([4]), for: 2) == Data([3]))
    #expect(await errorCode { try await store.update(Data([0]), for: 3) } == .notFound)
    #expect(try await store.modify(2) { $0 += [5] } == Data([4, 5]))
    try await store.persist(contentsOf: [(7, Data([7])), (8, Data([8])), (9, Data([9]))])
    #expect(try await store.load(ids: [9, 5]) == [Data([9]), nil])
    #expect(try await store.contains(7))
    #expect(try await store.count == 5)
    #expect(try await store.count(7...) == 3)
    #expect(try await store.load(...).collect().count == 5)
    #expect(try await store.load(7..., descending: true).first == Data([9]))
    #expect(try await store.delete(7) == Data([7]))
    #expect(try await store.deleteIfPresent(7) == nil)
    #expect(try await store.delete(ids: [8, 7]) == 1)
    #expect(try await store.delete(9...) == 1)
    #expect(try await store.delete(...) == 2)
  }

  @Test(arguments: StoreLocation.allCases)
  func `bytes are stored with metadata`(location: StoreLocation) async throws {
    let open = try location.open()
    let store = Store(of: Data.self, key: Int.self, metadata: Size.self, in: open.database, collection: "pictures")
    try await store.persist(Data([1]), for: 1, metadata: Size(width: 10))
    try await store.persist(Data([2]), for: 1)
    #expect(try await store.metadata(of: 1) == Size(width: 10))
    try await store.setMetadata(Size(width: 11), of: 1)
    #expect(try await store.modify(1) { $0 = Data([3]) } == Data([3]))
    #expect(try await store.metadata(of: 1) == Size(width: 11))
    #expect(try await store.update(Data([4]), for: 1, metadata: nil) == Data([3]))
    #expect(try await store.metadata(of: 1) == nil)
    try await store.insert(Data([5]), for: 2, metadata: Size(width: 12))
    try open.writing { tx throws in
      #expect(try store.metadata(of: 2, in: tx) == Size(width: 12))
      #expect(try store.update(Data([6]), for: 2, metadata: Size(width: 13), in: tx) == Data([5]))
      try store.persist(Data([7]), for: 3, metadata: Size(width: 14), in: tx)
      try store.insert(Data([8]), for: 4, metadata: Size(width: 15), in: tx)
      try store.setMetadata(nil, of: 4, in: tx)
      #expect(try (1...4).map { try store.metadata(of: $0, in: tx)?.width } == [nil, 13, 14, nil])
    }
    #expect(await errorCode { try await store.setMetadata(nil, of: 9) } == .notFound)
    #expect(await errorCode { try await store.insert(Data([0]), for: 3, metadata: Size(width: 0)) } == .alreadyExists)
    #expect(try await store.metadata(of: 3) == Size(width: 14))
  }

  @Test func `bytes are stored unchanged`() async throws {
    let open = try StoreLocation.memory.open()
    let store = Store(of: Data.self, key: Int.self, in: open.database, collection: "bytes")
    try await store.persist(Self.bytes, for: 1)
    #expect(try open.reading { tx in try tx.objectBytes(key: 1, in: "bytes") } == [UInt8](Self.bytes))
    let slice = Self.bytes[50..<60]
    try await store.persist(slice, for: 2)
    #expect(try await store.load(2) == slice)
    try open.writing { tx in try tx.set(Data([5]), key: 3, in: "bytes") }
    #expect(try await store.load(3) == Data([5]))
  }

  @Test func `bytes and metadata persist after the database is closed`() async throws {
    let backend = try SharedBackend()
    for isLast in [false, true] {
      let definition = try DatabaseDefinition {
        if isLast { try CollectionDefinition(ValueFormat<Int, Data, Size>.self, collection: "pictures") }
      }
      let database = try backend.open(definition)
      let store = Store(of: Data.self, key: Int.self, metadata: Size.self, in: database, collection: "pictures")
      if isLast {
        #expect(try await store.load(1) == Self.bytes)
        #expect(try await store.metadata(of: 1) == Size(width: 3))
        let other = Store(of: Data.self, key: Int.self, metadata: String.self, in: database, collection: "pictures")
        #expect(await errorCode { _ = try await other.load(1) } == .alreadyDefined)
        let keyed = Store(of: Data.self, key: String.self, metadata: Size.self, in: database, collection: "pictures")
        #expect(await errorCode { _ = try await keyed.load("1") } == .alreadyDefined)
      } else {
        try await store.persist(Self.bytes, for: 1, metadata: Size(width: 3))
      }
    }
    let keyed = Store(
      of: Data.self, key: String.self, metadata: Size.self, in: try backend.open(), collection: "pictures")
    #expect(await errorCode { _ = try await keyed.load("1") } == .definitionDiffers)
  }

  @Test func `a sequence of bytes is set entirely or not at all`() throws {
    let open = try StoreLocation.memory.open()
    let store = Store(of: Data.self, key: Double.self, in: open.database, collection: "bytes")
    try open.writing { tx throws in
      #expect(errorCode { try store.persist(contentsOf: [(1, Data()), (.nan, Data())], in: tx) } == .invalidKey)
      #expect(try store.count(in: tx) == 0)
    }
  }

  @Test(arguments: [0, 1, 250_000, 5 << 20])
  func `bytes of each size are read back`(size: Int) async throws {
    let open = try StoreLocation.disk.open()
    let store = Store(of: Data.self, key: Int.self, in: open.database, collection: "bytes")
    let bytes = Data(repeating: 0xa5, count: size)
    try await store.persist(bytes, for: 1)
    #expect(try await store.load(1) == bytes)
    #expect(try await store.load(...).first == bytes)
  }
}
