import EngineTestSupport

/// Random keys of a certain shape, and random versions of them over several sources.
struct RandomEntries {
  var random: SeededRandom
  let shape: Shape
  let keyCount: Int

  /// The shapes that a choice of heads has to get right.
  enum Shape: CaseIterable {
    /// Sixteen decimal digits: the first eight bytes are all alike.
    case digits
    /// Up to twelve bytes of 0, 1 and 255: prefixes of one another, and heads of all ones.
    case ends
    /// Collections of different lengths of name, then digits.
    case collections
    /// A prefix longer than any that heads skip.
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

  /// Entries with sequences from 1, each in one of `sourceCount` sources, `deletes` in 10 of them deletes.
  mutating func sources(_ sourceCount: Int, entries count: Int, deletes: Int = 3) -> [[TextEntry]] {
    var sources = [[TextEntry]](repeating: [], count: sourceCount)
    var sequence: UInt64 = 0
    while sequence < count {
      // Runs of neighbours in one source, as compacted levels have them, among lone entries.
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
