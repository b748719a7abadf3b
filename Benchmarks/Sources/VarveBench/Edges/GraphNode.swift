import ArgumentParser
import Foundation
import Varve
import VarveRelationships

/// A node of the edge workloads: a book, and the rows that it belongs to.
struct GraphNode: Codable, Equatable, Identifiable, Sendable {
  var id: UUID
  var parent: UUID?
  var second: UUID?
  var title: String
  var summary: String
  var year: Int
  var price: Double
  var updated: Date

  init(_ book: Book, id: UUID, parent: UUID?, second: UUID?) {
    self.id = id
    self.parent = parent
    self.second = second
    title = book.title
    summary = book.summary
    year = book.year
    price = book.price
    updated = book.updated
  }

  /// The size of the fields in memory in bytes.
  static let byteCount = 16 + Book.titleSize + Book.summarySize + 8 + 8 + 8
}

extension GraphNode: Persistable, RelationshipNode {
  static let collection = "nodes"

  /// Returns edges by which the node is removed together with the rows that it belongs to.
  func relationshipEdges() throws -> [RelationshipEdge] {
    guard let parent else { return [] }
    let edge = try RelationshipEdge("parent", to: GraphNode.self, parent, .deleteSourceIfDestinationDeleted)
    guard let second else { return [edge] }
    return [edge, try RelationshipEdge("second", to: GraphNode.self, second, .deleteSourceIfDestinationDeleted)]
  }
}

/// A row of `edgehub`. The row that all leaves lead to is removed with the last of them.
struct GraphLeaf: Codable, Equatable, Identifiable, Sendable, Persistable, RelationshipNode {
  static let collection = "leaves"
  var id: UUID
  var hub: UUID

  func relationshipEdges() throws -> [RelationshipEdge] {
    [try RelationshipEdge("hub", to: GraphNode.self, hub, .deleteDestinationIfAllSourcesDeleted)]
  }
}

/// The structure of the rows in `edgecascade`.
enum GraphShape: String, Codable, CaseIterable, ExpressibleByArgument {
  /// All rows belong to one row.
  case star
  /// Ten rows belong to each, in the order of their numbers; keys are random.
  case tree
  /// Like `tree`, with ascending keys.
  case treeordered
  /// Each row belongs to the previous one.
  case chain
  /// A hundred chains like `chain`, which are deleted together.
  case chains

  /// Returns the number of the row that a row belongs to, or `nil` if it is one of those that are deleted.
  func parent(of number: Int) -> Int? {
    switch self {
    case .star: number == 0 ? nil : 0
    case .tree, .treeordered: number == 0 ? nil : (number - 1) / 10
    case .chain: number == 0 ? nil : number - 1
    case .chains: number < 100 ? nil : number - 100
    }
  }

  /// Returns the maximum length of a chain of rows that belong to one another.
  func depth(_ count: Int) -> Int {
    switch self {
    case .star: 1
    case .tree, .treeordered: 20
    case .chain: count
    case .chains: count / 100
    }
  }
}

/// Generates the node with a number.
struct GraphSource {
  private let books: BookSource
  private let isOrdered: Bool

  init(_ settings: RunSettings) {
    books = BookSource(settings)
    isOrdered = settings.shape == .treeordered
  }

  func id(_ number: Int) -> UUID {
    if !isOrdered { return books.id(UInt64(number)) }
    return unsafeBitCast((UInt64(number).bigEndian, UInt64(0)), to: UUID.self)
  }

  func node(_ number: Int, parent: Int?, second: Int? = nil) -> GraphNode {
    GraphNode(
      books.book(UInt64(number)), id: id(number), parent: parent.map { id($0) }, second: second.map { id($0) })
  }
}
