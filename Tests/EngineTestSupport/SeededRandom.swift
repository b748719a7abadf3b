/// A small pseudorandom generator with a seed (SplitMix64).
///
/// Every random test prints its seed and can be replayed.
public struct SeededRandom: RandomNumberGenerator, Sendable {
  private var state: UInt64

  /// Creates a generator. The same seed gives the same numbers.
  public init(seed: UInt64) { state = seed }

  /// Returns the next 64 bits.
  public mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }

  /// Returns a number from 0 to `bound` - 1.
  public mutating func below(_ bound: Int) -> Int { Int(next(upperBound: UInt64(bound))) }

  /// Returns random bytes, which cannot be compressed.
  public mutating func bytes(_ count: Int) -> [UInt8] {
    unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
      for index in 0..<count { unsafe buffer.initializeElement(at: index, to: UInt8(truncatingIfNeeded: next())) }
      initialized = count
    }
  }

  /// Returns true with a probability of one in `count`.
  public mutating func oneIn(_ count: Int) -> Bool { below(count) == 0 }
}
