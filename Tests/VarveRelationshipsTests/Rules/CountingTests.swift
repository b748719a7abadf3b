import EngineTestSupport
import Testing
import Varve

@testable import RelationshipFixtures
@_spi(Extensions) @testable import VarveRelationships

/// Tests of ends that are removed with their last edge.
struct CountingTests {
  @Test func `edges of every name and rule keep a destination, and with .sameName only those of the same name`()
    throws
  {
    func text(_ after: String) -> String {
      """
      write
      set a1 x>d1=32
      set a2 y>d1
      set d1
      ----
      a1 x>d1
      a2 y>d1
      d1

      write
      remove a1
      ----
      \(after)
      """
    }
    #expect(try GraphCase.run(text("a2 y>d1\nd1")) == TextCase.normalized(text("a2 y>d1\nd1")))
    #expect(
      try GraphCase.run(text("a2 ?y>d1"), Relationships(counting: .sameName)) == TextCase.normalized(text("a2 ?y>d1")))
  }

  @Test(arguments: [["a1", "a2", "a3"], ["a3", "a2", "a1"], ["a2", "a3", "a1"]])
  func `sources removed in one transaction do not keep their destination, whatever their rules and order`(
    order: [String]
  ) throws {
    let text = """
      write
      set a1 x>d1=32
      set a2 x>d1
      set a3 x>d1=1
      set d1
      ----
      a1 x>d1
      a2 x>d1
      a3 x>d1
      d1

      write
      \(order.map { "remove \($0)" }.joined(separator: "\n"))
      ----
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `a source that a later wave of rules removes does not keep the destination`() throws {
    // The row a1 loses d1 at once; a2, which has no rule, is removed three waves later.
    let text = """
      write
      set a1 x>d1=32 next>b1=8
      set b1 next>b2=8
      set b2 next>a2=8
      set a2 x>d1
      set d1
      ----
      a1 next>b1 x>d1
      a2 x>d1
      b1 next>b2
      b2 next>a2
      d1

      write
      remove a1
      ----
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `a dropped edge and a removed source in one transaction together release the destination`() throws {
    let text = """
      write
      set a1 x>d1=32
      set a2 x>d1
      set d1
      ----
      a1 x>d1
      a2 x>d1
      d1

      write
      set a1
      remove a2
      ----
      a1
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test func `the rules for the two directions of an edge are applied independently`() throws {
    let text = """
      write
      set a1 x>b1=16+32
      set b1
      set a2 x>b2=16+32
      set b2
      set a3 x>b3=16+32
      set b3
      ----
      a1 x>b1
      a2 x>b2
      a3 x>b3
      b1
      b2
      b3

      write
      remove a1
      remove b2
      set a3
      ----
      a3
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }

  @Test(
    arguments: [
      (DeleteRules.deleteSourceIfDestinationDeleted, DeleteRules.deleteSourceIfAllDestinationsDeleted, "source"),
      (.deleteDestinationIfSourceDeleted, .deleteDestinationIfAllSourcesDeleted, "destination"),
    ])
  func `two conflicting rules that delete the same end are refused, and the error names that end`(
    one: DeleteRules, other: DeleteRules, end: String
  ) throws {
    let destination = EdgeEnd.row(try RowKey("b1", in: "b"))
    #expect {
      try RelationshipEdge("x", to: destination, [one, other])
    } throws: { error in
      (error as? DatabaseError)?.code == .invalidArgument && "\(error)".contains("delete its \(end)")
    }
    #expect(throws: DatabaseError.self) { try RelationshipEdge("x", to: destination, DeleteRules(rawValue: 64)) }
    // Every other combination of rules is valid.
    var possible = 0
    for bits in UInt8(0)..<64 {
      let rules = DeleteRules(rawValue: bits)
      let isRefused = rules.isSuperset(of: [one, other])
      if rules.refusal(toFile: false) == nil {
        possible += 1
      } else if isRefused {
        #expect(throws: DatabaseError.self) { try RelationshipEdge("x", to: destination, rules) }
      }
    }
    #expect(possible == 36)
  }

  @Test func `removing one source of a hub reads as many entries however many sources the hub has`() throws {
    /// Returns the number of entries that are read when a leaf of a hub with `count` leaves is removed.
    func looks(_ count: Int) throws -> Int {
      let graph = try GraphCase()
      try graph.database.write { tx in
        try tx.set(Thing(), key: "d1", in: "d")
        for number in 0..<count {
          try tx.set(Thing(links: [Thing.Link("of>d1=32")]), key: "a\(number)", in: "a")
        }
      }
      let before = try graph.database.read { tx in try tx[graph.graph].count() }
      #expect(before == count)
      var read = 0
      try graph.database.write { tx in
        try tx.remove(Thing.row("a0"))
        let transaction = try tx[graph.graph]
        transaction.noteEntry = { read += 1 }
        try transaction.flush()
      }
      #expect(try graph.content().last == "d1")
      return read
    }
    #expect(try looks(10) == looks(2_000))
  }
}
