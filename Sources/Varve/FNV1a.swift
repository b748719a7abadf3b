/// A hash for data on disk, which is the same in every run and on every machine: FNV-1a of 64 bits, by Fowler, Noll and
/// Vo. It does not resist deliberate collisions.
enum FNV1a {
  /// Returns the hash of the UTF-8 of a text.
  static func hash(_ text: String) -> UInt64 {
    text.utf8.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
  }
}
