import EngineTestSupport
import Testing
import Varve

@testable import RelationshipFixtures
@_spi(Extensions) @testable import VarveRelationships

/// Tests of edges that rows declare, and of edges without a destination.
struct DeclaredEdgeTests {
  @Test func `setting a row replaces its declared edges, and changes of metadata and touches leave them`() throws {
    let graph = try GraphCase()
    try graph.database.write { tx in
      try tx.set(Thing(links: [Thing.Link("x>b1")]), key: "a1", in: "a")
      try tx.set(Thing(), key: "b1", in: "b")
    }
    try graph.database.write { tx in
      try tx.replaceMetadata("new", key: "a1", in: "a")
      try tx.touchRow(key: "a1", in: "a")
    }
    #expect(try graph.content() == ["a1 x>b1", "b1"])
    try graph.database.write { tx in
      _ = try tx.replaceObject(Thing(links: [Thing.Link("y>b1")]), key: "a1", in: "a")
    }
    #expect(try graph.content() == ["a1 y>b1", "b1"])
    #expect(try graph.database.read { tx in try tx.metadata(String.self, key: "a1", in: "a") } == "new")
  }

  @Test func `an edge that its row no longer declares applies the rules for a deleted source`() throws {
    let text = """
      write
      set a1 owns>b1=8 tells>b2=1
      set b1
      set b2
      ----
      a1 owns>b1 tells>b2
      b1
      b2

      write
      set a1
      ----
      a1
      b2 (tells from a1)
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `other rules update an existing edge, and another name is a new edge that keeps its destination`()
    throws
  {
    let text = """
      write
      set a1 x>b1=8
      set b1
      set a2 x>b2=32
      set b2
      ----
      a1 x>b1
      a2 x>b2
      b1
      b2

      write
      set a1 x>b1
      set a2 y>b2=32
      ----
      a1 x>b1
      a2 y>b2
      b1
      b2
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `of two edges between the same rows, the one that remains keeps the destination`() throws {
    let text = """
      write
      set a1 x>d1=32 y>d1=32
      set d1
      ----
      a1 x>d1 y>d1
      d1

      write
      set a1 y>d1=32
      ----
      a1 y>d1
      d1

      write
      set a1
      ----
      a1
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `an edge that a row declares twice is stored once, with the rules of the last declaration`() throws {
    let text = """
      write
      set a1 x>b1 x>b1=8
      set b1
      ----
      a1 x>b1
      b1

      write
      remove a1
      ----
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `setting a row with a type that declares no edges drops its edges and applies their rules`() throws {
    struct Plain: Codable, Sendable { var text = "" }
    let path = try TemporaryDirectory()
    let graph = Relationships().named("graph")
    let first = try Database.open(at: path.path + "/db", definition: GraphCase.definition(graph))
    try first.write { tx in
      try tx.set(Thing(links: [Thing.Link("x>b1=8")]), key: "a1", in: "a")
      try tx.set(Thing(links: [Thing.Link("x>b2=8")]), key: "a2", in: "a")
      for key in ["b1", "b2"] { try tx.set(Thing(), key: key, in: "b") }
    }
    try first.close()
    let second = try Database.open(at: path.path + "/db") {
      CollectionDefinition("a", Plain.self, key: String.self)
      CollectionDefinition("b", Thing.self, key: String.self)
      graph
    }
    try second.write { tx in try tx.set(Plain(), key: "a1", in: "a") }
    #expect(try second.read { tx in try tx[graph].edges().map { GraphCase.text($0) } } == ["x>b2"])
    #expect(try second.read { tx in try tx.count(in: "b") } == 1)
    try second.close()
  }

  @Test func `a rebuild deletes no row, keeps added edges, and lists dangling edges`() throws {
    let path = try TemporaryDirectory()
    let graph = Relationships().named("graph")
    let first = try Database.open(at: path.path + "/db", definition: GraphCase.definition(graph))
    let text = """
      write
      set a1 needs>b1=4!error needs>b2=4
      set b1
      set b2
      add a1 z>b2=4
      ----
      a1 needs>b1 needs>b2 +z>b2
      b1
      b2
      """
    #expect(TextCase.run(text) { GraphCase(first, graph).lines(of: $0) } == TextCase.normalized(text))
    try first.close()
    // A program without the domain removes rows.
    let without = try Database.open(at: path.path + "/db") {
      CollectionDefinition("b", Thing.self, key: String.self)
    }
    try without.write { tx in _ = try tx.remove(Thing.row("b1")) }
    try without.close()
    let other = Relationships(version: "2").named("graph")
    let second = try Database.open(at: path.path + "/db", definition: GraphCase.definition(other))
    try second.readyHere(other)
    let after = """
      look
      ----
      a1 needs>b2 +z>b2 ?needs>b1
      b2
      """
    #expect(TextCase.run(after) { GraphCase(second, other).lines(of: $0) } == TextCase.normalized(after))
    try second.close()
  }

  @Test func `a build restores a lost entry of an added edge from the entry at its other end`() throws {
    let path = try TemporaryDirectory()
    let graph = Relationships().named("graph")
    let first = try Database.open(at: path.path + "/db", definition: GraphCase.definition(graph))
    let text = """
      write
      set a1
      set b1
      add a1 x>b1=8
      add a1 y>b1@7
      add b1 z>a1=4
      ----
      a1 +x>b1 +y>b1
      b1 +z>a1
      """
    #expect(TextCase.run(text) { GraphCase(first, graph).lines(of: $0) } == TextCase.normalized(text))
    // Simulates damaged blocks of either family that were given up.
    try first.write { tx in
      let manual = try tx[graph].families.manual
      var keys: [[UInt8]] = []
      var cursor = try manual.to.cursor()
      while let (key, _) = try cursor.next() { keys.append(key) }
      try manual.to.delete(keys[0])
      for key in keys[1...] {
        let value = try EdgeValue(try #require(try manual.to.get(key)), bySource: false)
        try manual.from.delete(RelationshipsTransaction.fromKey(key, value.order))
      }
    }
    try first.close()
    let other = Relationships(version: "2").named("graph")
    let second = try Database.open(at: path.path + "/db", definition: GraphCase.definition(other))
    try second.readyHere(other)
    let mended = GraphCase(second, other)
    #expect(try mended.content() == ["a1 +x>b1 +y>b1", "b1 +z>a1"])
    let counts = try second.read { tx in
      try ["a1", "b1"].map { try tx[other].edges(EdgeQuery(to: Thing.row($0))).count }
    }
    #expect(counts == [1, 2])
    let after = """
      write
      remove a1
      ----
      """
    #expect(TextCase.run(after) { mended.lines(of: $0) } == TextCase.normalized(after))
    #expect(try second.read { tx in try tx[other].count() } == 0)
    try second.close()
  }

  @Test func `added edges survive a rebuild and the renaming of their collection`() throws {
    let path = try TemporaryDirectory()
    let graph = Relationships().named("graph")
    func open(feed: Bool, with graph: ExtensionHandle<Relationships>?) throws -> Database {
      var options = DatabaseOptions()
      options.feed = feed ? FeedOptions() : nil
      return try Database.open(at: path.path + "/db", options: options) {
        CollectionDefinition("b", Thing.self, key: String.self)
        if let graph { graph }
      }
    }
    let first = try open(feed: false, with: graph)
    try first.write { tx in
      try tx.set(Thing(), key: "b1", in: "b")
      try tx.set(Thing(links: [Thing.Link("x>b1")]), key: "a1", in: "a")
      try tx[graph].add(Thing.Link("y>b1=4").edge, from: Thing.row("a1"))
    }
    func rename() throws { try first.renameCollection("a", to: "c") }
    try rename()
    try first.readyHere(graph)
    func edges(_ database: Database) throws -> [String] {
      try database.read { tx in
        try tx[graph].edges().map { "\($0.source?.collection ?? "") \(GraphCase.text($0))" }
      }
    }
    // The type of the collection is not defined, so the edges that its rows declare cannot be collected again.
    #expect(try edges(first) == ["c +y>b1"])
    try first.close()
    // Without a feed, there is no record of what was missed.
    let without = try open(feed: false, with: nil)
    try without.write { tx in try tx.set(Thing(), key: "b2", in: "b") }
    try without.close()
    let second = try open(feed: false, with: graph)
    try second.readyHere(graph)
    #expect(try edges(second) == ["c +y>b1"])
    try second.write { tx in try tx.remove(Thing.row("b1")) }
    #expect(try second.read { tx in try tx.count(in: "c") } == 0)
    try second.close()
  }

  @Test func `a row set as bytes keeps its former edges until a program that defines its type opens the database`()
    throws
  {
    let path = try TemporaryDirectory()
    let graph = Relationships().named("graph")
    func open(withType: Bool) throws -> Database {
      try Database.open(at: path.path + "/db") {
        if withType { CollectionDefinition("a", Thing.self, key: String.self, coder: .json) }
        CollectionDefinition("b", Thing.self, key: String.self)
        graph
      }
    }
    func edges(_ database: Database) throws -> [String] {
      try database.read { tx in try tx[graph].edges().map { GraphCase.text($0) } }
    }
    let first = try open(withType: true)
    try first.write { tx in
      for key in ["b1", "b2"] { try tx.set(Thing(), key: key, in: "b") }
      try tx.set(Thing(links: [Thing.Link("x>b1=8")]), key: "a1", in: "a")
      try tx.set(Thing(links: [Thing.Link("x>b2=8")]), key: "a2", in: "a")
    }
    let other = try first.read { tx in try tx.objectBytes(key: "a2", in: "a") } ?? []
    try first.close()
    let without = try open(withType: false)
    try without.write { tx in try tx.setBytes(other, key: "a1", in: "a") }
    #expect(try edges(without) == ["x>b1", "x>b2"])
    #expect(try without.read { tx in try tx[graph].staleCollections().count } == 1)
    try without.close()
    let second = try open(withType: true)
    StaleCollections(second, graph) { false }.run()
    // The open database may have done the work by itself: readers see that once a later commit was acknowledged.
    try second.write { tx in try tx.set(Thing(), key: "b1", in: "b") }
    #expect(try edges(second) == ["x>b2", "x>b2"])
    #expect(try second.read { tx in try tx[graph].staleCollections().count } == 0)
    #expect(try second.read { tx in try tx.count(in: "b") } == 2)
    try second.close()
  }

  @Test func `the source of a declared edge is the row that declares it, whatever the edge says`() throws {
    struct Liar: Codable, Sendable, RelationshipNode {
      func relationshipEdges() throws -> [RelationshipEdge] {
        var edge = try RelationshipEdge("x", to: .row(RowKey("b1", in: "b")))
        edge.source = try RowKey("c1", in: "c")
        edge.isManual = true
        return [edge]
      }
    }
    let graph = Relationships().named("graph")
    let database = try Database.inMemory {
      CollectionDefinition("a", Liar.self, key: String.self)
      CollectionDefinition("b", Thing.self, key: String.self)
      graph
    }
    try database.write { tx in
      try tx.set(Liar(), key: "a1", in: "a")
      try tx.set(Thing(), key: "b1", in: "b")
    }
    let edges = try database.read { tx in try tx[graph].edges() }
    #expect(edges.map(\.source) == [try RowKey("a1", in: "a")])
    #expect(edges.map(\.isManual) == [false])
  }

  @Test func `a row may be set before the destinations of its edges, even in an earlier transaction`() throws {
    let text = """
      write
      set a1 x>b1 y>c1
      set b1
      ----
      a1 x>b1 ?y>c1
      b1

      write
      set c1
      ----
      a1 x>b1 y>c1
      b1
      c1
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `removing a dangling edge applies no rule to a destination that the same transaction inserts`() throws {
    for lines in ["remove a1\nset b1", "set b1\nremove a1", "set a1\nset b1", "set b1\nset a1"] {
      for rule in [8, 32, 1] {
        let graph = try GraphCase()
        let isKept = lines.contains("set a1")
        let text = """
          write
          set a1 x>b1=\(rule)
          ----
          a1 ?x>b1

          write
          \(lines)
          ----
          \(isKept ? "a1\n" : "")b1
          """
        #expect(TextCase.run(text) { graph.lines(of: $0) } == TextCase.normalized(text))
      }
    }
  }

  @Test func `a dangling edge removed by a rule does not keep a destination that the same transaction inserts`()
    throws
  {
    for rule in ["", "=8", "=32"] {
      let graph = try GraphCase()
      let text = """
        write
        set c9
        set a1 x>b2\(rule) p>c9=4
        ----
        a1 p>c9 ?x>b2
        c9

        write
        set b2
        set a3 y>b2=32 p>c9=4
        remove c9
        ----
        """
      #expect(TextCase.run(text) { graph.lines(of: $0) } == TextCase.normalized(text), "\(rule)")
    }
  }

  @Test func `a dangling edge is kept, refused, or deletes its source, as it declares`() throws {
    let text = """
      write
      set a1 x>b1=4
      set a2 x>b1=16!source
      ----
      a1 ?x>b1

      write
      set a3 x>b1!error
      ----
      danglingEdge: "b1"

      write
      set b1
      set a3 x>b1!error
      set a4 x>b1!source
      ----
      a1 x>b1
      a3 x>b1
      a4 x>b1
      b1

      write
      remove b1
      ----
      danglingEdge: "b1"

      write
      remove b1
      set a3
      ----
      a3
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `both ends of an added edge must exist when rules are applied`() throws {
    let text = """
      write
      set a1
      set b1
      ----
      a1
      b1

      write
      add a2 x>b1=8
      ----
      danglingEdge: "a2"

      write
      add a1 x>b2
      ----
      danglingEdge: "b2"

      write
      add a1 x>b2
      set b2
      ----
      a1 +x>b2
      b1
      b2
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `an added edge between missing rows is refused, unless the transaction removes it again`() throws {
    let text = """
      write
      add a1 x>b1
      ----
      danglingEdge: "b1"

      write
      add a1 x>b1
      drop a1 x>b1 source
      ----
      """
    let found = try GraphCase.run(text)
    #expect(found.replacing("\"a1\"", with: "\"b1\"") == TextCase.normalized(text))
  }

  @Test func `a dangling edge does not affect the other edges of its row`() throws {
    let text = """
      write
      set a1 x>b1=8 x>b2=8 x>b3=8
      set b1
      set b3
      ----
      a1 x>b1 x>b3 ?x>b2
      b1
      b3

      write
      remove a1
      ----
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `an edge from a row to itself does not keep the row, and applies no rule`() throws {
    let text = """
      write
      set a1 self>a1=8+2 owner>a2=8
      set a2 self>a2=32
      set c1 owns>a2=32
      ----
      a1 owner>a2 self>a1
      a2 self>a2
      c1 owns>a2

      write
      set a1
      ----
      a1
      c1 ?owns>a2
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
    let counted = """
      write
      set c1 owns>a2=32
      set a2 self>a2=32
      ----
      a2 self>a2
      c1 owns>a2

      write
      remove c1
      ----
      """
    #expect(try GraphCase.run(counted) == TextCase.normalized(counted))
  }
}
