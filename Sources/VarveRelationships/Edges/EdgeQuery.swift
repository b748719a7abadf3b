public import Varve

/// Which edges: those of a name, of a source, of a destination, in any combination. What is nil is not asked for.
public struct EdgeQuery: Hashable, Sendable {
  /// The name; nil: any.
  public var name: EdgeName?
  /// The row where they begin; nil: any.
  public var source: RowKey?
  /// Where they lead; nil: anywhere.
  public var destination: EdgeEnd?

  /// Edges.
  public init(_ name: EdgeName? = nil, from source: RowKey? = nil, to destination: EdgeEnd? = nil) {
    self.name = name
    self.source = source
    self.destination = destination
  }

  /// Edges to a row.
  public init(_ name: EdgeName? = nil, from source: RowKey? = nil, to destination: RowKey) {
    self.init(name, from: source, to: .row(destination))
  }
}
