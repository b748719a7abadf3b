import Foundation

/// A store of rows that belong to one another.
protocol GraphEngine: MeasuredEngine {
  /// The most rows that may belong to one another, one after the other.
  static var depthMaximum: Int { get }

  /// Inserts nodes in one transaction.
  func insert(_ count: Int, _ next: () -> GraphNode) throws
  /// Removes nodes, and with them all that belongs to them, in one transaction.
  func remove(_ ids: [UUID]) throws
  /// Inserts leaves in one transaction.
  func insertLeaves(_ count: Int, _ next: () -> GraphLeaf) throws
  /// Removes one leaf in a transaction of its own; its hub goes with the last of them.
  func removeLeaf(_ id: UUID) throws
  /// How many nodes there are.
  func countNodes() throws -> Int
}
