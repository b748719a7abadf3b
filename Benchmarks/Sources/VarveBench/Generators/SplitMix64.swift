/// The random number generator of the workloads: small, fast, and the same on every machine.
///
/// Each thread of a row owns one, seeded by `--seed`, workload and thread, so every engine receives the same keys in
/// the same order.
struct SplitMix64 {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  /// Creates a separate stream for one thread of one row.
  init(seed: UInt64, stream: String, thread: Int) {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in stream.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
    state = seed &* 0x9e37_79b9_7f4a_7c15 ^ hash ^ (UInt64(thread) &* 0xd6e8_feb8_6659_fd93)
    _ = next()
  }

  @inline(__always)
  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }

  /// Returns a uniform number in `0..<bound`, computed as the high half of a product without a division.
  @inline(__always)
  mutating func next(below bound: UInt64) -> UInt64 {
    next().multipliedFullWidth(by: bound).high
  }

  /// Returns a uniform number in `0..<1`.
  @inline(__always)
  mutating func nextUnit() -> Double {
    Double(next() >> 11) * 0x1p-53
  }
}
