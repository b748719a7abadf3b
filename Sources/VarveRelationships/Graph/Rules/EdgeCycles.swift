public import Varve

/// Rows that only keep each other.
///
/// A row that goes with the last edge to it is *owned*. Rows that are all owned, and to which edges lead from one another and
/// from nowhere else, can't be reached from a row that stays by itself: what counts edges never finds them.
struct EdgeCycles {
  private let graph: RelationshipsTransaction
  /// Rows that are known to be kept from outside.
  private var living: Set<[UInt8]> = []
  private(set) var visitedCount = 0
  private let visitedMaximum: Int

  static let visitedMaximum = 100_000

  init(_ graph: RelationshipsTransaction, visitedMaximum: Int = Self.visitedMaximum) {
    self.graph = graph
    self.visitedMaximum = visitedMaximum
  }

  /// Whether the bound was met: what was not looked at may be a cycle.
  var isExhausted: Bool { visitedCount >= visitedMaximum }

  /// The rows that go together with an end, itself among them, because nothing else leads to them; none where something
  /// does, or where the bound is met.
  mutating func rows(with end: [UInt8]) throws -> Set<[UInt8]> {
    if living.contains(end) { return [] }
    var found: Set<[UInt8]> = [end]
    /// What each leads to, on the way to the end.
    var next: [[UInt8]: [UInt8]] = [:]
    var queue = [end]
    while let current = queue.popLast() {
      visitedCount += 1
      guard visitedCount <= visitedMaximum else { return [] }
      guard let sources = try owners(of: current), !sources.contains(where: { living.contains($0) }) else {
        // It stays by itself, and so does what it leads to. What leads to it may be a cycle all the same.
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

  /// The rows that have edges to an end which keep it; nil where it is owned by none.
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
  /// Removes rows that only keep each other: all that are to go with the last edge to them, and that edges lead to from one
  /// another and from nowhere else. Returns how many. Rules are applied to them, too.
  ///
  /// What `collectsCycles` does not find, because it visits at most 100,000 rows a transaction, and what was there before.
  /// Complexity: O(n) of all edges, and memory for the keys of the rows.
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
