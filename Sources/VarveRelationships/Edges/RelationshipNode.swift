/// A type whose instances declare their edges.
///
/// ```swift
/// struct Player: Persistable, RelationshipNode {
///   static let collection = "players"
///   var id: UUID
///   var avatarID: UUID?
///   func relationshipEdges() throws -> [RelationshipEdge] {
///     guard let avatarID else { return [] }
///     return [
///       try RelationshipEdge(
///         "avatar", to: Avatar.self, avatarID, [.deleteDestinationIfSourceDeleted, .notifyIfDestinationDeleted])
///     ]
///   }
///   func edgeRemoved(_ edge: RelationshipEdge, _ reason: EdgeRemoval) -> Player? {
///     guard edge.name == "avatar", reason == .asIfDestinationDeleted else { return nil }
///     var copy = self
///     copy.avatarID = nil
///     return copy
///   }
/// }
/// ```
///
/// The type has to be that of the collection in the program's definition, or that of its first use: then all instances
/// that are written, by whatever method, are asked for their edges.
public protocol RelationshipNode: Codable, Sendable {
  /// Returns all edges that begin at this instance. It is called when the instance is inserted or updated, or its
  /// object is replaced. An edge that was in the previous list but is not in this one is removed as if its source was
  /// deleted. An error fails the call that changes the row, and dooms the transaction.
  ///
  /// The result must only depend on the instance, because this is called again when edges are collected again.
  func relationshipEdges() throws -> [RelationshipEdge]

  /// Returns the new value of the instance when an edge with a notify rule is removed and this end remains, or nil to
  /// leave it unchanged.
  ///
  /// The row keeps its metadata and its key. If several edges are removed, each call receives the result of the
  /// previous one, and the row is written once. This is also called if a rule deletes this end; the result is then
  /// ignored.
  func edgeRemoved(_ edge: RelationshipEdge, _ reason: EdgeRemoval) throws -> Self?
}

extension RelationshipNode {
  /// Returns nil: the instance is unchanged.
  public func edgeRemoved(_ edge: RelationshipEdge, _ reason: EdgeRemoval) throws -> Self? { nil }
}
