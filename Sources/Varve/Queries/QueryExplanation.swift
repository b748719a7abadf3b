/// How a query finds its instances: what ``StoreQuery/explain()`` returns.
public struct QueryExplanation: Hashable, Sendable, CustomStringConvertible {
  /// What is read for one branch of the condition.
  public struct Access: Hashable, Sendable, CustomStringConvertible {
    /// The name of the index; nil: the rows by their identifiers.
    public let index: String?
    /// How many ranges of values are read. One that is not bounded is all of the index or collection.
    public let rangeCount: Int
    /// How many fields are bounded by them.
    public let boundFields: Int
    /// Whether each row that is found has to be asked for the rest of the condition.
    public let filters: Bool
    /// Whether it gives only rows that the access before it in the list has as well, and is asked for them by seeks.
    public let isIntersected: Bool

    /// `index "byYear", 1 range of 2 fields, filtered`.
    public var description: String {
      let name = index.map { "index \"\($0)\"" } ?? "rows by identifier"
      let source = isIntersected ? "and \(name)" : name
      if boundFields == 0 { return "\(source), all of it\(filters ? ", filtered" : "")" }
      let ranges = "\(rangeCount) range\(rangeCount == 1 ? "" : "s")"
      return "\(source), \(ranges) of \(boundFields) field\(boundFields == 1 ? "" : "s")\(filters ? ", filtered" : "")"
    }
  }

  /// How the order is made.
  public enum Order: Hashable, Sendable {
    /// None was asked for.
    case none
    /// Rows are read in the order.
    case read
    /// Keys are sorted in memory; with a limit, as many are kept as it says.
    case sorted(limit: Int?)
  }

  /// One for each branch of the condition. None: no instance can fulfil it.
  public let accesses: [Access]
  /// Whether the branches are read side by side, in one order. Otherwise they are read one after the other, and the rows that
  /// have come are remembered.
  public let isMerged: Bool
  /// How the order is made.
  public let order: Order

  /// A line for each access, and one for the order.
  public var description: String {
    var lines = accesses.map(\.description)
    if lines.isEmpty { lines = ["nothing"] }
    if isMerged { lines.append("merged") }
    switch order {
    case .none: break
    case .read: lines.append("in order")
    case .sorted(nil): lines.append("sorted in memory")
    case .sorted(let limit?): lines.append("sorted in memory, the first \(limit) kept")
    }
    return lines.joined(separator: "\n")
  }
}
