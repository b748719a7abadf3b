/// An edge of a list as it is shown, or of a part of it.
public enum ListEdge: Hashable, Sendable {
  /// The edge with the first row.
  case start
  /// The edge with the last row.
  case end
}
