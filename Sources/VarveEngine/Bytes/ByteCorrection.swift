/// Finds the one byte that is wrong in a message whose CRC-32C does not match, as after a bit flipped on the disk.
///
/// # Method
/// A CRC is linear: the exclusive or of the stored and the computed checksum depends only on which bits differ, and not
/// on the rest of the message. A difference in one byte, followed by `d` more bytes, yields the table entry of the
/// difference, advanced by `d` zero bytes. Going back from the checksums' difference by one zero byte at a time, each
/// step therefore shows whether a single byte at that distance explains it: it does if the value is an entry of the
/// table, and the upper byte of the value determines which. The upper bytes of the entries are all different.
///
/// # Reliability
/// A message that is damaged in another way looks like one with a single wrong byte in about `255 * n` of 2^32 cases,
/// for `n` bytes. If two bytes explain the difference, none is returned; nor does it try messages longer than
/// `sizeMaximum`. The caller has to check what the corrected bytes mean.
enum ByteCorrection {
  struct Fix: Equatable {
    /// The offset of the wrong byte.
    let offset: Int
    /// The bits that differ.
    let bits: UInt8

    /// Returns a description of the corrected byte, for a report.
    func part(found: UInt8) -> UnreadablePart {
      var part = UnreadablePart(
        start: UInt64(offset), end: UInt64(offset + 1),
        message: "the byte is \(found); by the checksum it was \(found ^ bits), and is corrected")
      part.holdsEntries = false
      return part
    }
  }

  /// The size in bytes up to which messages are corrected: there, one of 250 messages that are damaged in another way
  /// looks correctable.
  static let sizeMaximum = 1 << 16

  /// Returns the wrong byte of a message, or `nil` if no single byte, or more than one, explains the checksum.
  ///
  /// Complexity: linear in the size of the message.
  static func locate(_ message: ByteView, seed: UInt32, stored: UInt32) -> Fix? {
    guard message.count <= sizeMaximum else { return nil }
    var difference = CRC32C.extend(seed, message) ^ stored
    guard difference != 0 else { return nil }
    var found: Fix?
    for offset in (0..<message.count).reversed() {
      let bits = tables.entry[Int(difference >> 24)]
      let entry = tables.values[Int(bits)]
      if entry == difference {
        guard found == nil else { return nil }
        found = Fix(offset: offset, bits: bits)
      }
      difference = ((difference ^ entry) << 8) | UInt32(bits)
    }
    return found
  }

  /// Returns the wrong byte of a message in `bytes`, or of its checksum, which is stored little-endian at `location`.
  static func locate(
    in bytes: ByteView, checksumAt location: Int, message: Range<Int>, seed: UInt32
  ) -> Fix? {
    let stored = bytes.load(location, as: UInt32.self)
    let content = bytes.slice(message.lowerBound, message.upperBound)
    let difference = stored ^ CRC32C.extend(seed, content)
    guard difference != 0 else { return nil }
    // If one byte of the checksum differs, it is far more likely to be wrong than one of the message.
    for byte in 0..<4 where difference & ~(0xff << (byte * 8)) == 0 {
      return Fix(offset: location + byte, bits: UInt8(truncatingIfNeeded: difference >> (byte * 8)))
    }
    return locate(content, seed: seed, stored: stored).map {
      Fix(offset: message.lowerBound + $0.offset, bits: $0.bits)
    }
  }

  private struct Tables {
    /// The checksum register after one byte, from zero.
    var values = [UInt32](repeating: 0, count: 256)
    /// The byte whose value has this upper byte.
    var entry = [UInt8](repeating: 0, count: 256)

    init() {
      for byte in 0..<256 {
        var value = UInt32(byte)
        for _ in 0..<8 { value = value & 1 == 1 ? (value >> 1) ^ 0x82f6_3b78 : value >> 1 }
        values[byte] = value
        entry[Int(value >> 24)] = UInt8(byte)
      }
    }
  }

  private static let tables = Tables()
}
