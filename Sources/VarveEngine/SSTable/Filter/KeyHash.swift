/// The 64-bit hash of a user key, as the filters on disk use it.
///
/// On disk: never change. If one bit of the function changes, every filter gives wrong answers, and a filter with a
/// wrong answer loses keys. The test vectors in `KeyHashTests` protect it.
///
/// # Function
/// The function multiplies 64 by 64 to 128 bits and uses both halves (`fold` = high xor low). All loads are
/// little-endian, `n` is the number of bytes, and `load64(i)` is the eight bytes from byte i:
///
///     seed = k0 ^ n * k4                                            (all wrapping)
///     n > 64:  while more than 64 bytes are left, from p = 0:
///                seed  = fold(load64(p)    ^ k1, load64(p+8)  ^ seed)
///                other = fold(load64(p+16) ^ k2, load64(p+24) ^ other)   other begins as seed
///                p += 32
///              seed = seed ^ other * k4
///     n > 16:  while more than 16 bytes are left:
///                seed = fold(load64(p) ^ k1, load64(p+8) ^ seed);  p += 16
///              a = load64(n-16), b = load64(n-8)                    (they may overlap what was read)
///     n in 8...16:  a = load64(0), b = load64(n-8)
///     n in 4...7:   a = load32(0), b = load32(n-4)
///     n in 1...3:   a = byte(0) << 16 | byte(n/2) << 8 | byte(n-1), b = 0
///     n = 0:        a = 0, b = 0
///     x = a ^ k1, y = b ^ seed, (high, low) = x * y
///     hash = fold(low ^ x ^ k2, high ^ y ^ k3)
///
/// x and y are used in the second multiplication together with their product, so that an operand that happens to be
/// zero does not cancel the other.
///
/// The function is not keyed: a caller that chooses the keys can choose collisions, which cost filter precision but
/// never correctness.
enum KeyHash {
  // On disk: never change. The constants are odd, with 32 bits set and no repeated byte: digits of the square roots
  // of 2, 3, 5, 7 and 11, made odd.
  private static let k0: UInt64 = 0x6a09_e667_f3bc_c909
  private static let k1: UInt64 = 0xbb67_ae85_84ca_a73b
  private static let k2: UInt64 = 0x3c6e_f372_fe94_f82b
  private static let k3: UInt64 = 0xa54f_f53a_5f1d_36f1
  private static let k4: UInt64 = 0x510e_527f_ade6_82d1

  @inline(__always)
  static func hash(_ key: ByteView) -> UInt64 {
    let count = key.count
    var seed = k0 ^ (UInt64(truncatingIfNeeded: count) &* k4)
    let a: UInt64
    let b: UInt64
    if count > 16 {
      seed = absorb(key, seed)
      a = key.load(count &- 16, as: UInt64.self)
      b = key.load(count &- 8, as: UInt64.self)
    } else if count >= 8 {
      a = key.load(0, as: UInt64.self)
      b = key.load(count &- 8, as: UInt64.self)
    } else if count >= 4 {
      a = UInt64(key.load(0, as: UInt32.self))
      b = UInt64(key.load(count &- 4, as: UInt32.self))
    } else if count > 0 {
      a = UInt64(key[0]) << 16 | UInt64(key[count >> 1]) << 8 | UInt64(key[count &- 1])
      b = 0
    } else {
      a = 0
      b = 0
    }
    let x = a ^ k1
    let y = b ^ seed
    let product = x.multipliedFullWidth(by: y)
    return fold(product.low ^ x ^ k2, product.high ^ y ^ k3)
  }

  /// Mixes all but the last 1 to 16 bytes of more than 16 into the seed.
  @inline(__always)
  private static func absorb(_ key: ByteView, _ start: UInt64) -> UInt64 {
    var seed = start
    var position = 0
    let count = key.count
    if count > 64 {
      // Two chains of multiplications run side by side, because a single one would wait for each product.
      var other = seed
      while count &- position > 64 {
        seed = fold(
          key.load(position, as: UInt64.self) ^ k1, key.load(position &+ 8, as: UInt64.self) ^ seed)
        other = fold(
          key.load(position &+ 16, as: UInt64.self) ^ k2, key.load(position &+ 24, as: UInt64.self) ^ other)
        position &+= 32
      }
      seed ^= other &* k4
    }
    while count &- position > 16 {
      seed = fold(key.load(position, as: UInt64.self) ^ k1, key.load(position &+ 8, as: UInt64.self) ^ seed)
      position &+= 16
    }
    return seed
  }

  @inline(__always)
  private static func fold(_ left: UInt64, _ right: UInt64) -> UInt64 {
    let product = left.multipliedFullWidth(by: right)
    return product.high ^ product.low
  }
}
