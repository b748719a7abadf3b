import EngineTestSupport
import Testing
import VarveTestSupport

@testable import Varve

/// Tests that an operation that throws changes nothing, and that its transaction can continue, whichever read of the
/// storage fails.
struct OperationFaultTests {
  private static let rowCount = 2_300

  private struct Note: Codable, Hashable, Sendable { var text: String }

  private struct Operation: Sendable {
    let name: String
    let run: @Sendable (WriteTransaction) throws -> Void
  }

  private static let operations: [Operation] = [
    Operation(name: "set") { try $0.set(-1, key: 3, in: "rows") },
    Operation(name: "set with metadata") { try $0.set(-1, key: 5_000, in: "rows", metadata: Note(text: "new")) },
    Operation(name: "set in a new collection") { try $0.set(-1, key: "a", in: "fresh") },
    Operation(name: "replaceObject") { _ = try $0.replaceObject(-1, key: 6, in: "rows") },
    Operation(name: "replaceMetadata") { _ = try $0.replaceMetadata(Note(text: "new"), key: 6, in: "rows") },
    Operation(name: "replaceMetadata with none") { _ = try $0.replaceMetadata(Note?.none, key: 6, in: "rows") },
    Operation(name: "touchRow") { _ = try $0.touchRow(key: 6, in: "rows") },
    Operation(name: "remove") { _ = try $0.remove(key: 6, in: "rows") },
    Operation(name: "remove keys") { _ = try $0.remove(keys: [1, 6, 9, 2_000], in: "rows") },
    Operation(name: "remove a range") { _ = try $0.remove(in: "rows", 100..<2_250) },
    Operation(name: "remove a collection") { _ = try $0.removeAll(in: "rows") },
    Operation(name: "remove everything") { _ = try $0.removeAll() },
  ]

  private static func open() throws -> (Database, ToyBackend) {
    let backend = ToyBackend()
    let database = try Database.open(backend, path: "toy")
    try database.write { tx in
      for key in 0..<rowCount {
        try tx.set(key, key: key, in: "rows", metadata: key % 3 == 0 ? Note(text: "note \(key)") : nil)
      }
      try tx.set("a", key: "a", in: "others")
    }
    return (database, backend)
  }

  /// Returns the state that a transaction shows, as text.
  private static func content(_ tx: ReadTransaction) throws -> [String] {
    var rows = try tx.rows()
    var lines = try rows.compactMap { row in
      "\(row.key) \(row.id) \(row.objectBytes) \(try row.metadataBytes() ?? [])"
    }
    lines.append("\(try tx.collections()) \(try tx.count()) \(try tx.count(in: "rows"))")
    return lines
  }

  private static func changes(_ tx: WriteTransaction) -> [String] {
    guard let changes = try? ChangeSet.of(tx) else { return [] }
    return ["\(changes.isEverythingCleared) \(changes.clearedCollections)"] + changes.allKeys.map { "\($0)" }
  }

  /// Runs `body` in a write that is rolled back.
  private func undoing(_ database: Database, _ body: (WriteTransaction) throws -> Void) throws {
    do {
      try database.write { tx in
        try body(tx)
        try tx.rollBack()
      }
    } catch let error as DatabaseError where error.code == .rolledBack {}
  }

  @Test(arguments: operations.indices)
  func `an operation that throws changes nothing`(index: Int) throws {
    let operation = Self.operations[index]
    let (database, backend) = try Self.open()
    var failed = 0
    var isDone = false
    while !isDone {
      try undoing(database) { tx in
        // Writes of the transaction itself affect the operation.
        try tx.set(-7, key: 7, in: "rows", metadata: Note(text: "seven"))
        _ = try tx.remove(key: 9, in: "rows")
        let (before, changesBefore) = (try Self.content(tx), Self.changes(tx))
        backend.failRead(after: failed)
        do {
          try operation.run(tx)
          // The operation has finished before the read that was to fail.
          isDone = backend.isReadToFail
          backend.failRead(after: nil)
        } catch let error as DatabaseError where error.code == .snapshotTooOld {
          let what: Comment = "\(operation.name), at its read \(failed)"
          #expect(try Self.content(tx) == before, what)
          #expect(Self.changes(tx) == changesBefore, what)
        }
      }
      // The reads that fail are each of the first ones, and a sample of the many that bulk removals make.
      failed += failed < 12 ? 1 : 397
      guard failed < 5_000 else {
        Issue.record("\(operation.name) never ends")
        return
      }
    }
    print("\(operation.name): up to \(failed) of its reads failed")
    try database.close()
  }
}
