internal import Varve

/// What a type of nodes is asked, where the type is known once and not at each row.
class NodeAccess {
  /// The edges that a row declares as a change left it; nil where the row was removed.
  func edges(of change: borrowing RowChange) throws -> [RelationshipEdge]? {
    preconditionFailure("nodes are asked by a subclass")
  }

  /// The same of a row.
  func edges(of row: Row) throws -> [RelationshipEdge] {
    preconditionFailure("nodes are asked by a subclass")
  }

  /// Lets a row receive what was removed, and writes what it is to be then, unless `isKept`. Returns whether it has changed.
  func notify(
    _ row: Row, _ removed: [(edge: RelationshipEdge, reason: EdgeRemoval)], in transaction: WriteTransaction,
    isKept: Bool
  ) throws -> Bool {
    preconditionFailure("nodes are asked by a subclass")
  }

  /// Of a type; nil where its instances declare no edges.
  static func of(_ type: any (Codable & Sendable).Type) -> NodeAccess? {
    (type as? any RelationshipNode.Type).map { make($0) }
  }

  private static func make<Node: RelationshipNode>(_ type: Node.Type) -> NodeAccess { TypedNodeAccess<Node>() }
}

private final class TypedNodeAccess<Node: RelationshipNode>: NodeAccess {
  override func edges(of change: borrowing RowChange) throws -> [RelationshipEdge]? {
    try change.withObject(as: Node.self) { try $0.relationshipEdges() }
  }

  override func edges(of row: Row) throws -> [RelationshipEdge] { try row.object(as: Node.self).relationshipEdges() }

  override func notify(
    _ row: Row, _ removed: [(edge: RelationshipEdge, reason: EdgeRemoval)], in transaction: WriteTransaction,
    isKept: Bool
  ) throws -> Bool {
    var node = try row.object(as: Node.self)
    var hasChanged = false
    for (edge, reason) in removed {
      guard let replacement = try node.edgeRemoved(edge, reason) else { continue }
      node = replacement
      hasChanged = true
    }
    guard hasChanged, !isKept else { return false }
    if let item = node as? any Persistable, try item.rowKey != row.key {
      throw DatabaseError(
        .invalidArgument,
        "edgeRemoved returns \(Node.self) with another key, \(try item.rowKey.text); a row keeps its key",
        collection: row.key.collection, key: row.key.text)
    }
    return try transaction.replaceObject(node, of: row.key)
  }
}
