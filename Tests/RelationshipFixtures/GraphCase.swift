import EngineTestSupport
import Varve

@_spi(Extensions) @testable import VarveRelationships

/// A test of relationships, written as text: transactions, and the content after them.
///
///     write
///     set a1 owns>b1=8
///     set b1
///     ----
///     a1 owns>b1
///     b1
///
/// `write` runs its lines in one transaction. Its output is each row with the edges that begin there, with a `+`
/// before added ones, a `?` before dangling ones, and the row's notifications in parentheses; or the error. The
/// lines:
///
///     set KEY LINK...            sets a row that declares edges; `set KEY stubborn LINK...` one that keeps what it
///                                declares
///     remove KEY                 removes a row
///     clear COLLECTION           removes all rows of a collection; `clear all` of all
///     add KEY LINK               adds an edge by hand
///     drop KEY LINK [source|destination]   removes one, by itself or as if an end were deleted
///     flush                      applies the rules
///     save ... undo              what stands between is a savepoint that is undone; `keep` ends one that is not
///     show KEY                   gives back a line `KEY: there` or `KEY: gone`, and its edges, as of now
struct GraphCase {
  let database: Database
  let graph: ExtensionHandle<Relationships>

  /// The collections of `Thing` rows.
  static let collections = ["a", "b", "c", "d"]

  static func definition(_ graph: ExtensionHandle<Relationships>) -> DatabaseDefinition {
    DatabaseDefinition {
      for name in collections { CollectionDefinition(name, Thing.self, key: String.self) }
      graph
    }
  }

  init(_ relationships: Relationships = Relationships()) throws {
    graph = relationships.named("graph")
    database = try Database.inMemory(definition: Self.definition(graph))
  }

  init(_ database: Database, _ graph: ExtensionHandle<Relationships>) {
    self.database = database
    self.graph = graph
  }

  /// Runs a case, and returns the text with its actual output.
  static func run(_ text: String, _ relationships: Relationships = Relationships()) throws -> String {
    let graph = try GraphCase(relationships)
    return TextCase.run(text) { command in graph.lines(of: command) }
  }

  func lines(of command: TextCase.Command) -> [String] {
    var shown: [String] = []
    do {
      if command.name == "write" {
        try database.write { tx in
          var steps = GraphSteps(graph: graph, lines: command.input)
          defer { shown = steps.shown }
          try steps.run(tx)
        }
      }
      return shown + (try content())
    } catch let error as DatabaseError {
      return shown + ["\(error.code)" + (error.key.map { ": \($0)" } ?? "")]
    } catch {
      return shown + ["\(error)"]
    }
  }

  /// Returns each row with its edges and its notes.
  func content() throws -> [String] {
    try database.read { tx in
      let dangling = try tx[graph].danglingEdges()
      var lines: [String] = []
      for collection in Self.collections {
        var rows = try tx.rows(in: collection)
        while let row = try rows.next() {
          lines.append(try Self.line(row, tx[graph].edges(EdgeQuery(from: row.key)), dangling))
        }
      }
      return lines
    }
  }

  private static func line(_ row: Row, _ edges: [RelationshipEdge], _ dangling: [RelationshipEdge]) throws -> String {
    let thing = try row.object(as: Thing.self)
    let words =
      [Thing.text(row.key)] + edges.map { text($0) }
      + dangling.filter { $0.source == row.key }.map { "?" + text($0) }
    return words.joined(separator: " ") + (thing.notes.isEmpty ? "" : " (\(thing.notes.joined(separator: ", ")))")
  }

  static func text(_ edge: RelationshipEdge) -> String {
    "\(edge.isManual ? "+" : "")\(edge.name)>\(Thing.text(edge.destination))"
  }
}

/// The lines of one transaction, and their execution.
struct GraphSteps {
  let graph: ExtensionHandle<Relationships>
  let lines: [String]
  var shown: [String] = []
  private var index = 0

  init(graph: ExtensionHandle<Relationships>, lines: [String]) {
    self.graph = graph
    self.lines = lines
  }

  private struct Undo: Error {}

  mutating func run(_ tx: WriteTransaction) throws { _ = try runUntilEnd(tx) }

  /// Runs lines up to the end of a savepoint. Returns the word that ended it, or `nil` at the end of the lines.
  private mutating func runUntilEnd(_ tx: WriteTransaction) throws -> String? {
    while index < lines.count {
      let words = lines[index].split(separator: " ")
      index += 1
      switch words[0] {
      case "undo", "keep": return String(words[0])
      case "save": try save(tx)
      default: try run(words, tx)
      }
    }
    return nil
  }

  private mutating func save(_ tx: WriteTransaction) throws {
    do {
      try tx.savepoint { if try runUntilEnd(tx) == "undo" { throw Undo() } }
    } catch is Undo {}
  }

  private mutating func run(_ words: [Substring], _ tx: WriteTransaction) throws {
    let key = words.count > 1 ? String(words[1]) : ""
    switch words[0] {
    case "set":
      var thing = Thing(links: words.dropFirst(2).filter { $0 != "stubborn" }.map { Thing.Link($0) })
      thing.isStubborn = words.contains("stubborn")
      try tx.set(thing, key: key, in: String(key.prefix(1)))
    case "remove": try tx.remove(Thing.row(key))
    case "clear": _ = key == "all" ? try tx.removeAll() : try tx.removeAll(in: key)
    case "add": try tx[graph].add(Thing.Link(words[2]).edge, from: Thing.row(key))
    case "drop":
      let link = Thing.Link(words[2])
      let reason: EdgeRemoval =
        switch words.dropFirst(3).first {
        case "source": .asIfSourceDeleted
        case "destination": .asIfDestinationDeleted
        default: .edgeOnly
        }
      try tx[graph].remove(EdgeQuery(EdgeName(link.name), from: Thing.row(key), to: link.end), as: reason)
    case "flush": try tx[graph].flush()
    case "show":
      let row = try Thing.row(key)
      let edges = try tx[graph].edges(EdgeQuery(from: row)).map { GraphCase.text($0) }
      let owners = try tx[graph].edges(EdgeQuery(to: row)).map { "<" + Thing.text($0.source ?? row) }
      shown.append(([try tx.contains(row) ? "\(key): there" : "\(key): gone"] + edges + owners).joined(separator: " "))
    default: throw DatabaseError(.invalidArgument, "no line begins with \(words[0])")
    }
  }
}

extension Database {
  /// Calls the blocking form of `ready`, for contexts in which that name means the asynchronous form.
  func readyHere(_ graph: ExtensionHandle<Relationships>) throws { try waitUntilReady(graph) }
}
