/// The place of a row in a list: its section and its offset in the section.
public struct ListIndex: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The number of the section, from zero on.
  public var section: Int
  /// The offset of the row in the section.
  public var offset: Int

  /// Creates an index.
  public init(section: Int, offset: Int) {
    self.section = section
    self.offset = offset
  }

  /// Returns whether the first row comes before the second one.
  public static func < (left: ListIndex, right: ListIndex) -> Bool {
    (left.section, left.offset) < (right.section, right.offset)
  }

  /// The section and the offset.
  public var description: String { "\(section).\(offset)" }
}
