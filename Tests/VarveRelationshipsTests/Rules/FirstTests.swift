import EngineTestSupport
import Testing

@testable import RelationshipFixtures

struct FirstTests {
  @Test func `first`() throws {
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

      write
      set a1 refs>d1=32
      set a2 refs>d1=32
      set a3 refs>d1
      set d1
      ----
      a1 refs>d1
      a2 refs>d1
      a3 refs>d1
      d1

      write
      remove a1
      remove a2
      ----
      a3 refs>d1
      d1

      write
      set a1 refs>d1=32
      remove a3
      ----
      a1 refs>d1
      d1

      write
      set a1
      ----
      a1

      write
      set a1 x>b9=4 y>b8
      add a1 z>a1
      ----
      a1 +z>a1 ?x>b9 ?y>b8

      write
      set b9
      set b8
      ----
      a1 x>b9 y>b8 +z>a1
      b8
      b9

      write
      remove b8
      ----
      a1 x>b9 +z>a1 ?y>b8
      b9

      write
      remove b9
      ----

      write
      set a1 pic>b1=2
      set b1
      set c1 pic>b1=2!error
      ----
      a1 pic>b1
      b1
      c1 pic>b1

      write
      remove b1
      ----
      a1 (pic to b1)
      c1 (pic to b1)

      write
      set c2 stubborn pic>b1=2!error
      ----
      danglingEdge: "b1"
      """
    #expect(try GraphCase.run(text) == TextCase.normalized(text))
  }
}
