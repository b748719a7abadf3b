internal import Varve

/// Which families of a storage belong to the database of objects.
///
/// Whoever writes to them without it goes behind the back of the catalog, the counts, the feed and every extension.
public enum ObjectFamily: Sendable {
  /// One that holds values.
  case values
  /// One that holds counters: `StorageFamilyOptions.counter`.
  case counters
  /// One of an extension or of the scheduler: only their code knows how it is made.
  case foreign

  private static let prefixes = [
    "x.", ExtensionRecord.volatilePrefix, ExtensionRecord.scratchPrefix, ExtensionRecord.spillPrefix, "tasks.",
  ]

  /// What a family of this name is; nil for one that does not belong to the database of objects.
  public init?(_ name: String) {
    switch name {
    case "catalog", "objects", "metadata", "feed": self = .values
    case "counts": self = .counters
    case _ where name.utf8.starts(with: "c.".utf8): self = .values
    case _ where Self.prefixes.contains(where: { name.utf8.starts(with: $0.utf8) }): self = .foreign
    default: return nil
    }
  }
}
