/// The snapshot of an open database for code that reads its storage without transactions, such as an inspector.
///
/// `Database.close` waits for the end of each call, and later calls throw `.closed`. `database.longLivedReads` lists
/// the snapshot as long as it is referenced.
package final class HeldReading: StorageSnapshot {
  private let held: HeldSnapshot

  /// Holds the present snapshot of a database, which has all acknowledged commits. Throws `.closed`.
  package init(_ database: Database) throws { held = try database.holdSnapshot() }

  package var version: CommitVersion { held.version }

  /// Calls `body` with the storage. Throws `.closed`.
  package func withStorage<Result>(_ body: (any StorageBackend) throws -> Result) throws -> Result {
    try held.whileOpen { try body(held.core.backend) }
  }

  package func hasFormerFamily(named name: String, besides family: StorageFamily?) -> Bool {
    held.snapshot.hasFormerFamily(named: name, besides: family)
  }

  package func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
    try held.whileOpen { try held.snapshot.visit(key, in: family, body) }
  }

  package func values(of keys: [[UInt8]], in family: StorageFamily) throws -> [[UInt8]?] {
    try held.whileOpen { try held.snapshot.values(of: keys, in: family) }
  }

  package func visitRow(
    at offset: Int, of range: StorageRange, in family: StorageFamily,
    _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws -> Int {
    try held.whileOpen { try held.snapshot.visitRow(at: offset, of: range, in: family, body) }
  }

  package func page(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws -> StoragePage {
    try held.whileOpen {
      try held.snapshot.page(
        range, in: family, isReverse: isReverse, keysOnly: keysOnly, byteLimit: byteLimit, rowLimit: rowLimit)
    }
  }
}
