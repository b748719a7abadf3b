public import Varve
public import protocol VarveTesting.BufferingBackend

/// A storage backend that forwards every call to another one; tests override the calls that they change. The writes of
/// a transaction are kept in arrays, so that each commit is one call of `commit`.
///
/// It reports that it is in memory, as most of the backends in tests are. Subclasses have only state that is safe
/// from any thread.
open class ForwardingBackend: BufferingBackend, @unchecked Sendable {
  // Sendable: subclasses have only state that is safe from any thread.

  /// The wrapped backend.
  public let base: any StorageBackend

  /// Creates a backend that forwards to `base`.
  public init(_ base: any StorageBackend) { self.base = base }

  /// The limits of the wrapped backend.
  open var limits: StorageLimits { base.limits }
  /// Whether the wrapped backend is read-only.
  open var isReadOnly: Bool { base.isReadOnly }
  /// Always true, whatever the wrapped backend returns.
  open var isInMemory: Bool { true }
  /// The value of the wrapped backend.
  open var mayDelayCommits: Bool { base.mayDelayCommits }
  /// The value of the wrapped backend.
  open var acceptsOnlyDeletes: Bool { base.acceptsOnlyDeletes }
  /// Calls the wrapped backend.
  open func withoutWaiting(_ body: () throws -> Void) throws -> Bool { try base.withoutWaiting(body) }
  /// Calls the wrapped backend.
  open func families() throws -> [StorageFamily] { try base.families() }
  /// Calls the wrapped backend.
  open func createFamily(_ name: String, options: StorageFamilyOptions) throws -> StorageFamily {
    try base.createFamily(name, options: options)
  }
  /// Calls the wrapped backend.
  open func setOptions(_ options: StorageFamilyOptions, of family: StorageFamily) throws {
    try base.setOptions(options, of: family)
  }
  /// Calls the wrapped backend.
  open func dropFamily(_ family: StorageFamily) throws { try base.dropFamily(family) }
  /// Calls the wrapped backend.
  open func oldestVersion() throws -> CommitVersion? { try base.oldestVersion() }
  /// Calls the wrapped backend.
  open func snapshot() throws -> any StorageSnapshot { try base.snapshot() }
  /// Calls the wrapped backend.
  open func commit(
    _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    try base.commit(batch, check: check, durability: durability)
  }
  /// The value of the wrapped backend.
  open var offersIngestion: Bool { base.offersIngestion }
  /// Calls the wrapped backend.
  open func beginIngestion(into family: StorageFamily) throws -> any StorageIngestion {
    try base.beginIngestion(into: family)
  }
  /// Calls the wrapped backend.
  open func changes(since version: CommitVersion) async throws -> CommitVersion {
    try await base.changes(since: version)
  }
  /// Calls the wrapped backend.
  open func sync(through version: CommitVersion) throws { try base.sync(through: version) }
  /// The value of the wrapped backend.
  open var incarnation: UInt64 { base.incarnation }
  /// Calls the wrapped backend.
  open func checkpoint(to path: String, progress: (@Sendable (Double) -> Void)?) throws {
    try base.checkpoint(to: path, progress: progress)
  }
  /// Calls the wrapped backend.
  open func close() throws { try base.close() }
}
