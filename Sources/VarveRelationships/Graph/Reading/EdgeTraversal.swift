public import Varve

extension RelationshipsTransaction {
  /// Follows edges from rows, breadth first: first the ends at a distance of one edge, then those at two, and so on.
  /// Each end is returned once, by its shortest path. The starting rows themselves are not returned.
  ///
  /// ```swift
  /// var traversal = try tx[graph].traverse(from: [package.rowKey], .incoming, names: ["depends"], maxDepth: 3)
  /// while let step = try traversal.next() { print(step.depth, step.end) }
  /// ```
  ///
  /// The traversal sees the edges as they are when it reaches each row; in a read that is one snapshot. If `names` is
  /// nil, edges of any name are followed; if `maxDepth` is nil, the depth is not limited. Files have no edges of their
  /// own.
  ///
  /// Complexity: O(n) in the edges that it follows, and memory for the key of each end.
  public func traverse(
    from rows: [RowKey], _ direction: EdgeDirection = .outgoing, names: Set<EdgeName>? = nil, maxDepth: Int? = nil
  ) throws -> EdgeTraversal {
    try EdgeTraversal(rows, direction, names, maxDepth, self)
  }

  /// Returns the edges of a shortest path from a row to another end, in the order of the path. Returns nil if there is
  /// none, and an empty array if both are the same. Of several paths, the first one in the order of edges is returned.
  ///
  /// Complexity: as `traverse`, up to the length of the path.
  public func shortestPath(
    from source: RowKey, to destination: EdgeEnd, _ direction: EdgeDirection = .outgoing, names: Set<EdgeName>? = nil,
    maxDepth: Int? = nil
  ) throws -> [RelationshipEdge]? {
    if case .row(source) = destination { return [] }
    var traversal = try EdgeTraversal([source], direction, names, maxDepth, self)
    while let step = try traversal.next() {
      if step.end == destination { return try traversal.way(to: step) }
    }
    return nil
  }

  /// Returns the edges of a shortest path from a row to another row.
  public func shortestPath(
    from source: RowKey, to destination: RowKey, _ direction: EdgeDirection = .outgoing, names: Set<EdgeName>? = nil,
    maxDepth: Int? = nil
  ) throws -> [RelationshipEdge]? {
    try shortestPath(from: source, to: .row(destination), direction, names: names, maxDepth: maxDepth)
  }
}

/// The ends that edges lead to, breadth first: see `RelationshipsTransaction.traverse`. It belongs to the transaction.
public struct EdgeTraversal {
  /// An end that a traversal has reached.
  public struct Step: Sendable {
    /// The end that was reached.
    public let end: EdgeEnd
    /// The distance in edges.
    public let depth: Int
    /// The edge by which the traversal has reached the end.
    public let edge: RelationshipEdge
    /// The index of the end among those that the traversal has reached.
    fileprivate let position: Int
  }

  private let graph: RelationshipsTransaction
  private let direction: EdgeDirection
  private let names: Set<EdgeName>?
  private let maxDepth: Int
  private var visited: Set<EdgeEnd>
  /// The ends that the traversal has reached, each with its depth, the index of the previous end, and the edge between
  /// both.
  private var ends: [(end: EdgeEnd, depth: Int, previous: Int?, edge: RelationshipEdge?)]
  private var index = 0
  /// The cursors of the edges of the current end, and whether each has its outgoing edges.
  private var cursors: [(cursor: EdgeCursor, isOutgoing: Bool)] = []

  fileprivate init(
    _ rows: [RowKey], _ direction: EdgeDirection, _ names: Set<EdgeName>?, _ maxDepth: Int?,
    _ graph: RelationshipsTransaction
  ) throws {
    self.graph = graph
    self.direction = direction
    self.names = names
    self.maxDepth = maxDepth ?? .max
    visited = Set(rows.map { .row($0) })
    ends = rows.map { (.row($0), 0, nil, nil) }
    try open()
  }

  /// Returns the next end, or nil after the last.
  public mutating func next() throws -> Step? {
    while index < ends.count {
      while !cursors.isEmpty {
        let isOutgoing = cursors[cursors.count - 1].isOutgoing
        guard let edge = try cursors[cursors.count - 1].cursor.next() else {
          cursors.removeLast()
          continue
        }
        if let names, !names.contains(edge.name) { continue }
        guard let end = isOutgoing ? edge.destination : edge.source.map({ .row($0) }), visited.insert(end).inserted
        else { continue }
        let depth = ends[index].depth + 1
        ends.append((end, depth, index, edge))
        return Step(end: end, depth: depth, edge: edge, position: ends.count - 1)
      }
      index += 1
      try open()
    }
    return nil
  }

  /// Returns the edges of the path to a step.
  fileprivate func way(to step: Step) throws -> [RelationshipEdge] {
    var edges: [RelationshipEdge] = []
    var position: Int? = step.position
    while let current = position {
      if let edge = ends[current].edge { edges.append(edge) }
      position = ends[current].previous
    }
    return edges.reversed()
  }

  /// Begins with the edges of the next end.
  private mutating func open() throws {
    guard index < ends.count, ends[index].depth < maxDepth else { return }
    let end = ends[index].end
    // A single name is part of the query; several names are filtered afterwards.
    let name = names?.count == 1 ? names?.first : nil
    if direction != .outgoing { cursors.append((try graph.cursor(EdgeQuery(name, to: end)), false)) }
    if direction != .incoming, let row = end.row {
      cursors.append((try graph.cursor(EdgeQuery(name, from: row)), true))
    }
  }
}
