internal import Varve

/// Walks the entries of many ends in one family, in their order, and removes some of them with those of the other family.
struct EdgeSweep {
  private let family: EdgeFamily
  private let bySource: Bool

  init(_ family: EdgeFamily, bySource: Bool) throws {
    self.family = family
    self.bySource = bySource
  }

  private var part: Part { bySource ? family.from : family.to }
  private var other: Part { bySource ? family.to : family.from }

  /// Calls `body` with each entry of the ends, which are in their order. Where it returns true, both entries of the edge are
  /// removed.
  mutating func forEach(
    of ends: PackedKeys, _ body: (_ key: EdgeKey, _ value: [UInt8]) throws -> Bool
  ) throws {
    for index in 0..<ends.count {
      var cursor = try part.cursor(StorageRange(prefix: EdgeFormat.prefix(ends[index], nil)))
      while let (bytes, value) = try cursor.next() {
        let key = try EdgeKey(bytes, bySource: bySource)
        guard try body(key, value) else { continue }
        try part.delete(bytes)
        var mirrored: [UInt8] = []
        if bySource {
          EdgeFormat.appendToKey(key.second, key.name, key.first, to: &mirrored)
        } else {
          let order = try EdgeValue(value, bySource: false).order
          EdgeFormat.appendFromKey(key.second, key.name, order, key.first, to: &mirrored)
        }
        try other.delete(mirrored)
      }
    }
  }
}
