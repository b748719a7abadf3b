import Foundation
import Synchronization
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of rows that are addressed by the keys of change sets and hooks, without the key's type.
struct RowKeyTests {
  @Test func `a key from a change equals one made of its bytes, and hashes the same`() throws {
    let database = try Database.inMemory()
    let lines = Lines()
    let seen = Mutex<[RowKey]>([])
    var noting = Scripted(events: .inserts)
    noting.did = { _, change in
      let key = change.key
      seen.withLock { $0.append(key) }
      lines.add("\(key.withBytes { $0.byteCount } == key.bytes.count) \(key)")
    }
    try database.registerReady(noting, as: "noting")
    try database.change { tx in for key in ["", "a", "b"] { try tx.set(1, key: key, in: "c") } }
    #expect(lines.take() == ["true c/\"\"", "true c/\"a\"", "true c/\"b\""])
    let keys = seen.withLock { $0 }
    let made = try ["", "a", "b"].map { try RowKey($0, in: "c") }
    #expect(keys == made && Set(keys) == Set(made) && Set(keys + made).count == 3)
    let other = try RowKey("", in: "d")
    #expect(keys[1] != keys[2] && keys[0] != other)
    #expect(keys.map(\.bytes) == made.map(\.bytes))
    #expect(try database.look { tx in try tx.contains(keys[1]) })
  }

  @Test(arguments: StoreLocation.allCases)
  func `a row is read, touched and removed by its RowKey, whatever the type of its key`(location: StoreLocation) throws
  {
    let open = try location.open()
    let id = UUID()
    try open.writing { tx in
      try tx.set("a", key: "text", in: "texts")
      try tx.set("b", key: id, in: "ids", metadata: 5)
      try tx.set("c", key: Compound(1, "x"), in: "pairs")
    }
    let keys = [
      try RowKey("text", in: "texts"), try RowKey(id, in: "ids"), try RowKey(Compound(1, "x"), in: "pairs"),
    ]
    let touched = Mutex<[RowKey]>([])
    var hooks = Hooks()
    hooks.didModify = { _, change in
      if change.event == .rowTouched { touched.withLock { $0.append(change.key) } }
    }
    try open.database.registerReady(hooks, as: "hooks")
    try open.writing { tx throws in
      #expect(try keys.map { try tx.row($0)?.object(as: String.self) } == ["a", "b", "c"])
      #expect(try tx.row(keys[1])?.metadata(as: Int.self) == 5)
      for key in keys { #expect(try tx.contains(key) && tx.touchRow(key)) }
      #expect(try tx.removeMetadata(key: id, in: "ids") && tx.row(keys[1])?.hasMetadata == false)
      #expect(try tx.remove(keys[0]) && !tx.remove(keys[0]) && !tx.contains(keys[0]))
      let elsewhere = try RowKey("text", in: "nowhere")
      #expect(try tx.row(elsewhere) == nil && !tx.contains(elsewhere))
      #expect(try !tx.remove(elsewhere) && !tx.touchRow(elsewhere))
    }
    #expect(touched.withLock { $0 } == keys)
    #expect(try open.reading { tx in try tx.count() } == 2)
  }

  @Test func `a hook called before a change sees the new metadata, and not the former`() throws {
    let definition = DatabaseDefinition {
      CollectionDefinition("notes", String.self, key: Int.self, coder: .json)
      CollectionDefinition("files", Data.self, key: Int.self, coder: .raw)
    }
    let database = try Database.inMemory(definition: definition)
    let seen = Mutex<[String]>([])
    var hooks = Hooks()
    hooks.willModify = { _, change in
      let row = try #require(try change.row)
      let bytes = try row.metadataBytes().map { String(decoding: $0, as: UTF8.self) } ?? "none"
      let number = try row.metadata(as: Int.self).map { "\($0)" } ?? "none"
      seen.withLock { $0.append("\(bytes) \(number)") }
    }
    try database.registerReady(hooks, as: "hooks")
    try database.write { tx throws in
      try tx.set("a", key: 1, in: "notes", metadata: 1)
      try tx.set("b", key: 1, in: "notes", metadata: 2)
      try tx.setBytes(Array("\"c\"".utf8), metadata: Array("3".utf8), key: 1, in: "notes")
      try tx.replaceMetadata(4, key: 1, in: "notes")
      try tx.setBytes(Array("\"d\"".utf8), key: 1, in: "notes")
      // The metadata of raw bytes has the binary format: other bytes would be decoded as another value.
      #expect(errorCode { try tx.setBytes([1], metadata: [7], key: 1, in: "files") } == .invalidArgument)
      #expect(errorCode { try tx.setBytes([1], key: 1, in: "binary") } == .invalidArgument)
    }
    #expect(seen.withLock { $0 } == ["1 1", "2 2", "3 3", "4 4", "none none"])
  }
}
