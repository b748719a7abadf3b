import EngineTestSupport
import Testing
import Varve

@testable import RelationshipFixtures
@_spi(Extensions) @testable import VarveRelationships

/// Tests of rows that only keep each other.
struct CycleTests {
  @Test func `rows that own each other are kept by counting edges, and removed if cycles are collected`() throws {
    let text = """
      write
      set c1 owns>a1=32
      set a1 owns>b1=32
      set b1 owns>a1=32
      ----
      a1 owns>b1
      b1 owns>a1
      c1 owns>a1

      write
      remove c1
      ----
      a1 owns>b1
      b1 owns>a1
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
    let collected = text.replacing("remove c1\n----\na1 owns>b1\nb1 owns>a1", with: "remove c1\n----")
    #expect(try GraphCase.run(collected, Relationships(collectsCycles: true)) == TextCase.normalized(collected))
    let kept = """
      write
      set c1 owns>a1=32
      set d1 likes>b1
      set a1 owns>b1=32
      set b1 owns>a1=32
      ----
      a1 owns>b1
      b1 owns>a1
      c1 owns>a1
      d1 likes>b1

      write
      remove c1
      ----
      a1 owns>b1
      b1 owns>a1
      d1 likes>b1
      """
    #expect(try GraphCase.run(kept, Relationships(collectsCycles: true)) == TextCase.normalized(kept))
  }

  @Test func `collecting a cycle leaves a row that has another owner as well, whatever the order of the keys`()
    throws
  {
    for shared in ["a0", "d9"] {
      let graph = try GraphCase()
      let text = """
        write
        set c5 tag>\(shared)=32
        set \(shared)
        set b3 owns>b4=32 tag>\(shared)=32
        set b4 owns>b3=32
        ----
        \(shared == "a0" ? "a0\n" : "")b3 owns>b4 tag>\(shared)
        b4 owns>b3
        c5 tag>\(shared)
        \(shared == "d9" ? "d9\n" : "")
        """
      #expect(TextCase.run(text) { graph.lines(of: $0) } == TextCase.normalized(text))
      #expect(try graph.database.write { tx in try tx[graph.graph].collectCycles() } == 2)
      #expect(Set(try graph.content()) == ["c5 tag>\(shared)", shared])
    }
    let text = """
      write
      set c5 tag>a0=32
      set a0
      set c0 owns>b3=32 tag>a0=32
      set b3 owns>b4=32 tag>a0=32
      set b4 owns>b3=32
      ----
      a0
      b3 owns>b4 tag>a0
      b4 owns>b3
      c0 owns>b3 tag>a0
      c5 tag>a0

      write
      remove c0
      ----
      a0
      c5 tag>a0
      """
    #expect(try GraphCase.run(text, Relationships(collectsCycles: true)) == TextCase.normalized(text))
  }

  @Test func `collectCycles removes the rows of existing cycles and returns their number`() throws {
    let graph = try GraphCase()
    let text = """
      write
      set c1 owns>a1=32
      set a1 owns>b1=32
      set b1 owns>a1=32
      set b2 owns>b2=32
      set d1 owns>d2=32
      set d2
      ----
      a1 owns>b1
      b1 owns>a1
      b2 owns>b2
      c1 owns>a1
      d1 owns>d2
      d2

      write
      remove c1
      ----
      a1 owns>b1
      b1 owns>a1
      b2 owns>b2
      d1 owns>d2
      d2
      """
    #expect(TextCase.run(text) { graph.lines(of: $0) } == TextCase.normalized(text))
    #expect(try graph.database.write { tx in try tx[graph.graph].collectCycles() } == 2)
    #expect(try graph.content() == ["b2 owns>b2", "d1 owns>d2", "d2"])
  }
}
