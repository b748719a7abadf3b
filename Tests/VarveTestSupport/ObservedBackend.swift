public import Varve

/// A storage whose reads a test observes, holds or lets fail. Safe from any thread.
///
/// Subclasses override the calls that they use, and have only state that is safe from any thread.
open class ObservedBackend: ForwardingBackend, @unchecked Sendable {
  // Sendable: subclasses have only state that is safe from any thread.

  /// Creates a storage whose reads are those of `base`.
  public override init(_ base: any StorageBackend) { super.init(base) }

  /// Called before keys are read. If it throws, the read throws.
  open func willRead(_ keys: [[UInt8]], in family: StorageFamily) throws {}

  /// Called after rows of a range were read, and before the reader receives them. If it throws, the read throws.
  open func didRead(
    _ page: StoragePage, of range: StorageRange, in family: StorageFamily, isReverse: Bool
  ) throws {}

  /// Returns a snapshot whose reads are observed.
  open override func snapshot() throws -> any StorageSnapshot { ObservedSnapshot(try super.snapshot(), self) }

  /// Commits to the wrapped storage, which checks its own snapshot.
  open override func commit(
    _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    var check = check
    if let observed = check?.snapshot as? ObservedSnapshot { check?.snapshot = observed.base }
    return try super.commit(batch, check: check, durability: durability)
  }
}

/// A snapshot whose reads are observed.
private final class ObservedSnapshot: StorageSnapshot {
  let base: any StorageSnapshot
  private let backend: ObservedBackend

  init(_ base: any StorageSnapshot, _ backend: ObservedBackend) {
    self.base = base
    self.backend = backend
  }

  var version: CommitVersion { base.version }
  func hasFormerFamily(named name: String, besides family: StorageFamily?) -> Bool {
    base.hasFormerFamily(named: name, besides: family)
  }

  func values(of keys: [[UInt8]], in family: StorageFamily) throws -> [[UInt8]?] {
    try backend.willRead(keys, in: family)
    return try base.values(of: keys, in: family)
  }

  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
    try backend.willRead([key], in: family)
    try base.visit(key, in: family, body)
  }

  func page(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws -> StoragePage {
    let page = try base.page(
      range, in: family, isReverse: isReverse, keysOnly: keysOnly, byteLimit: byteLimit, rowLimit: rowLimit)
    try backend.didRead(page, of: range, in: family, isReverse: isReverse)
    return page
  }
}
