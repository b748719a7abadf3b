import Foundation
import Varve
import VarveEngine
import VarveRelationships

/// The format of nodes with the indexes of `--indexes 2`.
struct NodesTwo: StoreFormat {
  typealias Version = SingleVersion
  typealias Instance = GraphNode
  typealias Identifier = UUID
  static let collection = GraphNode.collection
  let year = Index(\.year)
  let updated = Index(\.updated)
}

/// Varve's relationships through their public API, with rows that declare their edges.
final class VarveGraph: GraphEngine {
  private let database: Database
  private let backend: EngineBackend
  private let graph = Relationships().named("graph")
  private let store: Store<NodesTwo>?

  static var depthMaximum: Int { .max }
  static var version: String { VarveAdapter.version }
  static func fileUse(_ name: String) -> FileUse { VarveAdapter.fileUse(name) }

  init(path: String, settings: EngineSettings) throws {
    backend = try EngineBackend(VarveAdapter.openEngine(path: path, settings: settings))
    let graph = graph
    let definition =
      settings.indexes == .two
      ? DatabaseDefinition {
        NodesTwo.self
        GraphLeaf.self
        graph
      }
      : DatabaseDefinition {
        GraphNode.self
        GraphLeaf.self
        graph
      }
    database = try Database.open(backend, path: path, definition: definition)
    store = settings.indexes == .two ? Store(in: database) : nil
  }

  func insert(_ count: Int, _ next: () -> GraphNode) throws {
    try database.write { tx in
      for _ in 0..<count {
        if let store { try store.insert(next(), in: tx) } else { try next().persist(in: tx) }
      }
    }
  }

  func remove(_ ids: [UUID]) throws {
    try database.write { tx in
      for id in ids { try tx.remove(GraphNode.rowKey(id)) }
    }
  }

  func insertLeaves(_ count: Int, _ next: () -> GraphLeaf) throws {
    try database.write { tx in
      for _ in 0..<count { try next().persist(in: tx) }
    }
  }

  func removeLeaf(_ id: UUID) throws { try database.write { tx in _ = try tx.remove(GraphLeaf.rowKey(id)) } }
  func countNodes() throws -> Int { try database.read { tx in try tx.count(in: GraphNode.collection) } }
  func compact() throws { try backend.engine.compact() }

  func waitForCompaction() throws -> UInt64 {
    try backend.engine.waitForCompaction()
    return 0
  }

  func counters() -> EngineCounters { VarveAdapter.counters(backend.engine) }
  func close() throws { try database.close() }
}
