import Foundation
import Testing
import Varve
import VarveRelationships

/// Tests of `varve edges` as a script sees it.
struct EdgesCommandTests {
  private struct Page: Persistable, RelationshipNode {
    static let collection = "pages/all"
    var id: String
    var links: [String] = []
    func relationshipEdges() throws -> [RelationshipEdge] {
      try links.map { try RelationshipEdge("link", to: Page.self, $0, .notifyIfDestinationDeleted) }
    }
  }

  private let directory = TemporaryDirectory()
  private var database: String { directory.path + "/db" }

  init() throws {
    let graph = Relationships(version: "7", roots: [FileRoot("tmp", at: "/tmp")]).named("links")
    let definition = DatabaseDefinition {
      Page.self
      graph
    }
    try ObjectFixture.with(database, definition) { database in
      try database.write { tx in
        try Page(id: "a", links: ["b", "c", "nowhere"]).persist(in: tx)
        try Page(id: "b", links: ["c"]).persist(in: tx)
        try Page(id: "c").persist(in: tx)
        try Page(id: "d \"quoted\"", links: ["a"]).persist(in: tx)
        try tx[graph].add(
          RelationshipEdge("picture", to: .file(root: "tmp", path: "c.png"), .deleteDestinationIfSourceDeleted),
          from: Page.rowKey("c"))
      }
    }
  }

  private func lines(_ arguments: String...) throws -> [String] {
    try Tool.good(["edges", database] + arguments).split(separator: "\n").map(String.init)
  }

  @Test func `edges are listed with their ends, their rules and whether they are declared or manual`() throws {
    let lines = try lines()
    #expect(lines.count == 5)
    #expect(lines[0] == "pages/all/\"a\"\tlink\tpages/all/\"b\"\tnotifyIfDestinationDeleted\tdeclared")
    #expect(lines.contains("pages/all/\"c\"\tpicture\ttmp:c.png\tdeleteDestinationIfSourceDeleted\tmanual"))
    #expect(try self.lines("--limit", "2").count == 2)
  }

  @Test func `options for name, source, destination and file filter the listed edges`() throws {
    #expect(try lines("--to", "pages/all/c").count == 2)
    #expect(try lines("--from", "pages/all/\"a\"", "--name", "link", "--count") == ["2"])
    #expect(try lines("--to-file", "tmp:c.png").count == 1)
    #expect(try lines("--name", "nothing").isEmpty)
    let rows = try Tool.objects(["edges", database, "--from", "pages/all/b", "--json"])
    #expect(rows.count == 1)
    #expect((rows.first?["destination"] as? [String: Any])?["key"] as? String == "\"c\"")
    #expect(rows.first?["manual"] as? Bool == false)
  }

  @Test func `--dangling lists the edges whose destination does not exist`() throws {
    #expect(try lines("--dangling").map { $0.contains("nowhere") } == [true])
  }

  @Test func `--dot prints the edges around a row as a graph, up to a depth`() throws {
    let drawing = try lines("--from", "pages/all/a", "--dot", "--depth", "1")
    #expect(drawing.first == "digraph edges {" && drawing.last == "}")
    #expect(drawing.contains("  \"pages/all/\\\"a\\\"\" [style=bold];"))
    #expect(drawing.filter { $0.contains("->") }.count == 4)
    #expect(try lines("--from", "pages/all/a", "--dot", "--depth", "0").count == 3)
  }

  @Test func `invalid options, an unknown domain and a missing database each have an exit status`() throws {
    #expect(try Tool.run(["edges", database, "--from", "nowhere/1"]).status == 2)
    #expect(try Tool.run(["edges", database, "--domain", "others"]).status == 1)
    #expect(try Tool.run(["edges", database, "--dot"]).status == 2)
    #expect(try Tool.run(["edges", directory.path + "/none"]).status == 3)
  }
}
