internal import Varve

/// Access to the methods of a node type, so that the type is resolved once and not for each row.
class NodeAccess {
  /// Returns the edges that a row declares after a change, or nil if the row was removed.
  func edges(of change: borrowing RowChange) throws -> [RelationshipEdge]? {
    preconditionFailure("nodes are asked by a subclass")
  }

  /// Returns the edges that a row declares.
  func edges(of row: Row) throws -> [RelationshipEdge] {
    preconditionFailure("nodes are asked by a subclass")
  }

  /// Notifies a row of removed edges, and writes its new value unless `isKept` is true. Returns whether it has changed.
  func notify(
    _ row: Row, _ removed: [(edge: RelationshipEdge, reason: EdgeRemoval)], in transaction: WriteTransaction,
    isKept: Bool
  ) throws -> Bool {
    preconditionFailure("nodes are asked by a subclass")
  }

  /// Returns the access of a type, or nil if its instances declare no edges.
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
