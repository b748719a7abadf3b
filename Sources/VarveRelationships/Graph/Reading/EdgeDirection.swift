/// In which direction edges are followed.
public enum EdgeDirection: Hashable, Sendable {
  /// From source to destination.
  case outgoing
  /// From destination to source.
  case incoming
  /// Both.
  case both
}
