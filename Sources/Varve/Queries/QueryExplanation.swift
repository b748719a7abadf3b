/// A description of how a query finds its instances, which ``StoreQuery/explain()`` returns.
public struct QueryExplanation: Hashable, Sendable, CustomStringConvertible {
  /// A read for one branch of the condition.
  public struct Access: Hashable, Sendable, CustomStringConvertible {
    /// The name of the index, or nil if rows are read by their identifiers.
    public let index: String?
    /// The number of value ranges that are read. An unbounded range is the whole index or collection.
    public let rangeCount: Int
    /// The number of fields that the ranges bound.
    public let boundFields: Int
    /// Whether the rest of the condition has to be tested on each row that is found.
    public let filters: Bool
    /// Whether the access is intersected with the previous one in the list: it only returns rows that the other one
    /// has, and is read by seeks.
    public let isIntersected: Bool

    /// A text such as `index "byYear", 1 range of 2 fields, filtered`.
    public var description: String {
      let name = index.map { "index \"\($0)\"" } ?? "rows by identifier"
      let source = isIntersected ? "and \(name)" : name
      if boundFields == 0 { return "\(source), all of it\(filters ? ", filtered" : "")" }
      let ranges = "\(rangeCount) range\(rangeCount == 1 ? "" : "s")"
      return "\(source), \(ranges) of \(boundFields) field\(boundFields == 1 ? "" : "s")\(filters ? ", filtered" : "")"
    }
  }

  /// The way in which the order is established.
  public enum Order: Hashable, Sendable {
    /// No order was requested.
    case none
    /// Rows are read in order.
    case read
    /// Keys are sorted in memory. With a limit, only that many are kept.
    case sorted(limit: Int?)
  }

  /// The accesses of the condition's branches. Empty if no instance can fulfil the condition.
  public let accesses: [Access]
  /// Whether the branches are merged in one order. Otherwise they are read one after the other, and the rows that were
  /// returned are remembered.
  public let isMerged: Bool
  /// The way in which the order is established.
  public let order: Order
  /// Whether each row is decoded for every answer, also for a count, because those that can't be decoded are left out
  /// or replaced: ``RowFormat/undecodable``.
  public internal(set) var decodesEachRow = false
  /// The counted index that answers ``StoreQuery/count(in:)`` without iterating over entries, or nil if there is none.
  public internal(set) var countedIndex: String?
  /// Whether the counted index has the order of the query, so that ``StoreQuery/offset(of:in:)``,
  /// ``StoreQuery/ids(at:in:)`` and ``StoreQuery/fetch(at:in:)`` can be called.
  public internal(set) var hasOffsets = false

  /// A text with a line for each access, one for the order, and one for counts.
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
    if decodesEachRow { lines.append("each row decoded") }
    if let countedIndex { lines.append("counted by index \"\(countedIndex)\"\(hasOffsets ? ", with offsets" : "")") }
    return lines.joined(separator: "\n")
  }
}
