import EngineTestSupport
import Testing
import Varve

@testable import RelationshipFixtures
@_spi(Extensions) @testable import VarveRelationships

/// Tests of ends that are notified.
struct NotificationTests {
  @Test func `the remaining end is notified with the edge and the reason, and the object it returns is written`()
    throws
  {
    let text = """
      write
      set a1 x>b1=1+2
      set b1
      set a2 y>b2=1+2
      set b2
      ----
      a1 x>b1
      a2 y>b2
      b1
      b2

      write
      remove a1
      remove b2
      ----
      a2 (y to b2)
      b1 (x from a1)
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `an end whose notification returns nil is not written`() throws {
    let graph = try GraphCase()
    let text = """
      write
      set a1 stubborn x>b1=2
      set b1
      ----
      a1 x>b1
      b1

      write
      remove b1
      ----
      a1 ?x>b1
      """
    #expect(TextCase.run(text) { graph.lines(of: $0) } == TextCase.normalized(text))
    // The last commit must have changed one row.
    let events = try graph.database.feed()
    guard case .changes(let last)? = events.last else {
      Issue.record("there is no change set")
      return
    }
    #expect(last.changedCollections == ["b"])
  }

  @Test func `an end that one edge both notifies and deletes is deleted, whatever its notification returns`() throws {
    let text = """
      write
      set a1 x>b1=1+8
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

  @Test func `the edges of an object that a notification returns replace the row's edges, and rules apply`() throws {
    // The end drops its edge to the removed row, and no edge that it still needs.
    let text = """
      write
      set a1 x>b1=2+8 y>c1=8
      set b1
      set c1
      ----
      a1 x>b1 y>c1
      b1
      c1

      write
      remove b1
      ----
      a1 y>c1 (x to b1)
      c1

      write
      set b1
      ----
      a1 y>c1 (x to b1)
      b1
      c1
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `an end is notified of each removed edge, even if others keep it or a row only stops declaring one`()
    throws
  {
    let text = """
      write
      set a1 x>d1=1+32
      set a2 x>d1=1+32
      set a3 x>d1=1+32
      set d1
      ----
      a1 x>d1
      a2 x>d1
      a3 x>d1
      d1

      write
      set a1
      remove a2
      ----
      a1
      a3 x>d1
      d1 (x from a1, x from a2)
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `the object that a notification returns is written to the notified row, which keeps its metadata`()
    throws
  {
    let graph = try GraphCase()
    try graph.database.write { tx in
      try tx.set(Thing(links: [Thing.Link("x>b1=1")]), key: "a1", in: "a", metadata: "of the source")
      try tx.set(Thing(), key: "b1", in: "b", metadata: "of the destination")
    }
    try graph.database.write { tx in try tx.remove(Thing.row("a1")) }
    #expect(try graph.content() == ["b1 (x from a1)"])
    #expect(try graph.database.read { tx in try tx.metadata(String.self, key: "b1", in: "b") } == "of the destination")
  }

  @Test func `a notification that returns an object with another key is refused, and nothing is committed`() throws {
    struct Restless: Persistable, RelationshipNode {
      static let collection = "a"
      var id: String
      func relationshipEdges() throws -> [RelationshipEdge] {
        [try RelationshipEdge("x", to: .row(RowKey("b1", in: "b")), .notifyIfDestinationDeleted)]
      }
      func edgeRemoved(_ edge: RelationshipEdge, _ reason: EdgeRemoval) -> Restless? { Restless(id: "another") }
    }
    let graph = Relationships().named("graph")
    let database = try Database.inMemory {
      Restless.self
      CollectionDefinition("b", Thing.self, key: String.self)
      graph
    }
    try database.write { tx in
      try Restless(id: "a1").persist(in: tx)
      try tx.set(Thing(), key: "b1", in: "b")
    }
    #expect {
      try database.write { tx in try tx.remove(Thing.row("b1")) }
    } throws: { ($0 as? DatabaseError)?.code == .invalidArgument }
    #expect(try database.read { tx in try tx.contains(Thing.row("b1")) })
  }

  @Test func `instances of classes are notified like values`() throws {
    final class Counter: Codable, Sendable, RelationshipNode {
      let lost: Int
      init(lost: Int) { self.lost = lost }
      func relationshipEdges() throws -> [RelationshipEdge] { [] }
      func edgeRemoved(_ edge: RelationshipEdge, _ reason: EdgeRemoval) -> Self? { Self(copying: lost + 1) }
      init(copying lost: Int) { self.lost = lost }
    }
    let graph = Relationships().named("graph")
    let database = try Database.inMemory {
      CollectionDefinition("a", Thing.self, key: String.self)
      CollectionDefinition("b", Counter.self, key: String.self)
      graph
    }
    try database.write { tx in
      try tx.set(Counter(lost: 0), key: "b1", in: "b")
      for key in ["a1", "a2"] { try tx.set(Thing(links: [Thing.Link("x>b1=1")]), key: key, in: "a") }
    }
    try database.write { tx in
      for key in ["a1", "a2"] { try tx.remove(Thing.row(key)) }
    }
    #expect(try database.read { tx in try tx.object(Counter.self, key: "b1", in: "b")?.lost } == 2)
  }

  @Test func `removing only an edge applies no rule, unless it is removed as if one of its ends were deleted`()
    throws
  {
    let text = """
      write
      set a1
      set b1
      add a1 x>b1=1+2+8
      ----
      a1 +x>b1
      b1

      write
      drop a1 x>b1
      ----
      a1
      b1

      write
      add a1 x>b1=1+2
      ----
      a1 +x>b1
      b1

      write
      drop a1 x>b1 source
      ----
      a1
      b1 (x from a1)

      write
      add a1 x>b1=1+2
      ----
      a1 +x>b1
      b1 (x from a1)

      write
      drop a1 x>b1 destination
      ----
      a1 (x to b1)
      b1 (x from a1)
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `for several removed edges, each notification of a row gets the result of the one before`() throws {
    let graph = try GraphCase()
    let text = """
      write
      set a1 x>b1=2 y>b1=2 x>c1=2
      set b1
      set c1
      ----
      a1 x>b1 x>c1 y>b1
      b1
      c1

      write
      remove b1
      remove c1
      ----
      a1 (x to b1, x to c1, y to b1)
      """
    #expect(TextCase.run(text) { graph.lines(of: $0) } == TextCase.normalized(text))
  }

  @Test func `an end that mutates itself and returns nil changes neither the stored row nor cached objects`() throws {
    final class Shared: Codable, RelationshipNode, @unchecked Sendable {
      // Unchecked: one thread uses it.
      var name: String
      init(_ name: String) { self.name = name }
      func relationshipEdges() throws -> [RelationshipEdge] { [] }
      func edgeRemoved(_ edge: RelationshipEdge, _ reason: EdgeRemoval) -> Self? {
        name = "changed"
        return nil
      }
    }
    let graph = Relationships().named("graph")
    let database = try Database.inMemory {
      CollectionDefinition("a", Thing.self, key: String.self)
      CollectionDefinition("b", Shared.self, key: String.self)
      graph
    }
    let connection = database.connection()
    try database.write { tx in
      try tx.set(Shared("as it was"), key: "b1", in: "b")
      try tx.set(Thing(links: [Thing.Link("x>b1=1")]), key: "a1", in: "a")
    }
    #expect(try connection.read { tx in try tx.object(Shared.self, key: "b1", in: "b")?.name } == "as it was")
    try database.write { tx in try tx.remove(Thing.row("a1")) }
    #expect(try connection.read { tx in try tx.object(Shared.self, key: "b1", in: "b")?.name } == "as it was")
    #expect(try database.read { tx in try tx.object(Shared.self, key: "b1", in: "b")?.name } == "as it was")
  }

  @Test func `notifying a row requires its type to be defined, and deleting it by a rule does not`() throws {
    let path = try TemporaryDirectory()
    let graph = Relationships().named("graph")
    let first = try Database.open(at: path.path + "/db", definition: GraphCase.definition(graph))
    try first.write { tx in
      try tx.set(Thing(links: [Thing.Link("x>b1=1"), Thing.Link("x>b2=8")]), key: "a1", in: "a")
      for key in ["b1", "b2"] { try tx.set(Thing(), key: key, in: "b") }
    }
    try first.close()
    let second = try Database.open(at: path.path + "/db") { graph }
    #expect {
      try second.write { tx in try tx.remove(Thing.row("a1")) }
    } throws: { error in
      (error as? DatabaseError)?.code == .typeNotDefined && (error as? DatabaseError)?.collection == "b"
        && "\(error)".contains("\"x\"")
    }
    #expect(try second.read { tx in try tx.contains(Thing.row("a1")) })
    try second.write { tx in
      try tx.remove(Thing.row("b1"))
      try tx.remove(Thing.row("a1"))
    }
    #expect(try second.read { tx in try tx.count() } == 0)
    #expect(try second.read { tx in try tx[graph].danglingEdges().count } == 0)
    try second.close()
  }
}
