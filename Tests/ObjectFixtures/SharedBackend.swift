import Synchronization
import Varve
import VarveEngine
import VarveTestSupport

/// An in-memory storage that outlives the databases that are opened on it, as a directory does.
///
/// It counts its calls, and how many of its snapshots are alive.
final class SharedBackend: ForwardingBackend, @unchecked Sendable {
  private let counts = Mutex(Counts())
  private let interruption = Mutex(Interruption())
  private let saysInMemory: Bool
  private let saysReadOnly: Bool

  struct Counts: Sendable {
    var snapshots = 0
    var pages: [(rowLimit: Int, byteLimit: Int)] = []
    var commits = 0
    var durabilities: [StorageDurability] = []
  }

  private struct Interruption {
    var body: (@Sendable () -> Void)?
    var refusal: DatabaseError?
  }

  init(isInMemory: Bool = true, isReadOnly: Bool = false) throws {
    saysInMemory = isInMemory
    saysReadOnly = isReadOnly
    super.init(try EngineBackend(try Engine.open(at: "/shared", environment: .inMemory()), isInMemory: true))
  }

  private init(_ base: any StorageBackend, isReadOnly: Bool) {
    saysInMemory = true
    saysReadOnly = isReadOnly
    super.init(base)
  }

  /// Returns a read-only backend of the same storage.
  func readOnly() -> SharedBackend { SharedBackend(base, isReadOnly: true) }

  /// Opens a database for writing once, which creates it, and returns a read-only backend of the same storage.
  func readOnlyAfterOpening() throws -> SharedBackend {
    _ = try open()
    return readOnly()
  }

  /// Opens a database on the storage, as a new start of a program does.
  func open(_ definition: DatabaseDefinition = DatabaseDefinition()) throws -> Database {
    try Database.open(self, path: "shared", definition: definition)
  }

  /// The number of calls of each kind since the counts were reset.
  var asked: Counts { counts.withLock { $0 } }

  func setBack() {
    counts.withLock { counts in
      counts.pages = []
      counts.commits = 0
      counts.durabilities = []
    }
  }

  /// Calls `body` once, after the next page of objects is read, on the thread that reads it.
  func whenPaged(_ body: @escaping @Sendable () -> Void) { interruption.withLock { $0.body = body } }

  /// Throws `error` instead of the next commit.
  func refuseNext(_ error: DatabaseError) { interruption.withLock { $0.refusal = error } }

  fileprivate func interrupt() {
    // The body is removed before it is called, because it may read pages itself.
    let body = interruption.withLock { interruption in
      defer { interruption.body = nil }
      return interruption.body
    }
    body?()
  }

  fileprivate func note(_ body: @Sendable (inout Counts) -> Void) { counts.withLock { body(&$0) } }

  // MARK: - StorageBackend

  override var isInMemory: Bool { saysInMemory }
  override var isReadOnly: Bool { saysReadOnly }
  override func snapshot() throws -> any StorageSnapshot { CountedSnapshot(try base.snapshot(), self) }

  override func commit(
    _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    let refusal = interruption.withLock { interruption in
      defer { interruption.refusal = nil }
      return interruption.refusal
    }
    if let refusal { throw refusal }
    note {
      $0.commits += 1
      $0.durabilities.append(durability)
    }
    var check = check
    if let counted = check?.snapshot as? CountedSnapshot { check?.snapshot = counted.base }
    return try super.commit(batch, check: check, durability: durability)
  }

  /// Does nothing: the storage outlives its databases.
  override func close() throws {}
}

private final class CountedSnapshot: StorageSnapshot {
  let base: any StorageSnapshot
  private let backend: SharedBackend

  init(_ base: any StorageSnapshot, _ backend: SharedBackend) {
    self.base = base
    self.backend = backend
    backend.note { $0.snapshots += 1 }
  }

  deinit { backend.note { $0.snapshots -= 1 } }

  var version: CommitVersion { base.version }

  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
    try base.visit(key, in: family, body)
  }

  func values(of keys: [[UInt8]], in family: StorageFamily) throws -> [[UInt8]?] {
    try base.values(of: keys, in: family)
  }

  func page(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws -> StoragePage {
    let page = try base.page(
      range, in: family, isReverse: isReverse, keysOnly: keysOnly, byteLimit: byteLimit, rowLimit: rowLimit)
    if family.name == "objects" {
      backend.note { $0.pages.append((rowLimit, byteLimit)) }
      backend.interrupt()
    }
    return page
  }
}
