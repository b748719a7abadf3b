import Testing

@testable import Varve

/// Tests of conditions on ranges with one end: each is the same condition as a comparison, which ends.
struct OneSidedRangeTests {
  private struct Work: Sendable {
    var year: Int
    var age: Int?
    var title: String
    var nick: String?
    var score: Double
    var years: [Int]
    var marks: [Int]?
  }

  private typealias C = Condition<Work>

  @Test func `a field is in a range with one end if it compares so with that end`() {
    #expect(C { $0.year.isIn(1900...) } == C { $0.year >= 1900 })
    #expect(C { $0.year.isIn(...1900) } == C { $0.year <= 1900 })
    #expect(C { $0.year.isIn(..<1900) } == C { $0.year < 1900 })
    #expect(C { $0.title.isIn("b"...) } == C { $0.title >= "b" })
    #expect(C { $0.title.isIn(..."b") } == C { $0.title <= "b" })
    #expect(C { $0.title.folded.isIn(..<"B") } == C { $0.title.folded < "b" })
    #expect(C { $0.score.isIn(0.5...) } == C { $0.score >= 0.5 })
  }

  @Test func `an optional field is in a range with one end if it has a value that is`() throws {
    #expect(C { $0.age.isIn(7...) } == C { $0.age >= 7 })
    #expect(C { $0.age.isIn(...7) } == C { $0.age <= 7 })
    #expect(C { $0.nick.isIn(..<"b") } == C { $0.nick < "b" })
    let work = Work(year: 1, age: nil, title: "", nick: nil, score: .nan, years: [], marks: nil)
    #expect(try !C { $0.age.isIn(...7) }.holds(for: work), "nil is in no range")
    #expect(try !C { $0.score.isIn(...7) }.holds(for: work), "and no NaN is")
  }

  @Test func `one of the values of a field is in a range with one end`() throws {
    #expect(C { $0.years.any.isIn(3...) } == C { $0.years.any >= 3 })
    #expect(C { $0.years.any.isIn(...3) } == C { $0.years.any <= 3 })
    #expect(C { $0.marks.any.isIn(..<3) } == C { $0.marks.any < 3 })
    let work = Work(year: 1, age: nil, title: "", nick: nil, score: 0, years: [1, 5], marks: nil)
    #expect(try C { $0.years.any.isIn(3...) }.holds(for: work) && !C { $0.years.any.isIn(6...) }.holds(for: work))
    #expect(try !C { $0.marks.any.isIn(..<3) }.holds(for: work))
  }

  @Test func `the range may be on the left`() {
    #expect(C { (1900...).contains($0.year) } == C { $0.year >= 1900 })
    #expect(C { (...1900).contains($0.year) } == C { $0.year <= 1900 })
    #expect(C { (..<1900).contains($0.year) } == C { $0.year < 1900 })
    #expect(C { (7...).contains($0.age) } == C { $0.age >= 7 })
    #expect(C { (..."b").contains($0.nick) } == C { $0.nick <= "b" })
    #expect(C { (..<"b").contains($0.nick) } == C { $0.nick < "b" })
  }

  @Test func `what is not a range with one end is still a sequence of values`() {
    #expect(C { $0.year.isIn([1, 2]) } == C { $0.year.isIn(Set([2, 1])) })
    #expect(C { $0.year.isIn(stride(from: 0, to: 6, by: 3)) } == C { $0.year.isIn([0, 3]) })
    #expect(C { $0.year.isIn(1..<3) } != C { $0.year.isIn([1, 2]) })
  }
}
