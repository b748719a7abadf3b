/// The direction in which edges are followed.
public enum EdgeDirection: Hashable, Sendable {
  /// From source to destination.
  case outgoing
  /// From destination to source.
  case incoming
  /// In both directions.
  case both
}
