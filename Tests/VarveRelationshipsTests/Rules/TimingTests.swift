import EngineTestSupport
import Testing
import Varve

@testable import ObjectFixtures
@testable import RelationshipFixtures
@_spi(Extensions) @testable import VarveRelationships

/// Tests of the identity of edges, and of when rules are applied.
struct TimingTests {
  @Test func `rules are applied at commit or by flush, and edges of removed rows are hidden at once`() throws {
    let text = """
      write
      set a1 owns>b1=8
      set b1
      ----
      a1 owns>b1
      b1

      write
      remove a1
      show b1
      flush
      show b1
      ----
      b1: there
      b1: gone
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `the outcome is the same in whatever order rows and edges are changed`() throws {
    for order in [["remove a1", "remove a2"], ["remove a2", "remove a1"]] {
      let text = """
        write
        set a1 x>d1=32
        set a2 y>d1
        set d1
        ----
        a1 x>d1
        a2 y>d1
        d1

        write
        \(order[0])
        \(order[1])
        ----
        """
      #expect(try GraphCase.run(text) == TextCase.normalized(text))
    }
  }

  @Test func `the rules of a cycle of rows remove each row once, and terminate`() throws {
    let text = """
      write
      set a1 next>a2=8
      set a2 next>a3=8
      set a3 next>a1=8
      ----
      a1 next>a2
      a2 next>a3
      a3 next>a1

      write
      remove a2
      ----
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `a chain of 10,000 rows is removed without recursion and without exceeding the limit on rounds`() throws {
    let graph = Relationships().named("graph")
    let database = try Database.inMemory(definition: GraphCase.definition(graph))
    let count = 10_000
    try database.write { tx in
      for number in 0..<count {
        let link = Thing.Link(name: "next", destination: "a\(number + 1)", rules: 8)
        try tx.set(Thing(links: [link]), key: "a\(number)", in: "a")
      }
    }
    try database.write { tx in try tx.remove(Thing.row("a0")) }
    #expect(try database.read { tx in try tx.count(in: "a") } == 0)
    #expect(try database.read { tx in try tx[graph].count() } == 0)
    try database.close()
  }

  @Test func `new edges count before removed ones: a row that moves from one owner to another is kept`() throws {
    let text = """
      write
      set a1 owns>b1=32
      set a2
      set b1
      ----
      a1 owns>b1
      a2
      b1

      write
      remove a1
      set a2 owns>b1=32
      ----
      a2 owns>b1
      b1
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `removing a row removes its edges, and edges to it that other rows declare dangle`() throws {
    let text = """
      write
      set a1 x>b1
      set b1 y>c1
      set c1
      add a1 z>b1
      add b1 w>c1
      ----
      a1 x>b1 +z>b1
      b1 +w>c1 y>c1
      c1

      write
      remove b1
      ----
      a1 ?x>b1
      c1

      write
      set b1
      ----
      a1 x>b1
      b1
      c1
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `a row inserted in the transaction that removes another row keeps its own edges`() throws {
    let text = """
      write
      set a1 owns>b1=8
      set b1
      ----
      a1 owns>b1
      b1

      write
      remove a1
      set a2 owns>b2=8
      set b2
      ----
      a2 owns>b2
      b2
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `a row removed and set again in one transaction is an update: rules apply to the dropped edges`() throws {
    let text = """
      write
      set a1 owns>b1=8 owns>b2=8
      set b1
      set b2
      ----
      a1 owns>b1 owns>b2
      b1
      b2

      write
      remove a1
      set a1 owns>b1=8
      ----
      a1 owns>b1
      b1
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `an owned row is removed with its owner, even if it is set after the removal of the owner`() throws {
    let text = """
      write
      set a1 owns>b1=8
      set b1
      ----
      a1 owns>b1
      b1

      write
      remove a1
      set b1
      ----
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `a row inserted and removed in one transaction counts as removed: its edges apply their rules`() throws {
    let text = """
      write
      set b1
      ----
      b1

      write
      set a1 owns>b1=8
      remove a1
      ----
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `edges added and removed in one transaction apply no rule, unless a flush comes in between`() throws {
    let text = """
      write
      set b1
      set b2
      set c1
      ----
      b1
      b2
      c1

      write
      set a1 owns>b1=8
      set a1
      add c1 owns>b2=8
      drop c1 owns>b2 source
      ----
      a1
      b1
      b2
      c1

      write
      set a1 owns>b1=8
      add c1 owns>b2=8
      flush
      set a1
      drop c1 owns>b2 source
      ----
      a1
      c1
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `an edge removed and added again in one transaction counts as updated, and applies no rule`() throws {
    let text = """
      write
      set a1 owns>b1=8
      set b1
      add a1 also>b1=8
      ----
      a1 +also>b1 owns>b1
      b1

      write
      set a1
      set a1 owns>b1=32
      drop a1 also>b1 source
      add a1 also>b1
      ----
      a1 +also>b1 owns>b1
      b1
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `if both ends are deleted, neither is notified and nothing else is deleted`() throws {
    let text = """
      write
      set a1 x>b1=1+2
      set b1
      set c1
      ----
      a1 x>b1
      b1
      c1

      write
      remove a1
      remove b1
      ----
      c1
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `removing an owned row does not remove its owner`() throws {
    let text = """
      write
      set a1 owns>b1=8
      set b1
      ----
      a1 owns>b1
      b1

      write
      remove b1
      ----
      a1 ?owns>b1
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test
  func `immediate extensions receive each removal at once, others after all removals of a collection, in key order`()
    throws
  {
    let lines = Lines()
    func hearing(_ name: String, _ delivery: ExtensionConfiguration.Delivery) -> Scripted {
      var hearing = Scripted(delivery, events: .removals)
      hearing.did = { _, change in lines.add("\(name) \(try change.key.key(as: String.self))") }
      return hearing
    }
    let graph = Relationships().named("graph")
    let database = try Database.inMemory {
      GraphCase.definition(graph)
      hearing("immediate", .immediate).named("immediate")
      hearing("late", .afterCurrent).named("late")
    }
    let graphCase = GraphCase(database, graph)
    let text = """
      write
      set a1 owns>b3=8 owns>b1=8 owns>c2=8
      set b1 owns>c1=8
      set b3 owns>b2=8
      set b2
      set c1
      set c2
      ----
      a1 owns>b1 owns>b3 owns>c2
      b1 owns>c1
      b2
      b3 owns>b2
      c1
      c2

      write
      remove a1
      ----
      """
    #expect(TextCase.run(text) { graphCase.lines(of: $0) } == TextCase.normalized(text))
    #expect(
      lines.take() == [
        "immediate a1", "late a1",
        "immediate b1", "immediate b3", "late b1", "late b3", "immediate c2", "late c2",
        "immediate b2", "late b2", "immediate c1", "late c1",
      ])
    try database.close()
  }

  @Test func `rules are also applied to the changes that hooks make while rules are applied`() throws {
    /// An extension that sets a row for each that is removed from collection "b".
    struct Leaving: DatabaseExtension {
      static let kind = "test.leaving"
      var configuration: ExtensionConfiguration {
        var configuration = ExtensionConfiguration(version: "1")
        configuration.scope = .only(["b"])
        configuration.events = .removals
        configuration.build = .none
        return configuration
      }
      func makeTransaction(_ context: ExtensionContext<Self>) throws -> LeavingTransaction {
        LeavingTransaction(context)
      }
    }
    final class LeavingTransaction: ExtensionTransaction {
      typealias Definition = Leaving
      private let context: ExtensionContext<Leaving>
      init(_ context: ExtensionContext<Leaving>) { self.context = context }
      func didChange(_ change: borrowing RowChange) throws {
        let key: String = try change.key.key()
        // The new row declares an edge to the removed row, which removes it too; and the hook removes another row.
        try context.writeTransaction?.set(
          Thing(links: [Thing.Link("of>\(key)!source")]), key: "d" + key.dropFirst(), in: "d")
        try context.writeTransaction?.remove(Thing.row("c" + key.dropFirst()))
      }
    }
    let graph = Relationships().named("graph")
    let database = try Database.inMemory {
      GraphCase.definition(graph)
      Leaving().named("leaving")
    }
    let graphCase = GraphCase(database, graph)
    let text = """
      write
      set a1 owns>b1=8
      set b1
      set c1 owns>c2=8
      set c2
      ----
      a1 owns>b1
      b1
      c1 owns>c2
      c2

      write
      remove a1
      ----
      """
    #expect(TextCase.run(text) { graphCase.lines(of: $0) } == TextCase.normalized(text))
    try database.close()
  }

  @Test func `a row that a hook sets again after a rule has removed it is kept`() throws {
    /// An extension that sets each row of collection "b" again after it was removed.
    struct Stubborn: DatabaseExtension {
      static let kind = "test.stubborn"
      var configuration: ExtensionConfiguration {
        var configuration = ExtensionConfiguration(version: "1")
        configuration.scope = .only(["b"])
        configuration.events = .removals
        configuration.build = .none
        return configuration
      }
      func makeTransaction(_ context: ExtensionContext<Self>) throws -> StubbornTransaction {
        StubbornTransaction(context)
      }
    }
    final class StubbornTransaction: ExtensionTransaction {
      typealias Definition = Stubborn
      private let context: ExtensionContext<Stubborn>
      init(_ context: ExtensionContext<Stubborn>) { self.context = context }
      func didChange(_ change: borrowing RowChange) throws {
        let key: String = try change.key.key()
        try context.writeTransaction?.set(Thing(links: [Thing.Link("of>a1!source")]), key: key, in: "b")
      }
    }
    let graph = Relationships().named("graph")
    let database = try Database.inMemory {
      GraphCase.definition(graph)
      Stubborn().named("stubborn")
    }
    let graphCase = GraphCase(database, graph)
    let text = """
      write
      set a1
      set b1 of>a1!source
      ----
      a1
      b1 of>a1

      write
      remove a1
      ----
      b1 ?of>a1
      """
    #expect(TextCase.run(text) { graphCase.lines(of: $0) } == TextCase.normalized(text))
    try database.close()
  }

  @Test func `setting a row again after a rule has removed it leaves no stale entries of its edges`() throws {
    let graph = try GraphCase()
    let text = """
      write
      set a1 of>b1=4
      set a9 of>b9=4
      set b1
      set b9
      ----
      a1 of>b1
      a9 of>b9
      b1
      b9

      write
      remove b9
      flush
      set a9
      remove b1
      ----
      a9

      write
      set b1
      set a1
      ----
      a1
      a9
      b1

      write
      remove b1
      ----
      a1
      a9
      """
    #expect(TextCase.run(text) { graph.lines(of: $0) } == TextCase.normalized(text))
    #expect(try graph.database.read { tx in try tx[graph.graph].families.declared.to.count() } == 0)
  }

  @Test func `an edge of a row that a hook sets again unchanged is found from both ends`() throws {
    let graph = Relationships().named("graph")
    var hooks = Hooks()
    hooks.didRemove = { tx, change in
      guard change.collection == "a" else { return }
      try tx.set(Thing(links: [Thing.Link("of>b1=4")]), key: try change.key.key(as: String.self), in: "a")
    }
    let again = hooks.named("again")
    let database = try Database.inMemory {
      GraphCase.definition(graph)
      again
    }
    let graphCase = GraphCase(database, graph)
    let text = """
      write
      set a1 of>b1=4
      set b1
      ----
      a1 of>b1
      b1

      write
      remove b1
      ----
      a1 ?of>b1

      write
      set b1
      show b1
      ----
      b1: there <a1
      a1 of>b1
      b1
      """
    #expect(TextCase.run(text) { graphCase.lines(of: $0) } == TextCase.normalized(text))
    try database.close()
  }

  @Test func `a flush without changes has no effect, and undoing a savepoint undoes the effects of its rules`()
    throws
  {
    let text = """
      write
      set a1 owns>b1=8
      set b1
      flush
      flush
      ----
      a1 owns>b1
      b1

      write
      save
      remove a1
      flush
      show b1
      undo
      show b1
      flush
      ----
      b1: gone
      b1: there <a1
      a1 owns>b1
      b1
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }
}
