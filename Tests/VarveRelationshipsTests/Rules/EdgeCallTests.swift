import EngineTestSupport
import Testing
import Varve

@testable import ObjectFixtures
@testable import RelationshipFixtures
@_spi(Extensions) @testable import VarveRelationships

/// Tests of edges that are added by calls, and of finding edges.
struct EdgeCallTests {
  @Test func `an edge added twice is one edge with the last rules, and distinct from a declared edge of its name`()
    throws
  {
    let text = """
      write
      set a1 x>b1
      set b1
      add a1 x>b1=8
      add a1 x>b1
      ----
      a1 x>b1 +x>b1
      b1

      write
      drop a1 x>b1
      ----
      a1 x>b1
      b1
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `removing an edge applies its stored rules, and removing a missing edge has no effect`() throws {
    let graph = try GraphCase()
    let row = try Thing.row("a1")
    let bare = try RelationshipEdge("x", to: .row(Thing.row("b1")))
    try graph.database.write { tx in
      try tx.set(Thing(links: [Thing.Link("y>b1")]), key: "a1", in: "a")
      try tx.set(Thing(), key: "b1", in: "b")
      try tx[graph.graph].add(Thing.Link("x>b1=8").edge, from: row)
    }
    try graph.database.write { tx in
      let edges = try tx[graph.graph]
      #expect(try edges.remove(EdgeQuery("nothing", from: row)) == 0)
      // An edge without its beginning, and an edge that a row declares, cannot be removed.
      #expect(throws: DatabaseError.self) { try edges.remove(bare) }
      let declared = try #require(try edges.edges(EdgeQuery("y")).first)
      #expect(throws: DatabaseError.self) { try edges.remove(declared) }
      var found = bare
      found.source = row
      found.isManual = true
      let isGone = try edges.remove(found, as: .asIfSourceDeleted)
      #expect(isGone)
      let isThere = try edges.remove(found, as: .asIfSourceDeleted)
      #expect(!isThere)
    }
    #expect(try graph.content() == ["a1 ?y>b1"])
  }

  @Test func `a cursor returns the edges as they were when it was made, whatever changes meanwhile`() throws {
    let graph = try GraphCase()
    try graph.database.write { tx in
      try tx.set(Thing(), key: "d1", in: "d")
      for number in 1...300 { try tx.set(Thing(links: [Thing.Link("of>d1")]), key: "a\(number)", in: "a") }
    }
    try graph.database.write { tx in
      var cursor = try tx[graph.graph].cursor(EdgeQuery(to: Thing.row("d1")))
      var count = 0
      while let edge = try cursor.next() {
        count += 1
        let source = try #require(edge.source)
        try tx.set(Thing(links: [Thing.Link("of>d2"), Thing.Link("more>d1")]), key: Thing.text(source), in: "a")
      }
      #expect(count == 300)
      #expect(try tx[graph.graph].count(EdgeQuery("of", to: Thing.row("d1"))) == 0)
      #expect(try tx[graph.graph].count(EdgeQuery("more", to: Thing.row("d1"))) == 300)
    }
  }

  @Test func `cursors over edges may be nested`() throws {
    let graph = try GraphCase()
    try graph.database.write { tx in
      for key in ["a1", "a2"] {
        try tx.set(Thing(links: [Thing.Link("x>b1"), Thing.Link("x>b2")]), key: key, in: "a")
      }
      for key in ["b1", "b2"] { try tx.set(Thing(), key: key, in: "b") }
    }
    try graph.database.read { tx in
      let edges = try tx[graph.graph]
      var visits = 0
      var outer = try edges.cursor(EdgeQuery(from: Thing.row("a1")))
      while let edge = try outer.next() {
        var inner = try edges.cursor(EdgeQuery(to: edge.destination))
        while try inner.next() != nil { visits += 1 }
      }
      #expect(visits == 4)
    }
  }

  @Test func `a query may specify any combination of name, source and destination`() throws {
    let graph = try GraphCase(Relationships(roots: [FileRoot("tmp", at: "/tmp")]))
    try graph.database.write { tx in
      try tx.set(Thing(links: [Thing.Link("x>b1"), Thing.Link("y>b1"), Thing.Link("y>tmp:f")]), key: "a1", in: "a")
      try tx.set(Thing(links: [Thing.Link("x>b1"), Thing.Link("x>tmp:f")]), key: "a2", in: "a")
      try tx.set(Thing(), key: "b1", in: "b")
    }
    let (a1, b1) = (try Thing.row("a1"), EdgeEnd.row(try Thing.row("b1")))
    let file = EdgeEnd.file(root: "tmp", path: "f")
    let cases: [(EdgeQuery, Int)] = [
      (EdgeQuery(), 5), (EdgeQuery("x"), 3), (EdgeQuery(from: a1), 3), (EdgeQuery(to: b1), 3),
      (EdgeQuery(to: file), 2), (EdgeQuery("x", from: a1), 1), (EdgeQuery("y", to: b1), 1),
      (EdgeQuery(from: a1, to: b1), 2), (EdgeQuery("y", from: a1, to: file), 1),
      (EdgeQuery("x", from: a1, to: file), 0),
      (EdgeQuery("z"), 0), (EdgeQuery(from: try RowKey("a1", in: "nowhere")), 0),
    ]
    try graph.database.read { tx in
      for (query, count) in cases {
        let edges = try tx[graph.graph]
        let found = (try edges.edges(query).count, try edges.count(query))
        #expect(found == (count, count), "\(query)")
      }
    }
  }

  @Test(arguments: ["clear a", "clear all"])
  func `clearing a collection, or all of them, applies the rules of the removed rows`(
    line: String
  ) throws {
    let text = """
      write
      set a1 owns>b1=8 tells>c1=1
      set a2 keeps>b2
      set b1
      set b2
      set c1
      ----
      a1 owns>b1 tells>c1
      a2 keeps>b2
      b1
      b2
      c1

      write
      clear a
      ----
      b2
      c1 (tells from a1)
      """
    if line == "clear a" {
      #expect(try GraphCase.run(text) == TextCase.normalized(text))
    } else {
      let all = text.replacing("clear a\n----\nb2\nc1 (tells from a1)", with: "clear all\n----")
      #expect(try GraphCase.run(all) == TextCase.normalized(all))
    }
  }

  @Test func `removing a range or dropping a collection applies rules; rows without edges are removed in one step`()
    throws
  {
    let graph = try GraphCase()
    let database = graph.database
    func fill() throws {
      try database.write { tx in
        for number in 1...9 {
          try tx.set(Thing(links: [Thing.Link("owns>b\(number)=8")]), key: "a\(number)", in: "a")
          try tx.set(Thing(), key: "b\(number)", in: "b")
          try tx.set(Thing(), key: "c\(number)", in: "c")
        }
      }
    }
    try fill()
    try database.write { tx in _ = try tx.remove(in: "a", "a3"..."a5") }
    #expect(try database.read { tx in try tx.count(in: "b") } == 6)
    // No edge leads to these rows or begins there, so the removal takes one step.
    try database.write { tx in
      #expect(try tx[graph.graph].removesAll(in: "c"))
      #expect(try !tx[graph.graph].removesAll(in: "b"))
      try tx.removeAll(in: "c")
    }
    func drop() throws -> Bool { try database.dropCollection("a") }
    #expect(try drop())
    #expect(try database.read { tx in try tx.count() } == 0)
    #expect(try database.read { tx in try tx[graph.graph].count() } == 0)
  }

  @Test func `edges are sorted by name, then by their order, then by the other end, rows before files`() throws {
    let graph = try GraphCase(Relationships(roots: [FileRoot("tmp", at: "/tmp")]))
    try graph.database.write { tx in
      let links = ["y>b2", "x>b3@2", "x>b1@-1", "x>b2@2", "x>tmp:a", "x>b1x", "x>b9@300", "x>b8@-70000"]
      try tx.set(Thing(links: links.map { Thing.Link($0[...]) }), key: "a1", in: "a")
      for key in ["b1", "b1x", "b2", "b3", "b8", "b9"] { try tx.set(Thing(), key: key, in: "b") }
    }
    #expect(
      try graph.content()[0]
        == "a1 x>b8 x>b1 x>b1x x>tmp:a x>b2 x>b3 x>b9 y>b2")
  }

  @Test func `canonically equivalent edge names are equal, and an empty, overlong or NUL-containing name is refused`()
    throws
  {
    #expect(EdgeName("caf\u{e9}") == EdgeName("cafe\u{301}"))
    let end = EdgeEnd.row(try Thing.row("b1"))
    for name in ["", String(repeating: "n", count: 256), "a\0b"] {
      #expect(throws: DatabaseError.self) { try RelationshipEdge(EdgeName(name), to: end) }
    }
    _ = try RelationshipEdge(EdgeName(String(repeating: "n", count: 255)), to: end)
  }

  @Test func `an edge whose ends together exceed 60 KiB is refused`() throws {
    let graph = try GraphCase()
    let key = String(repeating: "k", count: 40 << 10)
    #expect {
      try graph.database.write { tx in
        try tx[graph.graph].add(RelationshipEdge("x", to: .row(RowKey(key, in: "b"))), from: RowKey(key, in: "a"))
      }
    } throws: { ($0 as? DatabaseError)?.code == .keyTooLong }
  }

  @Test func `an edge has an attribute of up to 64 KiB, which is not part of its identity`() throws {
    struct Note: Codable, Equatable, Sendable {
      var key = "G"
      var shift = 2
    }
    let graph = try GraphCase()
    let a1 = try Thing.row("a1")
    let edge = try RelationshipEdge("x", to: .row(Thing.row("b1")), .deleteDestinationIfSourceDeleted)
    try graph.database.write { tx in
      try tx.set(Thing(), key: "a1", in: "a")
      try tx.set(Thing(), key: "b1", in: "b")
      try tx[graph.graph].add(edge.with(Note()), from: a1)
    }
    for query in [EdgeQuery(from: a1), EdgeQuery(to: edge.destination)] {
      let found = try graph.database.read { tx in try tx[graph.graph].edges(query) }
      #expect(found.count == 1)
      #expect(try found.first?.attribute(Note.self) == Note())
      #expect(throws: DatabaseError.self) { try found.first?.attribute(Int.self) }
    }
    try graph.database.write { tx in try tx[graph.graph].add(edge, from: a1) }
    #expect(try graph.database.read { tx in try tx[graph.graph].edges() }.map { try $0.attribute(Note.self) } == [nil])
    #expect(throws: DatabaseError.self) { try edge.with(String(repeating: "x", count: 70_000)) }
  }

  @Test func `a row may have edges of several domains, which are counted separately`() throws {
    struct Song: Persistable, RelationshipNode {
      static let collection = "songs"
      var id: Int
      func relationshipEdges() throws -> [RelationshipEdge] {
        let album = EdgeEnd.row(try RowKey("d1", in: "d"))
        return [
          try RelationshipEdge("album", to: album, .deleteDestinationIfAllSourcesDeleted),
          try RelationshipEdge("album", to: album).inDomain("lists"),
        ]
      }
    }
    let graph = Relationships().named("graph")
    let lists = Relationships(domain: "lists").named("lists")
    let database = try Database.inMemory {
      Song.self
      CollectionDefinition("d", Thing.self, key: String.self)
      graph
      lists
    }
    try database.write { tx in
      try Song(id: 1).persist(in: tx)
      try tx.set(Thing(), key: "d1", in: "d")
      #expect(try tx[graph].count() == 1 && tx[lists].count() == 1)
      #expect(throws: DatabaseError.self) {
        try tx[lists].add(RelationshipEdge("x", to: Song.self, 1), from: RowKey("d1", in: "d"))
      }
    }
    // The edge of the other domain keeps no row here, and is removed with the row.
    try database.write { tx in _ = try Song.delete(1, in: tx) }
    #expect(try database.read { tx in try tx.count() } == 0)
    #expect(try database.read { tx in try tx[lists].danglingEdges().count + tx[lists].count() } == 0)
  }

  @Test func `a domain is registered once`() throws {
    for (domain, isRefused) in [(String?.none, true), ("lists", false)] {
      let error = errorCode {
        _ = try Database.inMemory {
          Relationships().named("graph")
          Relationships(domain: domain).named("other")
        }
      }
      #expect((error == .invalidDefinition) == isRefused)
    }
  }

  @Test func `rows at the ends of edges are returned in the order of the edges, declared or added`() throws {
    struct Number: Persistable {
      static let collection = "numbers"
      var id: Int
    }
    struct Person: Persistable, RelationshipNode {
      static let collection = "persons"
      var id: Int
      func relationshipEdges() throws -> [RelationshipEdge] {
        try [(3, 1), (1, 5)].map { try RelationshipEdge("number", to: Number.self, $0.0).ordered(Int64($0.1)) }
      }
    }
    let graph = Relationships().named("graph")
    let database = try Database.inMemory {
      Number.self
      Person.self
      graph
    }
    try database.write { tx in
      for id in 1...4 { try Number(id: id).persist(in: tx) }
      try Person(id: 1).persist(in: tx)
      for (id, order) in [(2, 3), (4, 9), (1, -1)] {
        try tx[graph].add(
          RelationshipEdge("number", to: Number.self, id).ordered(Int64(order)), from: Person.rowKey(1))
      }
    }
    let found = try database.read { tx in
      try tx[graph].ends("number", of: [Person.rowKey(1)], as: Number.self).map { $0.map(\.id) }
    }
    #expect(found == [[1, 3, 2, 1, 4]])
  }

  @Test func `rows that a hook removes during changeKey are removed, and their rules applied`() throws {
    struct Page: Persistable {
      static let collection = "pages"
      var id: String
    }
    let graph = Relationships().named("graph")
    var hooks = Hooks()
    hooks.didRemove = { tx, change in
      if change.collection == "pages" { try tx.remove(Thing.row("b1")) }
    }
    let removing = hooks.named("hooks")
    let database = try Database.inMemory {
      Page.self
      GraphCase.definition(graph)
      removing
    }
    try database.write { tx in
      try Page(id: "1").persist(in: tx)
      try tx.set(Thing(links: [Thing.Link("owns>c1=8")]), key: "b1", in: "b")
      try tx.set(Thing(), key: "c1", in: "c")
    }
    try database.write { tx in try tx[graph].changeKey(from: "1", to: Page(id: "2")) }
    #expect(try database.read { tx in try tx.count() } == 1)
    try database.close()
  }

  @Test func `calls after the end of the transaction throw`() throws {
    let graph = try GraphCase()
    let ended = try graph.database.write { tx in try tx[graph.graph] }
    #expect(throws: DatabaseError.self) { try ended.flush() }
    #expect(throws: DatabaseError.self) { try ended.edges() }
    #expect(throws: DatabaseError.self) { try ended.add(Thing.Link("x>b1").edge, from: Thing.row("a1")) }
  }

  @Test func `changeKey moves the edges of a row to its new key and applies no rule`() throws {
    struct Page: Persistable, RelationshipNode {
      static let collection = "pages"
      var id: String
      var next: String?
      func relationshipEdges() throws -> [RelationshipEdge] {
        guard let next else { return [] }
        return [
          try RelationshipEdge(
            "next", to: Page.self, next, [.deleteSourceIfDestinationDeleted, .notifyIfSourceDeleted])
        ]
      }
      func edgeRemoved(_ edge: RelationshipEdge, _ reason: EdgeRemoval) -> Page? { Page(id: id, next: "notified") }
    }
    let graph = Relationships().named("graph")
    let database = try Database.inMemory {
      Page.self
      graph
    }
    try database.write { tx in
      for page in [Page(id: "1", next: "2"), Page(id: "2", next: "3"), Page(id: "3")] { try page.persist(in: tx) }
      try tx[graph].add(
        RelationshipEdge("like", to: Page.self, "2", .deleteSourceIfDestinationDeleted), from: Page.rowKey("3"))
      try tx[graph].add(RelationshipEdge("like", to: Page.self, "3"), from: Page.rowKey("2"))
      try tx[graph].add(RelationshipEdge("self", to: Page.self, "2"), from: Page.rowKey("2"))
    }
    try database.write { tx in
      try tx[graph].changeKey(from: "2", to: Page(id: "two", next: "3"))
      #expect(throws: DatabaseError.self) { try tx[graph].changeKey(from: "2", to: Page(id: "zwei")) }
      #expect(throws: DatabaseError.self) { try tx[graph].changeKey(from: "1", to: Page(id: "3")) }
    }
    try database.read { tx in
      let edges = try tx[graph].edges().map { "\(try $0.source?.key(as: String.self) ?? "") \(GraphCase.text($0))" }
      #expect(edges.sorted() == ["3 +like>two", "two +like>3", "two +self>two", "two next>3"])
      #expect(try tx[graph].danglingEdges().map { GraphCase.text($0) } == ["next>2"])
      #expect(try Page.load("1", in: tx)?.next == "2")
      #expect(try Page.load("3", in: tx)?.next == nil)
    }
  }
}
