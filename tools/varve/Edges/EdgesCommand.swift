import ArgumentParser
import Varve
import VarveInspection
import VarveRelationships

/// Lists and draws the edges between rows without the types of the rows.
struct EdgesCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "edges",
    abstract: "List and count the edges between rows, and draw the neighborhood of one.",
    discussion: """
      The command prints one line for each edge, with tabs between: source, name, destination, rules, and declared or \
      manual. An edge is listed if both of its ends exist; --dangling lists those that lead to no row.

      Rows are written as collection/key, and keys as objects prints them: books/42, players/"a1". Files are written \
      as root:path. --domain names the relationships if the database has several.

      --dot prints the neighborhood of --from in the language of Graphviz: the rows that are at most --depth edges away, in \
      both directions, and the edges between them.

      Example: varve edges /data/example.varve --to books/42
      Example: varve edges /data/example.varve --name depends --count
      Example: varve edges /data/example.varve --from packages/"bash" --dot --depth 2
      """
  )

  @OptionGroup var database: DatabaseArgument
  @Option(help: "The relationships, by the name that they are registered by.") var domain: String?
  @Option(help: "Only edges of this name.") var name: String?
  @Option(help: ArgumentHelp("Only edges that begin at this row.", valueName: "collection/key")) var from: String?
  @Option(help: ArgumentHelp("Only edges to this row.", valueName: "collection/key")) var to: String?
  @Option(help: ArgumentHelp("Only edges to this file.", valueName: "root:path")) var toFile: String?
  @Option(help: "At most so many edges.") var limit: Int?
  @Flag(help: "Print how many there are.") var count = false
  @Flag(help: "List edges that lead to no row.") var dangling = false
  @Flag(help: "Draw the neighborhood of --from.") var dot = false
  @Option(help: "With --dot, how many edges away a row may be. (default: 1)") var depth: Int?
  @OptionGroup var output: OutputOption

  func validate() throws {
    if let limit, limit < 0 { throw ValidationError("--limit is a count: \(limit) is below 0") }
    if let depth, depth < 0 { throw ValidationError("--depth is a count: \(depth) is below 0") }
    guard depth == nil || dot else { throw ValidationError("--depth is about a drawing: use it with --dot") }
    guard limit == nil || !(count || dot) else {
      throw ValidationError("--limit is about a list of edges: use it without --count and --dot")
    }
    guard to == nil || toFile == nil else { throw ValidationError("an edge leads to one end: use --to or --to-file") }
    guard [count, dangling, dot].count(where: \.self) <= 1 else {
      throw ValidationError("use one of --count, --dangling and --dot")
    }
    guard !dot || from != nil else { throw ValidationError("--dot draws around a row: name it with --from") }
    guard !dot || !output.json else { throw ValidationError("--dot prints Graphviz: use it without --json") }
  }

  func run() throws {
    let (handle, query): (ExtensionHandle<Relationships>, EdgeQuery) = try database.inspecting { inspector in
      let finder = EdgeFinder(inspector, domain)
      return (try finder.handle(), try self.query(finder))
    }
    var options = DatabaseOptions()
    options.createsIfMissing = false
    options.isReadOnly = true
    let objects = try Database.open(at: database.path, options: options) { handle }
    let sink = try ByteSink.standardOutput()
    do {
      try objects.read { tx in try run(tx[handle], query, sink) }
    } catch {
      try? objects.close()
      throw error
    }
    try objects.close()
    try sink.finish()
  }

  private func query(_ finder: EdgeFinder) throws -> EdgeQuery {
    var query = EdgeQuery()
    if let name { query.name = EdgeName(name) }
    if let from { query.source = try finder.row(from) }
    if let to { query.destination = .row(try finder.row(to)) }
    if let toFile { query.destination = try finder.file(toFile) }
    return query
  }

  private func run(_ graph: RelationshipsTransaction, _ query: EdgeQuery, _ sink: ByteSink) throws {
    if dot, let row = query.source {
      return try EdgeDrawing(graph, query.name).write(around: row, depth ?? 1, to: sink)
    }
    if count {
      let count = try graph.count(query)
      return output.json ? try sink.writeJSON(["count": count]) : try sink.writeLine("\(count)")
    }
    var left = limit ?? .max
    if dangling {
      for edge in try graph.danglingEdges() where left > 0 && isMeant(edge, query) {
        try print(edge, sink)
        left -= 1
      }
      return
    }
    var cursor = try graph.cursor(query)
    while left > 0, let edge = try cursor.next() {
      try print(edge, sink)
      left -= 1
    }
  }

  private func isMeant(_ edge: RelationshipEdge, _ query: EdgeQuery) -> Bool {
    (query.name.map { $0 == edge.name } ?? true) && (query.source.map { $0 == edge.source } ?? true)
      && (query.destination.map { $0 == edge.destination } ?? true)
  }

  private func print(_ edge: RelationshipEdge, _ sink: ByteSink) throws {
    let row = EdgeRow(edge)
    try output.json ? sink.writeJSON(row) : sink.writeLine(row.text)
  }
}

/// Finds the relationships of a database, and the rows that a user names.
struct EdgeFinder {
  private let inspector: DatabaseInspector
  private let domain: String?

  init(_ inspector: DatabaseInspector, _ domain: String?) {
    self.inspector = inspector
    self.domain = domain
  }

  /// Returns the relationships as they are on disk, with the version of the program's types that is stored there.
  func handle() throws -> ExtensionHandle<Relationships> {
    let known = try inspector.extensions { throw $0 }.filter { $0.kind == Relationships.kind }
    guard let found = known.first(where: { $0.name == domain ?? known[0].name }) else {
      let names = known.map { "\"\($0.name)\"" }.joined(separator: ", ")
      throw ToolError(
        .answerIsNo,
        known.isEmpty
          ? "the database has no relationships"
          : "no relationships are registered as \"\(domain ?? "")\"; the database has \(names)")
    }
    if domain == nil, known.count > 1 {
      let names = known.map { "\"\($0.name)\"" }.joined(separator: ", ")
      throw ToolError(.usage, "the database has the relationships \(names): choose one with --domain")
    }
    let version = found.parts.first { $0.name == "declared.from" }?.version ?? "1"
    return Relationships(version: version).named(found.name)
  }

  /// Returns the key of a row written as `books/42`.
  ///
  /// Names of collections may contain a slash, so the longest matching name is used.
  func row(_ text: String) throws -> RowKey {
    let names = try inspector.collections { throw $0 }.map(\.name).filter { text.hasPrefix($0 + "/") }
    guard let name = names.max(by: { $0.utf8.count < $1.utf8.count }) else {
      throw ToolError(
        .usage, "\(text) names no row of a collection of the database; rows are written as collection/key")
    }
    let key = String(text.dropFirst(name.count + 1))
    do {
      return RowKey(collection: name, bytes: try inspector.collection(name).key(key))
    } catch let error as DatabaseError {
      throw ToolError(.usage, "\(key) is not a key of the collection \"\(name)\": \(error.message)")
    }
  }

  func file(_ text: String) throws -> EdgeEnd {
    guard let colon = text.firstIndex(of: ":") else {
      throw ToolError(.usage, "\(text) names no file; files are written as root:path")
    }
    return .file(root: String(text[..<colon]), path: String(text[text.index(after: colon)...]))
  }
}
