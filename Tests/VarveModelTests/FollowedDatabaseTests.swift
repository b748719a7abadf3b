import EngineTestSupport
import Testing
import VarveTestSupport

@testable import Varve

/// Tests of databases that follow another one, on every storage that supports it.
struct FollowedDatabaseTests {
  private static func look<Result>(_ database: Database, _ body: (ReadTransaction) throws -> Result) throws -> Result {
    try database.core.read(body)
  }

  @Test(arguments: StorageKind.allCases)
  func `a follower sees each transaction completely, even in collections created since`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    let writer = try Database.open(try site.open(), path: "\(kind)")
    try writer.write { try $0.set(0, key: 0, in: "rows", metadata: "zero") }
    var options = DatabaseOptions()
    options.follows = true
    let follower = try Database.open(try site.follow(), path: "\(kind)", options: options)
    for number in 1..<10 {
      let collection = number % 3 == 0 ? "rows\(number)" : "rows"
      try writer.write { tx in
        try tx.set(number, key: number, in: collection, metadata: "\(number)")
        try tx.set(number, key: "last", in: "names")
      }
      try Self.look(follower) { tx throws in
        #expect(try tx.object(Int.self, key: number, in: collection) == number)
        #expect(try tx.metadata(String.self, key: number, in: collection) == "\(number)")
        #expect(try tx.object(Int.self, key: "last", in: "names") == number)
        #expect(try tx.count() == number + 2)
        #expect(try tx.collections() == Self.look(writer) { try $0.collections() })
      }
    }
    let code = Contract.code { try follower.write { try $0.set(1, key: 1, in: "rows") } }
    #expect(code == .readOnly)
    try follower.close()
    try writer.close()
    withExtendedLifetime(site) {}
  }

  @Test(arguments: StorageKind.allCases)
  func `a read-only database reads everything and refuses every write`(kind: StorageKind) throws {
    let site = try StorageSite(kind)
    let writer = try Database.open(try site.open(), path: "\(kind)", definition: try KeyPools.definition())
    let object = ModelObject(number: 1, text: "text")
    try writer.write { tx in
      try tx.set(object, key: "a", in: "own.strings", metadata: ModelNote(rank: 1, tags: ["t"]))
      try tx.set(object, key: 5, in: "shared")
    }
    try writer.close()
    let database = try Database.open(try site.openReadOnly(), path: "\(kind)", definition: try KeyPools.definition())
    try Self.look(database) { tx throws in
      #expect(try tx.object(ModelObject.self, key: "a", in: "own.strings") == object)
      #expect(try tx.metadata(ModelNote.self, key: "a", in: "own.strings") == ModelNote(rank: 1, tags: ["t"]))
      #expect(try tx.object(ModelObject.self, key: 5, in: "shared") == object)
      #expect(try tx.count() == 2)
    }
    #expect(Contract.code { try database.write { try $0.set(1, key: 1, in: "shared") } } == .readOnly)
    #expect(Contract.code { try database.writeConcurrently { try $0.set(1, key: 1, in: "shared") } } == .readOnly)
    try database.close()
    withExtendedLifetime(site) {}
  }
}
