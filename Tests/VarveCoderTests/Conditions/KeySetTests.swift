import EngineTestSupport
import Testing

@testable import Varve

/// Tests of sets of keys against sets of numbers.
struct KeySetTests {
  /// The keys at which the sets of these tests have bounds, and some between them.
  private static let keys: [[UInt8]] =
    [[]] + (0..<6).map { [$0] } + (0..<6).flatMap { first in [[first, 0xff], [first, 0xff, 1]] }

  private static func key(_ random: inout SeededRandom) -> [UInt8] { [UInt8(random.below(6))] }

  private static func set(_ random: inout SeededRandom) -> KeySet {
    switch random.below(6) {
    case 0: KeySet.none
    case 1: KeySet.all
    case 2: KeySet(keys: (0..<random.below(4)).map { _ in key(&random) })
    case 3: KeySet(from: key(&random))
    case 4: KeySet(to: key(&random))
    default: KeySet(from: key(&random), to: KeyRange.end(ofParts: key(&random)))
    }
  }

  private static func members(_ set: KeySet) -> [Bool] { keys.map(set.contains) + [set.hasUnkeyed] }

  /// Returns whether the ranges are ascending and disjoint, and none is empty.
  private static func isNormal(_ set: KeySet) -> Bool {
    var end: [UInt8]? = nil
    for (index, range) in set.ranges.enumerated() {
      if let upper = range.upper, !ByteOrder.precedes(range.lower, upper) { return false }
      if range.upper == nil, index < set.ranges.count - 1 { return false }
      if let end, !ByteOrder.precedes(end, range.lower) { return false }
      end = range.upper
    }
    return true
  }

  @Test(arguments: [1, 2, 3] as [UInt64])
  func `unions, intersections and complements have the expected members`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var sets = [KeySet.none, KeySet.all]
    for step in 0..<3_000 {
      let left = random.oneIn(3) ? Self.set(&random) : sets[random.below(sets.count)]
      let right = random.oneIn(3) ? Self.set(&random) : sets[random.below(sets.count)]
      let (first, second) = (Self.members(left), Self.members(right))
      let union = left.union(right)
      let common = left.intersection(right)
      let complement = left.complement
      #expect(Self.members(union) == zip(first, second).map { $0 || $1 }, "seed \(seed), step \(step)")
      #expect(Self.members(common) == zip(first, second).map { $0 && $1 }, "seed \(seed), step \(step)")
      #expect(Self.members(complement) == first.map { !$0 }, "seed \(seed), step \(step)")
      #expect(complement.complement == left, "seed \(seed), step \(step)")
      #expect(union == right.union(left) && common == right.intersection(left), "seed \(seed), step \(step)")
      for set in [union, common, complement] { #expect(Self.isNormal(set), "seed \(seed), step \(step): \(set)") }
      sets.append([union, common, complement][random.below(3)])
      if sets.count > 40 { sets.removeFirst(20) }
    }
  }

  @Test func `a range that ends before it begins is empty, and so is a set of no keys`() {
    #expect(KeySet(from: [2], to: [1]) == KeySet.none && KeySet(from: [1], to: [1]).isEmpty)
    #expect(KeySet(keys: []).isEmpty && !KeySet.all.isEmpty)
    #expect(KeySet(keys: [[2], [1], [2]]).ranges.map(\.lower) == [[1], [2]])
  }
}
