internal import Synchronization
public import Varve

/// A snapshot that counts the entries and rows that are read from it. Safe from any thread.
public final class CountingSnapshot: StorageSnapshot {
  /// The wrapped snapshot.
  public let snapshot: any StorageSnapshot
  private let counter = Mutex(0)

  /// Creates a snapshot that counts the reads of `snapshot`.
  public init(_ snapshot: any StorageSnapshot) { self.snapshot = snapshot }

  /// The version of the wrapped snapshot.
  public var version: CommitVersion { snapshot.version }
  /// The number of entries and rows that were read since the last `reset`.
  public var count: Int { counter.withLock { $0 } }
  /// Sets the count to 0.
  public func reset() { counter.withLock { $0 = 0 } }

  /// Reads from the wrapped snapshot, and counts each key.
  public func values(of keys: [[UInt8]], in family: StorageFamily) throws -> [[UInt8]?] {
    counter.withLock { $0 += keys.count }
    return try snapshot.values(of: keys, in: family)
  }

  /// Reads from the wrapped snapshot, and counts one entry.
  public func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
    counter.withLock { $0 += 1 }
    try snapshot.visit(key, in: family, body)
  }

  /// Reads from the wrapped snapshot, and counts each row of the page.
  public func page(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws -> StoragePage {
    let page = try snapshot.page(
      range, in: family, isReverse: isReverse, keysOnly: keysOnly, byteLimit: byteLimit, rowLimit: rowLimit)
    counter.withLock { $0 += page.count }
    return page
  }
}

/// A storage that counts the entries and rows that are read from its snapshots.
public final class CountingBackend: ForwardingBackend, @unchecked Sendable {
  // Sendable: the list is guarded by its mutex.
  private let snapshots = Mutex<[CountingSnapshot]>([])

  /// The number of entries and rows that were read so far.
  public var count: Int { snapshots.withLock { $0.reduce(0) { $0 + $1.count } } }

  /// Returns a snapshot that counts its reads.
  public override func snapshot() throws -> any StorageSnapshot {
    let snapshot = CountingSnapshot(try super.snapshot())
    snapshots.withLock { $0.append(snapshot) }
    return snapshot
  }

  /// Calls the wrapped backend, with the snapshot that it has made itself.
  public override func commit(
    _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    var check = check
    if let counted = check?.snapshot as? CountingSnapshot { check?.snapshot = counted.snapshot }
    return try super.commit(batch, check: check, durability: durability)
  }
}
