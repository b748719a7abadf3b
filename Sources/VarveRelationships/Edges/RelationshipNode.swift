/// A type whose instances say by themselves where their edges lead.
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
/// The type has to be that of the collection in the program's definition, or of its first use: then instances that are set
/// in whatever way are asked.
public protocol RelationshipNode: Codable, Sendable {
  /// The edges that begin here: all of them. Asked when the instance is inserted, updated, or its object is replaced. An edge
  /// that the list had before and has no longer goes as if the source were deleted. What it throws ends the call that
  /// changes the row, and dooms the transaction.
  ///
  /// It has to depend on the instance alone: it is asked again where edges are collected again.
  func relationshipEdges() throws -> [RelationshipEdge]

  /// Called where an edge with a rule to notify goes, and this end stays: what the instance is to be now; nil: as it is.
  ///
  /// The row keeps its metadata and its key. Of several edges that go each call receives what the last one has returned, and
  /// the row is written once. Also called where a rule deletes this end; then nothing is made of what it returns.
  func edgeRemoved(_ edge: RelationshipEdge, _ reason: EdgeRemoval) throws -> Self?
}

extension RelationshipNode {
  /// As it is.
  public func edgeRemoved(_ edge: RelationshipEdge, _ reason: EdgeRemoval) throws -> Self? { nil }
}
