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
  public let id: UInt32
  let state: FamilyState

  init(name: String, id: UInt32, state: FamilyState) {
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

  /// Options with the engine's defaults.
  public init(compression: CompressionKind? = nil, mergeOperator: String? = nil) {
    self.compression = compression
    self.mergeOperator = mergeOperator
  }
}
