import Varve
import VarveRelationships

/// An edge as a line of text and as JSON.
struct EdgeRow: Encodable {
  /// An end of an edge: a row or a file.
  struct End: Encodable {
    var collection: String?
    var key: String?
    var root: String?
    var path: String?

    init(_ end: EdgeEnd) {
      switch end {
      case .row(let row): (collection, key) = (row.collection, row.text)
      case .file(let root, let path): (self.root, self.path) = (root, path)
      }
    }
  }

  let name: String
  let source: End?
  let destination: End
  let rules: [String]
  let dangling: String
  let order: Int64
  let manual: Bool
  let text: String

  private enum CodingKeys: String, CodingKey { case name, source, destination, rules, dangling, order, manual }

  init(_ edge: RelationshipEdge) {
    name = edge.name.text
    source = edge.source.map { End(.row($0)) }
    destination = End(edge.destination)
    rules = Self.names.filter { edge.rules.contains($0.rule) }.map(\.name)
    dangling = "\(edge.dangling)"
    order = edge.order
    manual = edge.isManual
    let columns = [
      edge.source.map { "\($0)" } ?? "-", edge.name.text, "\(edge.destination)",
      rules.isEmpty ? "-" : rules.joined(separator: "+"), manual ? "manual" : "declared",
    ]
    text = columns.map { JSONLine.printable($0) }.joined(separator: "\t")
  }

  private static let names: [(rule: DeleteRules, name: String)] = [
    (.notifyIfSourceDeleted, "notifyIfSourceDeleted"),
    (.notifyIfDestinationDeleted, "notifyIfDestinationDeleted"),
    (.deleteSourceIfDestinationDeleted, "deleteSourceIfDestinationDeleted"),
    (.deleteDestinationIfSourceDeleted, "deleteDestinationIfSourceDeleted"),
    (.deleteSourceIfAllDestinationsDeleted, "deleteSourceIfAllDestinationsDeleted"),
    (.deleteDestinationIfAllSourcesDeleted, "deleteDestinationIfAllSourcesDeleted"),
  ]
}

/// Draws the neighborhood of a row in the language of Graphviz.
struct EdgeDrawing {
  private let graph: RelationshipsTransaction
  private let name: EdgeName?

  init(_ graph: RelationshipsTransaction, _ name: EdgeName?) {
    self.graph = graph
    self.name = name
  }

  func write(around row: RowKey, _ depth: Int, to sink: ByteSink) throws {
    var ends: Set<EdgeEnd> = [.row(row)]
    var listed = [EdgeEnd.row(row)]
    var traversal = try graph.traverse(from: [row], .both, names: name.map { [$0] }, maxDepth: depth)
    while let step = try traversal.next() {
      ends.insert(step.end)
      listed.append(step.end)
    }
    try sink.writeLine("digraph edges {")
    for end in listed { try sink.writeLine("  \(Self.quoted("\(end)"))\(end.row == row ? " [style=bold]" : "");") }
    for end in listed {
      guard let source = end.row else { continue }
      var cursor = try graph.cursor(EdgeQuery(name, from: source))
      while let edge = try cursor.next() {
        guard ends.contains(edge.destination) else { continue }
        try sink.writeLine(
          "  \(Self.quoted("\(end)")) -> \(Self.quoted("\(edge.destination)")) [label=\(Self.quoted(edge.name.text))];")
      }
    }
    try sink.writeLine("}")
  }

  private static func quoted(_ text: String) -> String {
    "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n") + "\""
  }
}
