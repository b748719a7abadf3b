public import Varve

/// The destination of an edge.
public enum EdgeEnd: Hashable, Sendable, CustomStringConvertible {
  /// A row of the same database.
  case row(RowKey)
  /// A file of a declared root, by its path relative to the root.
  case file(root: String, path: String)

  /// The row, or nil for a file.
  public var row: RowKey? { if case .row(let row) = self { row } else { nil } }

  /// The row as collection and key, or the file as root and path.
  public var description: String {
    switch self {
    case .row(let row): "\(row)"
    case .file(let root, let path): "\(root):\(path)"
    }
  }
}

/// The treatment of an edge whose destination row does not exist when the transaction ends.
public enum Dangling: UInt8, Hashable, Sendable, Codable {
  /// The edge is kept, but has no effect and is not counted until the row exists.
  case weak = 0
  /// The transaction fails with `.danglingEdge`: a row that is the destination of such edges can only be removed after
  /// them.
  case error = 1
  /// The source of the edge is removed.
  case deleteSource = 2
}

/// The reason why an edge is removed while its other end remains.
public enum EdgeRemoval: Hashable, Sendable {
  /// The edge itself was removed: no rule is applied, and neither end is notified.
  case edgeOnly
  /// The source was removed, or no longer declares the edge: the rules act on the destination.
  case asIfSourceDeleted
  /// The destination was removed: the rules act on the source.
  case asIfDestinationDeleted
}
