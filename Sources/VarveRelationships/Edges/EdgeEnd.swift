public import Varve

/// Where an edge leads.
public enum EdgeEnd: Hashable, Sendable, CustomStringConvertible {
  /// To a row of the same database.
  case row(RowKey)
  /// To a file of a declared root, by its path from there.
  case file(root: String, path: String)

  /// The row; nil for a file.
  public var row: RowKey? { if case .row(let row) = self { row } else { nil } }

  /// The row as collection and key, or the file as root and path.
  public var description: String {
    switch self {
    case .row(let row): "\(row)"
    case .file(let root, let path): "\(root):\(path)"
    }
  }
}

/// What an edge is that leads to a row which is not there when the transaction ends.
public enum Dangling: UInt8, Hashable, Sendable, Codable {
  /// It is kept, fires nothing and counts for nothing, until there is such a row.
  case weak = 0
  /// The transaction is refused with `.danglingEdge`: a row that such edges lead to can't be removed before these.
  case error = 1
  /// Its source is removed.
  case deleteSource = 2
}

/// Why an edge goes, while its other end stays.
public enum EdgeRemoval: Hashable, Sendable {
  /// It was removed by itself: no rule fires, and neither end is notified.
  case edgeOnly
  /// Its source was removed, or does not declare it any more: the rules act on the destination.
  case asIfSourceDeleted
  /// Its destination was removed: the rules act on the source.
  case asIfDestinationDeleted
}
