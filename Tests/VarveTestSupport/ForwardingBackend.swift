public import Varve

/// Another storage as it is: tests override what they change.
///
/// Says that it is in memory, as most of those in tests are. Subclasses have only what is safe from any thread.
open class ForwardingBackend: StorageBackend, @unchecked Sendable {
  // Sendable: see above.

  /// The other.
  public let base: any StorageBackend

  /// Passes everything on to `base`.
  public init(_ base: any StorageBackend) { self.base = base }

  /// As the storage below.
  open var limits: StorageLimits { base.limits }
  /// As the storage below.
  open var isReadOnly: Bool { base.isReadOnly }
  /// Whatever the storage below says.
  open var isInMemory: Bool { true }
  /// As the storage below.
  open var mayDelayCommits: Bool { base.mayDelayCommits }
  /// As the storage below.
  open func withoutWaiting(_ body: () throws -> Void) throws -> Bool { try base.withoutWaiting(body) }
  /// As the storage below.
  open func families() throws -> [StorageFamily] { try base.families() }
  /// As the storage below.
  open func createFamily(_ name: String, options: StorageFamilyOptions) throws -> StorageFamily {
    try base.createFamily(name, options: options)
  }
  /// As the storage below.
  open func setOptions(_ options: StorageFamilyOptions, of family: StorageFamily) throws {
    try base.setOptions(options, of: family)
  }
  /// As the storage below.
  open func dropFamily(_ family: StorageFamily) throws { try base.dropFamily(family) }
  /// As the storage below.
  open func oldestVersion() throws -> CommitVersion? { try base.oldestVersion() }
  /// As the storage below.
  open func snapshot() throws -> any StorageSnapshot { try base.snapshot() }
  /// As the storage below.
  open func commit(
    _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    try base.commit(batch, check: check, durability: durability)
  }
  /// As the storage below.
  open var offersIngestion: Bool { base.offersIngestion }
  /// As the storage below.
  open func beginIngestion(into family: StorageFamily) throws -> any StorageIngestion {
    try base.beginIngestion(into: family)
  }
  /// As the storage below.
  open func changes(since version: CommitVersion) async throws -> CommitVersion {
    try await base.changes(since: version)
  }
  /// As the storage below.
  open func sync(through version: CommitVersion) throws { try base.sync(through: version) }
  /// As the storage below.
  open var incarnation: UInt64 { base.incarnation }
  /// As the storage below.
  open func checkpoint(to path: String, progress: (@Sendable (Double) -> Void)?) throws {
    try base.checkpoint(to: path, progress: progress)
  }
  /// As the storage below.
  open func close() throws { try base.close() }
}
