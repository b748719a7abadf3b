/// A small generator with a seed (SplitMix64): every random test prints its seed and can be replayed.
public struct SeededRandom: RandomNumberGenerator, Sendable {
  private var state: UInt64

  /// The same seed gives the same numbers.
  public init(seed: UInt64) { state = seed }

  /// The next 64 bits.
  public mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }

  /// A number below `bound`.
  public mutating func below(_ bound: Int) -> Int { Int(next(upperBound: UInt64(bound))) }

  /// Bytes that can't be compressed.
  public mutating func bytes(_ count: Int) -> [UInt8] {
    unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
      for index in 0..<count { unsafe buffer.initializeElement(at: index, to: UInt8(truncatingIfNeeded: next())) }
      initialized = count
    }
  }

  /// True with a chance of one in `count`.
  public mutating func oneIn(_ count: Int) -> Bool { below(count) == 0 }
}
