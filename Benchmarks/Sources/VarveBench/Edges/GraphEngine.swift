import Foundation

/// A store of rows that belong to one another.
protocol GraphEngine: MeasuredEngine {
  /// The maximum length of a chain of rows that belong to one another.
  static var depthMaximum: Int { get }

  /// Inserts nodes in one transaction.
  func insert(_ count: Int, _ next: () -> GraphNode) throws
  /// Removes nodes and all rows that belong to them, in one transaction.
  func remove(_ ids: [UUID]) throws
  /// Inserts leaves in one transaction.
  func insertLeaves(_ count: Int, _ next: () -> GraphLeaf) throws
  /// Removes one leaf in its own transaction. Its hub is removed with the last leaf.
  func removeLeaf(_ id: UUID) throws
  /// Returns the number of nodes.
  func countNodes() throws -> Int
}
