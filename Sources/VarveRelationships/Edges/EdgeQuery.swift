public import Varve

/// A query of edges by name, source and destination, in any combination. A property that is nil does not restrict the
/// query.
public struct EdgeQuery: Hashable, Sendable {
  /// The name of the edges, or nil for any.
  public var name: EdgeName?
  /// The source row of the edges, or nil for any.
  public var source: RowKey?
  /// The destination of the edges, or nil for any.
  public var destination: EdgeEnd?

  /// Creates a query.
  public init(_ name: EdgeName? = nil, from source: RowKey? = nil, to destination: EdgeEnd? = nil) {
    self.name = name
    self.source = source
    self.destination = destination
  }

  /// Creates a query of edges to a row.
  public init(_ name: EdgeName? = nil, from source: RowKey? = nil, to destination: RowKey) {
    self.init(name, from: source, to: .row(destination))
  }

  /// Creates a query of edges from an instance. Throws `.invalidKey`.
  public init<Source: Persistable>(
    _ name: EdgeName? = nil, from source: Source, to destination: EdgeEnd? = nil
  ) throws {
    self.init(name, from: try Source.rowKey(source.id), to: destination)
  }

  /// Creates a query of edges to an instance. Throws `.invalidKey`.
  public init<Destination: Persistable>(
    _ name: EdgeName? = nil, from source: RowKey? = nil, to destination: Destination
  ) throws {
    self.init(name, from: source, to: .row(try Destination.rowKey(destination.id)))
  }

  /// Creates a query of edges from an instance to another. Throws `.invalidKey`.
  public init<Source: Persistable, Destination: Persistable>(
    _ name: EdgeName? = nil, from source: Source, to destination: Destination
  ) throws {
    self.init(name, from: try Source.rowKey(source.id), to: .row(try Destination.rowKey(destination.id)))
  }
}
