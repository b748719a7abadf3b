import EngineTestSupport
import Testing
import VarveEngine

@testable import Varve

/// Tests that numbers are never reused, even if the record of the free ones was lost.
struct SalvagedNumbersTests {
  @Test func `numbers of collections and rows are not reused if the catalog has lost the record of the free ones`()
    throws
  {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let database = try Database.open(at: path)
    try database.write { tx in
      for name in ["a", "b", "c"] { for key in 0..<10 { try tx.set("row of \(name)", key: key, in: name) } }
    }
    let (largest, collection) = try database.read { tx in
      (try tx.row(key: 9, in: "c")?.id, tx.database.catalog.collection("c")?.record.id)
    }
    try database.close()
    let engine = try Engine.open(at: path)
    let catalog = try #require(engine.families.first { $0.name == "catalog" })
    for key in [CatalogKey.nextCollection, CatalogKey.rowIDs, CatalogKey.collection("c")] {
      try engine.delete(key, in: catalog)
    }
    try engine.close()
    _ = try DatabaseReplacement(path: path, options: EngineOptions(), clock: .system).run(saves: true)
    let saved = try Database.open(at: path)
    try saved.write { tx in
      try tx.set("new", key: 100, in: "new")
      try tx.set("new", key: 100, in: "a")
    }
    try saved.read { tx throws in
      let id = try #require(tx.database.catalog.collection("new")?.record.id)
      #expect(id > (collection ?? .max))
      #expect(try tx.count(in: "new") == 1)
      let row = try #require(try tx.row(key: 100, in: "a"))
      #expect(try row.id > #require(largest))
      #expect(try tx.count(in: "a") == 11)
    }
    try saved.close()
  }
}
