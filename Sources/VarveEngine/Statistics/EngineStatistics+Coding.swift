extension EngineStatistics {
  /// The statistics as JSON in one line.
  public var json: String { JSONText.of(self) }

  /// Returns the statistics with at most `countMaximum` families, those with the most bytes.
  func withLargestFamilies(_ countMaximum: Int) -> EngineStatistics {
    guard families.count > countMaximum else { return self }
    func size(_ family: Family) -> UInt64 { family.levels.reduce(0) { $0 + $1.bytes } }
    let largest = families.sorted { (size($0), $1.id) > (size($1), $0.id) }.prefix(countMaximum)
    var result = self
    result.families = largest.sorted { $0.id < $1.id }
    return result
  }
}

/// A number whose code is its sixteen hexadecimal digits, because many JSON parsers round integers of 64 bits.
struct HexadecimalNumber: Codable, Hashable, Sendable {
  let value: UInt64

  init(value: UInt64) { self.value = value }

  init(from decoder: any Decoder) throws {
    let digits = try String(from: decoder)
    guard let value = UInt64(digits, radix: 16) else {
      throw DecodingError.dataCorrupted(
        DecodingError.Context(
          codingPath: decoder.codingPath,
          debugDescription: "\"\(digits)\" was found; hexadecimal digits were expected"))
    }
    self.value = value
  }

  func encode(to encoder: any Encoder) throws {
    let digits = String(value, radix: 16)
    try (String(repeating: "0", count: 16 - digits.utf8.count) + digits).encode(to: encoder)
  }
}
