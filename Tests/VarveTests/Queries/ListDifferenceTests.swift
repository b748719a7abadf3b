import EngineTestSupport
import Testing

@_spi(Extensions) @testable import Varve

/// Tests of the difference between two lists of keys.
struct ListDifferenceTests {
  private static func key(_ number: Int) -> [UInt8] { Array("key \(number)".utf8) }

  /// Applies a difference as a user interface does.
  private static func applied(_ difference: ListDifference, to before: [Int], _ after: [Int]) -> [Int] {
    var list = before
    for offset in difference.removals { list.remove(at: offset) }
    for offset in difference.insertions { list.insert(after[offset], at: offset) }
    return list
  }

  private static func difference(_ before: [Int], _ after: [Int], _ changed: Set<Int>) -> ListDifference {
    let keys = Set(changed.map(key))
    return ListDifference(from: before.map(key), to: after.map(key)) { keys.contains($0) }
  }

  @Test(arguments: 0..<4) func `random changes lead from one list to the other, and unchanged keys never move`(
    seed: Int
  ) {
    var random = SeededRandom(seed: UInt64(seed))
    for round in 0..<TestScale.count(150) {
      let count = random.below(30)
      let before = (0..<count).map { $0 }.shuffled(using: &random)
      // Some keys change and move, some go, and some come.
      let changed = Set(before.filter { _ in random.below(3) == 0 })
      var after = before.filter { !changed.contains($0) && random.below(8) != 0 }
      let came = (0..<random.below(4)).map { 100 + $0 }
      for key in changed.filter({ _ in random.below(5) != 0 }).sorted() + came {
        after.insert(key, at: random.below(after.count + 1))
      }
      let found = Self.difference(before, after, changed.union(came))
      #expect(Self.applied(found, to: before, after) == after, "round \(round)")
      #expect(found.left.map { before[$0] } == before.filter { !after.contains($0) })
      #expect(found.came.map { after[$0] } == after.filter { !before.contains($0) })
      let moved = Set(found.insertions.map { after[$0] }).subtracting(came)
      #expect(moved.isSubset(of: changed), "round \(round)")
      #expect(found.isEmpty == (before == after))
    }
  }

  @Test(arguments: 0..<4) func `if every key has changed, as few move as possible`(seed: Int) {
    var random = SeededRandom(seed: UInt64(seed))
    for round in 0..<TestScale.count(100) {
      let before = (0..<random.below(25)).map { $0 }
      let after = before.shuffled(using: &random)
      let found = Self.difference(before, after, Set(before))
      let fewest = after.difference(from: before)
      #expect(found.insertions.count == fewest.insertions.count, "round \(round)")
      #expect(found.removals.count == fewest.removals.count)
      #expect(Self.applied(found, to: before, after) == after)
    }
  }

  @Test func `keys that moved without notice are reported all the same`() {
    let found = Self.difference([1, 2, 3, 4], [4, 1, 2, 3], [])
    #expect(Self.applied(found, to: [1, 2, 3, 4], [4, 1, 2, 3]) == [4, 1, 2, 3])
    #expect(found.insertions == [0] && found.removals == [3])
  }

  @Test func `a row that moved past unchanged ones is the only one that moves`() {
    let before = Array(0..<10_000)
    let after = Array(1..<10_000) + [0]
    let found = Self.difference(before, after, [0])
    #expect(found.removals == [0] && found.insertions == [9_999])
    let reversed = Self.difference(before, before.reversed(), Set(before))
    #expect(reversed.removals.count == 9_999 && reversed.insertions.count == 9_999)
    #expect(Self.applied(reversed, to: before, before.reversed()) == before.reversed())
  }
}
