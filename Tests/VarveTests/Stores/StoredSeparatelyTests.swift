import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of metadata that is excluded from the encoding of its object.
struct StoredSeparatelyTests {
  private static let photo = Photo(id: 1, name: "one", metadata: Photo.Size(width: 7))

  @Test func `an excluded property is not a field, and nil when it is decoded`() throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    let data = try encoder.encode(Self.photo)
    #expect(String(decoding: data, as: UTF8.self) == #"{"id":1,"name":"one"}"#)
    #expect(try JSONDecoder().decode(Photo.self, from: data) == Photo(id: 1, name: "one"))
    let other = Data(#"{"id":1,"name":"one","metadata":{"width":3}}"#.utf8)
    #expect(try JSONDecoder().decode(Photo.self, from: other).metadata == nil)
    let list = try PropertyListEncoder().encode(Self.photo)
    #expect(try PropertyListDecoder().decode(Photo.self, from: list) == Photo(id: 1, name: "one"))
  }

  @Test func `an excluded property is compared and hashed`() {
    #expect(Self.photo != Photo(id: 1, name: "one"))
    #expect(Set([Self.photo, Self.photo, Photo(id: 1, name: "one")]).count == 2)
  }

  @Test func `the object's bytes don't include it, and those of the metadata do`() async throws {
    let definition = try DatabaseDefinition {
      try CollectionDefinition(Photo.self, coder: .json)
    }
    let database = try await Database.inMemory(definition: definition)
    try await Self.photo.persist(in: database)
    let row = try await database.read { tx in
      (try tx.objectBytes(key: 1, in: "photos"), try tx.metadataBytes(key: 1, in: "photos"))
    }
    #expect(row.0 == Array(#"{"id":1,"name":"one"}"#.utf8))
    #expect(row.1 == Array(#"{"width":7}"#.utf8))
  }

  #if DEBUG
    @Test func `debug builds refuse metadata that is encoded with its object`() async throws {
      struct Careless: Persistable {
        static let collection = "careless"
        var id: Int
        var metadata: Int?
      }
      struct Careful: Persistable {
        static let collection = "careful"
        var id: Int
        var metadata: Int?
        enum CodingKeys: CodingKey { case id }
      }
      struct Wrapped: Persistable {
        static let collection = "wrapped"
        var inner: Careless
        var id: Int { inner.id }
        var metadata: Int? {
          get { inner.metadata }
          set { inner.metadata = newValue }
        }
        func encode(to encoder: any Encoder) throws {
          var container = encoder.singleValueContainer()
          try container.encode(inner)
        }
      }
      struct Numeric: Persistable {
        static let collection = "numeric"
        var id: Int
        var metadata: Int?
        init(id: Int, metadata: Int?) {
          self.id = id
          self.metadata = metadata
        }
        init(from decoder: any Decoder) throws {
          self.init(id: try decoder.singleValueContainer().decode(Int.self), metadata: nil)
        }
        func encode(to encoder: any Encoder) throws {
          var container = encoder.singleValueContainer()
          try container.encode(id)
        }
      }
      let open = try StoreLocation.memory.open()
      let database = open.database
      for _ in 0..<2 {
        #expect(await errorCode { try await Careless(id: 1, metadata: 1).persist(in: database) } == .invalidDefinition)
        #expect(
          await errorCode { try await Wrapped(inner: Careless(id: 1, metadata: 1)).persist(in: database) }
            == .invalidDefinition)
      }
      #expect(try await Careless.load(..., in: database).collect().isEmpty)
      try await Careful(id: 1, metadata: 1).persist(in: database)
      #expect(try await Careful.load(..., in: database).collect().map(\.metadata) == [1])
      try await Numeric(id: 1, metadata: 2).persist(in: database)
      #expect(try await Numeric.load(..., in: database).collect().map(\.metadata) == [2])
      // Without metadata, this type cannot be distinguished from one that excludes it.
      try await Careless(id: 2, metadata: nil).persist(in: database)
    }
  #endif
}
