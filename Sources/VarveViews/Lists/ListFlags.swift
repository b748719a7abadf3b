public import Varve

/// What has changed of an element of a list.
public struct ListFlags: OptionSet, Hashable, Sendable {
  /// The bits of the flags.
  public let rawValue: UInt8

  /// Creates flags from bits.
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// The object of the row was set or touched.
  public static let object = ListFlags(rawValue: 1)
  /// The metadata of the row were set or touched.
  public static let metadata = ListFlags(rawValue: 2)
  /// A neighbor of the element has changed (`ListSections.neighbors(_:in:)`).
  public static let dependency = ListFlags(rawValue: 4)
  /// The element may have changed: the commits in between are not known exactly.
  public static let unknown = ListFlags(rawValue: 8)

  /// Creates the flags of a row that a commit has changed.
  public init(_ row: RowKey, in changes: ChangeSet) {
    self = []
    if changes.hasObjectChange(row) { insert(.object) }
    if changes.hasMetadataChange(row) { insert(.metadata) }
  }
}
