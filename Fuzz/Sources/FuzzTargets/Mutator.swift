/// Damages inputs by changing bits, integers, lengths and pieces.
enum Mutator {
  private static let interesting: [UInt64] = [
    0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 63, 64, 127, 128, 255, 256, 4_095, 4_096, 32_767, 32_768, 65_535, 65_536,
    0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 32, (1 << 48) - 1, (1 << 56) - 1, 1 << 56, 1 << 62, (1 << 63) - 1,
    1 << 63, .max - 4, .max,
  ]

  /// Returns the input with one to four changes, which may insert pieces of `other`.
  static func mutate(_ input: [UInt8], with other: [UInt8], _ random: inout SeededRandom) -> [UInt8] {
    var bytes = input
    for _ in 0...random.below(4) { change(&bytes, other, &random) }
    return bytes
  }

  private static func change(_ bytes: inout [UInt8], _ other: [UInt8], _ random: inout SeededRandom) {
    guard !bytes.isEmpty else {
      bytes = Array(other.prefix(random.below(other.count + 1)))
      return
    }
    let location = location(bytes.count, &random)
    switch random.below(13) {
    case 0...2: bytes[location] ^= 1 << UInt8(random.below(8))
    case 3: bytes[location] = UInt8(random.below(256))
    case 4, 5: overwrite(&bytes, at: location, &random)
    case 6: bytes[location] = bytes[location] &+ (random.oneIn(2) ? 1 : 255)
    case 7: bytes.removeSubrange(location..<min(bytes.count, location + 1 + random.below(16)))
    case 8: bytes.insert(contentsOf: (0...random.below(16)).map { _ in UInt8(random.below(256)) }, at: location)
    case 9: splice(&bytes, other, at: location, &random)
    case 10:
      // Insert a copy of a piece at another position.
      let end = min(bytes.count, location + 1 + random.below(64))
      bytes.insert(contentsOf: Array(bytes[location..<end]), at: self.location(bytes.count, &random))
    case 11: copyInteger(&bytes, to: location, &random)
    default: if random.oneIn(2) { bytes.removeLast(bytes.count - location) } else { bytes += other.prefix(location) }
    }
  }

  /// Returns a position. Formats store their counts at the beginning or the end, so half of all changes are there.
  private static func location(_ count: Int, _ random: inout SeededRandom) -> Int {
    let edge = min(count, 64)
    switch random.below(4) {
    case 0: return random.below(edge)
    case 1: return count - 1 - random.below(edge)
    default: return random.below(count)
    }
  }

  /// Overwrites an integer with an impossible length, or with one that is off by a little.
  private static func overwrite(_ bytes: inout [UInt8], at location: Int, _ random: inout SeededRandom) {
    let width = [1, 2, 4, 8][random.below(4)]
    var value = interesting[random.below(interesting.count)]
    if random.oneIn(2) {
      var old: UInt64 = 0
      for index in 0..<width where location + index < bytes.count {
        old |= UInt64(bytes[location + index]) << UInt64(8 * index)
      }
      value = random.oneIn(2) ? old &+ UInt64(random.below(9)) &- 4 : old &* 2
    }
    for index in 0..<width where location + index < bytes.count {
      bytes[location + index] = UInt8(truncatingIfNeeded: value >> UInt64(8 * index))
    }
  }

  /// Copies an integer from another position of the input, such as a handle that points to another block, or a count of
  /// another item.
  private static func copyInteger(_ bytes: inout [UInt8], to location: Int, _ random: inout SeededRandom) {
    let source = self.location(bytes.count, &random)
    let width = min([4, 8, 16][random.below(3)], bytes.count - max(source, location))
    let piece = Array(bytes[source..<source + width])
    bytes.replaceSubrange(location..<location + width, with: piece)
  }

  private static func splice(
    _ bytes: inout [UInt8], _ other: [UInt8], at location: Int, _ random: inout SeededRandom
  ) {
    guard !other.isEmpty else { return }
    let start = random.below(other.count)
    let piece = other[start..<min(other.count, start + 1 + random.below(200))]
    if random.oneIn(2) {
      bytes.replaceSubrange(location..<min(bytes.count, location + piece.count), with: piece)
    } else {
      bytes.insert(contentsOf: piece, at: location)
    }
  }
}
