internal import Synchronization
public import Varve

/// A snapshot that counts the entries and rows that are read of it. Safe from any thread.
public final class CountingSnapshot: StorageSnapshot {
  private let snapshot: any StorageSnapshot
  private let counter = Mutex(0)

  /// Counts what is read of `snapshot`.
  public init(_ snapshot: any StorageSnapshot) { self.snapshot = snapshot }

  /// As the snapshot below.
  public var version: CommitVersion { snapshot.version }
  /// How many entries and rows were read since the last `reset`.
  public var count: Int { counter.withLock { $0 } }
  /// Begins to count again.
  public func reset() { counter.withLock { $0 = 0 } }

  /// As the snapshot below.
  public func values(of keys: [[UInt8]], in family: StorageFamily) throws -> [[UInt8]?] {
    counter.withLock { $0 += keys.count }
    return try snapshot.values(of: keys, in: family)
  }

  /// As the snapshot below.
  public func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
    counter.withLock { $0 += 1 }
    try snapshot.visit(key, in: family, body)
  }

  /// As the snapshot below.
  public func page(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws -> StoragePage {
    let page = try snapshot.page(
      range, in: family, isReverse: isReverse, keysOnly: keysOnly, byteLimit: byteLimit, rowLimit: rowLimit)
    counter.withLock { $0 += page.count }
    return page
  }
}
