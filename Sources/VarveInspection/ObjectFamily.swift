internal import Varve

/// The families of a storage that belong to the object database.
///
/// A program that writes to them directly bypasses the catalog, the counts, the feed and every extension.
public enum ObjectFamily: Sendable {
  /// A family of values.
  case values
  /// A family of counters, created with `StorageFamilyOptions.counter`.
  case counters
  /// A family of an extension or of the scheduler, whose format only their code knows.
  case foreign

  private static let prefixes = [
    "x.", ExtensionRecord.volatilePrefix, ExtensionRecord.scratchPrefix, ExtensionRecord.spillPrefix, "tasks.",
  ]

  /// Creates the kind of the family with this name, or `nil` if the family does not belong to the object database.
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
