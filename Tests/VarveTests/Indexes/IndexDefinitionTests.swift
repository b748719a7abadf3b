import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of the index declarations of a format, some of which are refused before anything is written.
struct IndexDefinitionTests {
  private func message<Format: StoreFormat>(_ format: Format.Type) throws -> String? {
    do {
      try Database.inMemory(definition: DatabaseDefinition { format }).close()
      return nil
    } catch let error as DatabaseError {
      #expect(error.code == .invalidDefinition && error.collection == Format.collection)
      return error.message
    }
  }

  @Test func `a computed key path needs a version, and an optional chain the closure form`() throws {
    struct Computed: StoreFormat {
      typealias Instance = Volume
      static let collection = "volumes"
      let length = Index(\.title.count)
    }
    struct Chained: StoreFormat {
      typealias Instance = Volume
      static let collection = "volumes"
      let city = Index(\.home?.city)
    }
    struct Conditional: StoreFormat {
      typealias Instance = Volume
      static let collection = "volumes"
      let short = Index(\.title, where: { $0.title.count < 3 })
    }
    struct Versioned: StoreFormat {
      typealias Instance = Volume
      static let collection = "volumes"
      let length = Index(\.title.count, version: 1)
      let short = Index(\.title, version: 1, where: { $0.title.count < 3 })
    }
    #expect(
      try message(Computed.self)
        == "index \"length\" of Computed: its value is computed, and nothing shows whether the computation has changed; write `version: 1`, and raise it with each change"
    )
    #expect(
      try message(Chained.self)
        == "index \"city\" of Chained: its path is \"home?.city?\", which equals no field of a query; write `Index { $0.home.city }`"
    )
    #expect(try message(Conditional.self)?.contains("its condition asks for a computed field") == true)
    #expect(try message(Versioned.self) == nil)
  }

  @Test func `an index that can't be found is an error, and a format may list its indexes itself`() throws {
    struct InTuple: StoreFormat {
      typealias Instance = Volume
      static let collection = "volumes"
      let title = Index(\.title)
      let pair = (Index(\.year), Index(\.price))
    }
    struct Listed: StoreFormat {
      typealias Instance = Volume
      static let collection = "volumes"
      let pair = (Index(\.year), Index(\.price))
      var indexes: [String: any StoreIndex] { ["year": pair.0, "price": pair.1] }
    }
    struct Lazy: StoreFormat {
      typealias Instance = Volume
      static let collection = "volumes"
      let title = Index(\.title)
      var year: Index<Int> { Index(\.year) }
    }
    #expect(try message(InTuple.self)?.hasPrefix("InTuple makes 3 indexes, and 1 of them are found") == true)
    #expect(try message(Listed.self) == nil)
    let database = try Database.inMemory(definition: DatabaseDefinition { Lazy.self })
    let volumes = Store<Lazy>(in: database)
    try database.write { tx throws in
      try volumes.persist(Volume(id: 1, title: "one"), in: tx)
      #expect(errorCode { _ = try volumes.load(.value(2000), from: \.year, in: tx) } == .invalidDefinition)
      #expect(try volumes.load(.value("one"), from: \.title, in: tx).count() == 1)
    }
  }

  @Test func `two indexes of one name, an empty name, and indexes of another type are refused`() throws {
    struct Twice: StoreFormat {
      typealias Instance = Volume
      static let collection = "volumes"
      let title = Index(\.title)
      let other = Index(\.year, name: "title")
    }
    struct Unnamed: StoreFormat {
      typealias Instance = Volume
      static let collection = "volumes"
      let title = Index(\.title, name: "")
    }
    struct Foreign: StoreFormat {
      typealias Instance = Volume
      static let collection = "volumes"
      let city = PlainIndex<Volume.Home, String>(\.city)
    }
    #expect(try message(Twice.self) == "index \"title\" of Twice has the name of another")
    #expect(try message(Unnamed.self) == "index \"title\" of Unnamed has an empty name")
    #expect(try message(Foreign.self) == "index \"city\" of Foreign is of instances of another type than Volume")
  }

  @Test func `a call with a value that is invalid or too long as a key is refused`() throws {
    struct Strict: StoreFormat {
      typealias Instance = Volume
      static let collection = "volumes"
      let weight = Index(\.weight)
      let title = Index(\.title)
    }
    let database = try Database.inMemory(definition: DatabaseDefinition { Strict.self })
    let volumes = Store<Strict>(in: database)
    try database.write { tx throws in
      let error = #expect(throws: DatabaseError.self) {
        try volumes.persist(Volume(id: 1, title: "", weight: .nan), in: tx)
      }
      #expect(error?.code == .invalidKey && error?.key == "1")
      #expect(error?.message.hasPrefix("the value of index \"weight\" can't be a key") == true)
      let long = String(repeating: "x", count: database.core.limits.keySize)
      #expect(errorCode { try volumes.persist(Volume(id: 1, title: long), in: tx) } == .keyTooLong)
      try volumes.persist(Volume(id: 1, title: "kept"), in: tx)
    }
    #expect(try database.read { tx in try volumes.count(.all, from: \.title, in: tx) } == 1)
  }

  @Test func `a store with indexes works where the database was opened with it, and throws elsewhere`()
    throws
  {
    let database = try Database.inMemory()
    let volumes = Store<VolumeFormat>(in: database)
    let error = #expect(throws: DatabaseError.self) {
      try database.write { tx in try volumes.persist(Volume(id: 1, title: ""), in: tx) }
    }
    #expect(error?.code == .invalidDefinition)
    #expect(error?.message.contains("add the format to the definition") == true)
  }

  @Test func `the stored definition has kind, types, property names and condition, not the type's name`()
    throws
  {
    let list = try DeclaredIndexes<VolumeFormat>.found().list
    let texts = Dictionary(uniqueKeysWithValues: list.map { ($0.name, $0.definition) })
    #expect(texts["byYear"] == "index|compound(int,string)|false|year|title")
    #expect(texts["byShelf"] == "index|compound(string,descending(int))|false|shelf|year")
    #expect(texts["city"] == "index|optional(string)|false|home.city")
    #expect(texts["isbn"] == "oneToOne|optional(string)|false|isbn")
    #expect(texts["tags"] == "manyToMany|string|false|tags")
    #expect(texts["titleAndRow"] == "index|string|true|title")
    #expect(
      texts["recent"] == "index|int|false|year|where (year >= 2000 && shelf == \"science\")")
  }
}
