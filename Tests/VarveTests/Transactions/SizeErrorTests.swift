import Testing
import Varve
import VarveTestSupport

@testable import ObjectFixtures

/// Tests of rows that exceed the storage's limits: the error names the row, and no part of the row is written.
struct SizeErrorTests {
  private let open: OpenDatabase

  init() throws {
    let backend = ToyBackend(
      limits: StorageLimits(keySize: 40, valueSize: 1_000, batchSize: 7_000), faults: ToyFaults(seed: 1))
    open = OpenDatabase(try Database.open(backend, path: "toy"), nil)
    try open.writing { tx in try tx.set("small", key: "a", in: "texts") }
  }

  private func check(
    _ code: DatabaseError.Code, key: String?, _ body: (WriteTransaction) throws -> Void,
    at location: SourceLocation = #_sourceLocation
  ) throws {
    try open.writing { tx throws in
      let error = #expect(throws: DatabaseError.self, sourceLocation: location) { try body(tx) }
      #expect(error?.code == code && error?.collection == "texts", "\(error as Any)", sourceLocation: location)
      #expect(error?.key == key, sourceLocation: location)
      #expect(try tx.object(String.self, key: "a", in: "texts") == "small", sourceLocation: location)
      #expect(try tx.contains(key: "b", in: "texts") == false, sourceLocation: location)
      #expect(try tx.count(in: "texts") == 1, sourceLocation: location)
    }
  }

  @Test func `an object or metadata that is too long is reported with its collection and its key`() throws {
    let long = String(repeating: "x", count: 1_000)
    try check(.valueTooLong, key: "\"b\"") { tx in try tx.set(long, key: "b", in: "texts") }
    try check(.valueTooLong, key: "\"b\"") { tx in try tx.set("b", key: "b", in: "texts", metadata: long) }
    try check(.valueTooLong, key: "\"a\"") { tx in try tx.replaceObject(long, key: "a", in: "texts") }
    try check(.valueTooLong, key: "\"a\"") { tx in try tx.replaceMetadata(long, key: "a", in: "texts") }
  }

  @Test func `a key that is too long is reported with its collection`() throws {
    let long = String(repeating: "k", count: 40)
    try check(.keyTooLong, key: nil) { tx in try tx.set("b", key: long, in: "texts") }
    try check(.keyTooLong, key: nil) { tx in _ = try tx.object(String.self, key: long, in: "texts") }
    try check(.keyTooLong, key: nil) { tx in try tx.remove(key: long, in: "texts") }
  }

  @Test func `a transaction too large for a commit is refused at the row that exceeds the limit`() throws {
    let value = String(repeating: "x", count: 900)
    try open.writing { tx throws in
      for round in 0..<3 { try tx.set(value, key: "full \(round)", in: "texts", metadata: value) }
      let error = #expect(throws: DatabaseError.self) {
        try tx.set(value, key: "more", in: "texts", metadata: value)
      }
      #expect(error?.code == .batchTooLarge && error?.collection == "texts" && error?.key == "\"more\"")
      // The rows that fit can still be committed.
      try tx.set("end", key: "end", in: "texts")
    }
    let keys = try open.reading { tx in try tx.keys(String.self, in: "texts") }
    #expect(keys == ["a", "end", "full 0", "full 1", "full 2"])
  }
}
