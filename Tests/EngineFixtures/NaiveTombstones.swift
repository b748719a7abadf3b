import EngineTestSupport

@testable import VarveEngine

/// A list of range tombstones that is searched linearly: the model of every faster structure.
struct NaiveTombstones {
  struct Tombstone {
    let start: [UInt8]
    let end: [UInt8]
    let sequence: UInt64
  }

  var tombstones: [Tombstone] = []

  func covering(_ key: [UInt8], at sequence: UInt64) -> UInt64 {
    tombstones.filter { $0.sequence <= sequence && covers($0, key) }.map(\.sequence).max() ?? 0
  }

  func covers(_ tombstone: Tombstone, _ key: [UInt8]) -> Bool {
    !key.lexicographicallyPrecedes(tombstone.start) && key.lexicographicallyPrecedes(tombstone.end)
  }

  /// Draws a key of one or two bytes of a small alphabet, so that tombstones touch, nest and share bounds.
  static func key(_ random: inout SeededRandom) -> [UInt8] {
    (0..<(1 + random.below(2))).map { _ in UInt8(random.below(12)) }
  }

  /// Every key that `key` can draw, and the empty key.
  static let allKeys: [[UInt8]] =
    [[]] + (0..<12).map { [$0] } + (0..<12).flatMap { first in (0..<12).map { [first, $0] } }

  static func range(_ random: inout SeededRandom) -> ([UInt8], [UInt8]) {
    while true {
      let first = key(&random)
      let second = key(&random)
      if first != second { return first.lexicographicallyPrecedes(second) ? (first, second) : (second, first) }
    }
  }
}
