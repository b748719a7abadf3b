import EngineTestSupport

/// A generator of random keys of a certain shape, and of random versions of them in several sources.
struct RandomEntries {
  var random: SeededRandom
  let shape: Shape
  let keyCount: Int

  /// The shapes of keys that the choice of heads has to handle.
  enum Shape: CaseIterable {
    /// Sixteen decimal digits, of which the first eight bytes are always the same.
    case digits
    /// Up to twelve bytes of 0, 1 and 255: keys that are prefixes of each other, and heads of all ones.
    case ends
    /// Collection names of different lengths, followed by digits.
    case collections
    /// A prefix longer than the longest that heads skip.
    case longPrefix
  }

  init(seed: UInt64, shape: Shape, keyCount: Int) {
    random = SeededRandom(seed: seed)
    self.shape = shape
    self.keyCount = keyCount
  }

  mutating func key() -> [UInt8] {
    let number = random.below(keyCount)
    switch shape {
    case .digits: return digits(number, 16)
    case .ends:
      var draw = SeededRandom(seed: UInt64(number))
      return (0..<draw.below(12)).map { _ in [0, 1, 0xff][draw.below(3)] }
    case .collections:
      let name = ["a", "user/", "user/picture/of/", "zebra"][number % 4]
      return Array(name.utf8) + digits(number, 10)
    case .longPrefix:
      return [UInt8](repeating: 0x61, count: 70) + digits(number, number % 3 + 2)
    }
  }

  private func digits(_ number: Int, _ width: Int) -> [UInt8] {
    let text = String(number)
    return Array((String(repeating: "0", count: max(0, width - text.utf8.count)) + text).utf8)
  }

  /// Returns entries with sequences from 1, each in one of `sourceCount` sources; on average `deletes` of 10 are
  /// deletes.
  mutating func sources(_ sourceCount: Int, entries count: Int, deletes: Int = 3) -> [[TextEntry]] {
    var sources = [[TextEntry]](repeating: [], count: sourceCount)
    var sequence: UInt64 = 0
    while sequence < count {
      // Runs of adjacent entries in one source, as compacted levels have them, mixed with single entries.
      let source = random.below(sourceCount)
      for _ in 0..<(random.oneIn(4) ? 8 : 1) where sequence < count {
        sequence += 1
        sources[source].append(entry(sequence, deletes: deletes))
      }
    }
    return sources
  }

  mutating func entry(_ sequence: UInt64, deletes: Int) -> TextEntry {
    let isDelete = random.below(10) < deletes
    return TextEntry(
      key: key(), sequence: sequence, kind: isDelete ? .delete : .put,
      value: isDelete ? [] : Array("v\(sequence)".utf8))
  }
}
