internal import Synchronization
public import Varve

/// A storage that records what is read from its families, and what is changed in them. Safe from any thread.
public final class RecordingBackend: ObservedBackend, @unchecked Sendable {
  // Sendable: the records are guarded by a mutex.

  /// One call that has read a key, or some rows of a range.
  public struct Read: Sendable {
    /// The family that was read.
    public let family: StorageFamily
    /// The range that was read, or that of a single key.
    public let range: StorageRange
    /// Whether a range was read, and not a single key.
    public let isOfRange: Bool
    /// The number of rows that the call has returned, or 1 for a single key.
    public let rowCount: Int
  }

  /// One change of a key.
  public struct Change: Sendable {
    /// The kind of the change.
    public let operation: StorageBatch.Operation
    /// The number of the family.
    public let family: UInt32
    /// The key, with the number of the commit where the change has a stamp in its key.
    public let key: [UInt8]
  }

  /// The changes of one commit.
  public struct Commit: Sendable {
    /// The position of the commit in the order of all commits.
    public let version: CommitVersion
    /// The changes in their order.
    public let changes: [Change]
  }

  private struct State {
    var reads: [Read] = []
    var commits: [Commit] = []
  }

  private let state = Mutex(State())

  /// Creates a storage that records the calls of `base`.
  public override init(_ base: any StorageBackend) { super.init(base) }

  /// Returns what was read since the last call, in the order of the reads.
  public func takeReads() -> [Read] {
    state.withLock { state in
      defer { state.reads = [] }
      return state.reads
    }
  }

  /// Returns the commits since the last call, in their order.
  public func takeCommits() -> [Commit] {
    let commits = state.withLock { state in
      defer { state.commits = [] }
      return state.commits
    }
    return commits.sorted { $0.version < $1.version }
  }

  /// Records a read of each key.
  public override func willRead(_ keys: [[UInt8]], in family: StorageFamily) {
    let reads = keys.map { key in
      Read(family: family, range: StorageRange(lower: key, upper: key + [0]), isOfRange: false, rowCount: 1)
    }
    state.withLock { $0.reads += reads }
  }

  /// Records a read of rows.
  public override func didRead(
    _ page: StoragePage, of range: StorageRange, in family: StorageFamily, isReverse: Bool
  ) {
    let read = Read(family: family, range: range, isOfRange: true, rowCount: page.count)
    state.withLock { $0.reads.append(read) }
  }

  /// Commits to the wrapped storage, and records the changes.
  public override func commit(
    _ batch: StorageBatch, check: StorageCheck?, durability: StorageDurability
  ) throws -> any StorageTicket {
    let ticket = try super.commit(batch, check: check, durability: durability)
    var changes: [Change] = []
    batch.forEach { operation, family, key, value in
      var key = key.bytes
      if operation == .putStamped, case .key(let offset) = StorageBatch.stampPosition(value) {
        key.replaceSubrange(offset..<(offset + 8), with: Self.bytes(ticket.version.number))
      }
      changes.append(Change(operation: operation, family: family, key: key))
    }
    let commit = Commit(version: ticket.version, changes: changes)
    state.withLock { $0.commits.append(commit) }
    return ticket
  }

  /// Returns the bytes of a number, big-endian.
  private static func bytes(_ number: UInt64) -> [UInt8] {
    stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> UInt64($0)) }
  }
}
