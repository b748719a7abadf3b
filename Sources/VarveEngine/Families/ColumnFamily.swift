/// A named part of a database with its own keys, memtable and tables.
///
/// All families share the log and one order of commits: a batch over several families is one commit, and a snapshot
/// covers all of them. An object of this class belongs to the engine that returned it; using it with another engine is
/// a programming error.
///
/// Safe from any thread. It stays valid after the family is dropped; reads and writes then throw
/// `.familyDropped`.
public final class ColumnFamily: Sendable {
  /// The name, unique among the families that exist.
  public let name: String
  /// The number of the family on disk, which is not reused after a drop.
  public let id: FamilyID
  let state: FamilyState

  init(name: String, id: FamilyID, state: FamilyState) {
    self.name = name
    self.id = id
    self.state = state
  }

  /// The family's options, as given at its creation or last set by `Engine.setOptions`.
  public var options: FamilyOptions { state.options }
}

/// Options that can differ between families.
public struct FamilyOptions: Sendable, Hashable {
  /// The compression of blocks, or `nil` to use the engine's option.
  public var compression: CompressionKind?
  /// The name of the operator that folds merge operands, or `nil` if the family takes no merges.
  ///
  /// It is either an operator that every engine has ("varve.counter", "varve.append", "varve.max") or one of
  /// `EngineOptions.mergeOperators`. Stored with the family.
  public var mergeOperator: String?
  /// A Boolean value that indicates whether the family is empty each time the database is opened. Stored with the
  /// family.
  ///
  /// While the engine is open, such a family behaves as any other: its entries take part in batches, sequence numbers,
  /// snapshots, cursors and transactions. Its entries are not logged, so no `Durability` lets an entry survive a crash
  /// or a close, a batch of only volatile entries waits for no sync, and log segments never wait for the family.
  /// Entries that exceed the memory are written to tables that no MANIFEST names and that the engine removes. After an
  /// open, a repair or a salvage, and in a checkpoint, the family exists with its name and number and is empty.
  ///
  /// Followers and read-only engines in other processes always see the family as empty. Versions without this option
  /// refuse a database with such a family with `.unsupportedFormat`.
  public var isVolatile: Bool
  /// The bytes that a memtable of the family holds before it is flushed, or `nil` for the size of the engine's
  /// memtables.
  ///
  /// The size is 64 KiB to 1 GiB, but never more than that of the engine's memtables, which all families share. Smaller
  /// memtables suit a family whose entries should be in tables soon, or that must not displace others from memory.
  /// Stored with the family.
  public var memtableSize: Int?

  /// Options with the engine's defaults.
  public init(
    compression: CompressionKind? = nil, mergeOperator: String? = nil, isVolatile: Bool = false,
    memtableSize: Int? = nil
  ) {
    self.compression = compression
    self.mergeOperator = mergeOperator
    self.isVolatile = isVolatile
    self.memtableSize = memtableSize
  }
}
