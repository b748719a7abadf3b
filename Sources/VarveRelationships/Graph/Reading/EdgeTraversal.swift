public import Varve

extension RelationshipsTransaction {
  /// Follows edges from a row, breadth first: what is one edge away, then what is two away, each end once, by its shortest
  /// way. The row itself does not come, unless `from` has several.
  ///
  /// ```swift
  /// var traversal = try tx[graph].traverse(from: [package.rowKey], .incoming, names: ["depends"], maxDepth: 3)
  /// while let step = try traversal.next() { print(step.depth, step.end) }
  /// ```
  ///
  /// The traversal sees the edges as they are when it comes to each row; in a read that is one snapshot. `names` nil: of any name.
  /// `maxDepth` nil: as far as edges go. Files have no edges of their own.
  ///
  /// Complexity: O(n) of the edges that it follows, and memory for the key of each end.
  public func traverse(
    from rows: [RowKey], _ direction: EdgeDirection = .outgoing, names: Set<EdgeName>? = nil, maxDepth: Int? = nil
  ) throws -> EdgeTraversal {
    try EdgeTraversal(rows, direction, names, maxDepth, self)
  }

  /// The edges of a shortest way from one row to another end, in the order of the way; nil where there is none, and none
  /// where both are the same. Of several the first is found that the order of edges gives.
  ///
  /// Complexity: as `traverse`, up to the length of the way.
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

  /// The same to a row.
  public func shortestPath(
    from source: RowKey, to destination: RowKey, _ direction: EdgeDirection = .outgoing, names: Set<EdgeName>? = nil,
    maxDepth: Int? = nil
  ) throws -> [RelationshipEdge]? {
    try shortestPath(from: source, to: .row(destination), direction, names: names, maxDepth: maxDepth)
  }
}

/// Ends that edges lead to, breadth first: see `RelationshipsTransaction.traverse`. It belongs to the transaction.
public struct EdgeTraversal {
  /// An end that a traversal has come to.
  public struct Step: Sendable {
    /// The end.
    public let end: EdgeEnd
    /// How many edges it is away.
    public let depth: Int
    /// The edge by which the traversal has come to it.
    public let edge: RelationshipEdge
    /// Its position among those that the traversal has come to.
    fileprivate let position: Int
  }

  private let graph: RelationshipsTransaction
  private let direction: EdgeDirection
  private let names: Set<EdgeName>?
  private let maxDepth: Int
  private var visited: Set<EdgeEnd>
  /// Those that the traversal has come to, and whether it has followed their edges.
  private var ends: [(end: EdgeEnd, depth: Int, previous: Int?, edge: RelationshipEdge?)]
  private var index = 0
  /// The edges of the end that is followed, and whether those are its outgoing ones.
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

  /// The next end; nil after the last.
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

  /// The edges of the way to a step.
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
    // One name is looked for, more are left out on the way.
    let name = names?.count == 1 ? names?.first : nil
    if direction != .outgoing { cursors.append((try graph.cursor(EdgeQuery(name, to: end)), false)) }
    if direction != .incoming, let row = end.row {
      cursors.append((try graph.cursor(EdgeQuery(name, from: row)), true))
    }
  }
}
