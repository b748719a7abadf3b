internal import Varve

/// Finds rows that are only kept by each other.
///
/// A row that is removed with the last edge to it is *owned*. Owned rows to which edges lead only from one another
/// cannot be reached from a row that exists on its own, but counting edges never finds them.
struct EdgeCycles {
  private let graph: RelationshipsTransaction
  /// The rows that are known to be kept from outside.
  private var living: Set<[UInt8]> = []
  private(set) var visitedCount = 0
  private let visitedMaximum: Int

  static let visitedMaximum = 100_000

  init(_ graph: RelationshipsTransaction, visitedMaximum: Int = Self.visitedMaximum) {
    self.graph = graph
    self.visitedMaximum = visitedMaximum
  }

  /// Whether the limit of visited rows was reached, so that rows that were not visited may be in a cycle.
  var isExhausted: Bool { visitedCount >= visitedMaximum }

  /// Returns the rows that are removed together with an end, including itself, because no other edge leads to them.
  /// Returns no rows if one does, or if the limit is reached.
  mutating func rows(with end: [UInt8]) throws -> Set<[UInt8]> {
    if living.contains(end) { return [] }
    var found: Set<[UInt8]> = [end]
    /// For each row, the next one on the path to the end.
    var next: [[UInt8]: [UInt8]] = [:]
    var queue = [end]
    while let current = queue.popLast() {
      visitedCount += 1
      guard visitedCount <= visitedMaximum else { return [] }
      guard let sources = try owners(of: current), !sources.contains(where: { living.contains($0) }) else {
        // The row exists on its own, and so do the rows that it leads to. The rows that lead to it may be a cycle
        // nevertheless.
        var kept: [UInt8]? = current
        while let row = kept {
          living.insert(row)
          kept = next[row]
        }
        return []
      }
      for source in sources where found.insert(source).inserted {
        next[source] = current
        queue.append(source)
      }
    }
    return found
  }

  /// Returns the rows with edges that keep an end, or nil if no edge owns it.
  private func owners(of end: [UInt8]) throws -> [[UInt8]]? {
    var names: Set<[UInt8]> = []
    var edges: [(name: [UInt8], source: [UInt8])] = []
    for family in graph.families.both {
      try family.to.forEach(in: StorageRange(prefix: EdgeFormat.prefix(end[...], nil))) { keyBytes, valueBytes in
        var (bytes, value): ([UInt8], [UInt8]) = ([], [])
        bytes.replace(with: keyBytes)
        value.replace(with: valueBytes)
        let key = try EdgeKey(bytes, bySource: false)
        let (name, source) = (Array(key.name), Array(key.second))
        if source != end {
          edges.append((name, source))
          if try EdgeValue.rules(value).contains(.deleteDestinationIfAllSourcesDeleted) { names.insert(name) }
        }
        return true
      }
    }
    if names.isEmpty { return nil }
    return edges.filter { graph.definition.counting == .allNames || names.contains($0.name) }.map(\.source)
  }
}

extension RelationshipsTransaction {
  /// Removes rows that are only kept by each other: those that are removed with the last edge to them, and to which
  /// edges lead only from one another. Returns their number. Rules are applied to them, too.
  ///
  /// This finds the rows that `collectsCycles` does not, because it visits at most 100,000 rows per transaction, and
  /// those from before it was enabled. Complexity: O(n) in all edges, and memory for the keys of the rows.
  @discardableResult
  public func collectCycles() throws -> Int {
    let writer = try writing()
    var cycles = EdgeCycles(self, visitedMaximum: .max)
    var removed: Set<[UInt8]> = []
    for family in families.both {
      var cursor = try family.to.cursor(StorageRange(prefix: [EdgeFormat.row]))
      var last: ArraySlice<UInt8> = []
      while let (bytes, value) = try cursor.next() {
        let key = try EdgeKey(bytes, bySource: false)
        guard try EdgeValue.rules(value).contains(.deleteDestinationIfAllSourcesDeleted), key.first != last else {
          continue
        }
        last = key.first
        if !removed.contains(Array(key.first)) { removed.formUnion(try cycles.rows(with: Array(key.first))) }
      }
    }
    try writer.remove(removed.sorted { $0.lexicographicallyPrecedes($1) }.compactMap { try row(of: $0[...]) })
    try flush()
    return removed.count
  }
}
