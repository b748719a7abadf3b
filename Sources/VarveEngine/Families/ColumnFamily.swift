/// A named part of a database with keys, a memtable and tables of its own.
///
/// All families share the log and one order of commits: a batch over several is one commit, and a
/// snapshot sees all of them at the same instant. An object of this class names a family of the engine
/// that gave it out; to use it with another engine is a programmer's mistake.
///
/// Safe from any thread. It stays valid after the family is dropped; reads and writes then throw
/// `.familyDropped`.
public final class ColumnFamily: Sendable {
  /// The name, unique among the families that exist.
  public let name: String
  /// The number on disk; never used again after a drop.
  public let id: FamilyID
  let state: FamilyState

  init(name: String, id: FamilyID, state: FamilyState) {
    self.name = name
    self.id = id
    self.state = state
  }
}

/// What can be different from family to family.
public struct FamilyOptions: Sendable, Hashable {
  /// How blocks are compressed; nil: as the engine's options say.
  public var compression: CompressionKind?
  /// The name of the operator that folds what `merge` writes; nil: the family takes no merges. Either one
  /// of those that every engine knows ("varve.counter", "varve.append", "varve.max") or one of
  /// `EngineOptions.mergeOperators`. Stored with the family.
  public var mergeOperator: String?
  /// Whether the family is emptied whenever the database is opened. Stored with the family.
  ///
  /// While the engine is open such a family is like any other: its entries are parts of the same batches, have
  /// sequences of the same order, and are seen by snapshots, cursors and transactions. But nothing of it is
  /// logged, so no `Durability` lets an entry survive a crash or a close, a batch of volatile entries alone waits
  /// for no sync, and the log's segments never wait for the family. What it has too much for memory goes to
  /// tables, which no MANIFEST names and the engine removes. After an open, a repair, a salvage, and in a
  /// checkpoint the family is there, by name and number, and empty.
  ///
  /// Followers and read-only engines in other processes have nothing to read of it: to them it is always empty.
  /// A database that has such a family is refused, as `.unsupportedFormat`, by versions without this option.
  public var isVolatile: Bool

  /// Options with the engine's defaults.
  public init(compression: CompressionKind? = nil, mergeOperator: String? = nil, isVolatile: Bool = false) {
    self.compression = compression
    self.mergeOperator = mergeOperator
    self.isVolatile = isVolatile
  }
}
