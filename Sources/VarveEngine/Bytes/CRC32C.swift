internal import CVarve

/// CRC-32C (Castagnoli), computed by hardware where it is supported.
///
/// Checksums on disk are seeded with the location of the bytes (a segment's life id and offset, or a table's id and
/// offset), so that valid bytes at a wrong location fail verification.
enum CRC32C {
  /// Extends `crc` by the bytes of `view`. A new checksum begins with 0.
  @inline(__always)
  static func extend(_ crc: UInt32, _ view: ByteView) -> UInt32 {
    unsafe cvarve_crc32c_extend(crc, view.base, view.count)
  }

  static func checksum(_ view: ByteView) -> UInt32 { extend(0, view) }

  /// Returns a seed that mixes two 64-bit numbers by multiplication (the finalizer of SplitMix64).
  @inline(__always)
  static func seed(_ identity: UInt64, _ offset: UInt64) -> UInt32 {
    var mixed = identity ^ (offset &* 0x9e37_79b9_7f4a_7c15)
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return UInt32(truncatingIfNeeded: mixed ^ (mixed >> 31))
  }

  /// Returns both checksums in hexadecimal, for an error message.
  static func mismatch(stored: UInt32, computed: UInt32) -> String {
    "stored 0x\(String(stored, radix: 16)), computed 0x\(String(computed, radix: 16))"
  }
}
