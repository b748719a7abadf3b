/// What a row of the family `objects` says before the object.
///
/// ```
///  byte 0          flags: bit 0 the row has metadata; the others are zero
///  varint          number of the format version that wrote it, as the catalog numbers them; 0: none
///  varint          number of the object's shape, as the catalog numbers them; 0: none
///  varint          row id
///  to the end      the object, as the collection's coder wrote it
/// ```
/// A varint is little-endian in groups of seven bits, the high bit set in all but the last byte, and as short as
/// can be. On disk: never change. A row in the family `metadata` begins with the varints of version and shape
/// alone, and then has the metadata.
package struct RowHeader: Hashable {
  package var hasMetadata = false
  package var version: UInt32 = 0
  package var shape: UInt32 = 0
  package var id = RowID(0)

  /// The largest that a header can be.
  static let sizeMaximum = 1 + 5 + 5 + 10

  /// Appends the header.
  func append(to bytes: inout [UInt8]) {
    bytes.append(hasMetadata ? 1 : 0)
    Varint.append(UInt64(version), to: &bytes)
    Varint.append(UInt64(shape), to: &bytes)
    Varint.append(id.number, to: &bytes)
  }

  /// Reads the header at the beginning of a row; also gives where the object begins.
  package static func read(_ bytes: RawSpan) throws -> (header: RowHeader, objectOffset: Int) {
    guard bytes.byteCount > 0 else { throw damaged("it is empty") }
    let flags = Varint.byte(bytes, 0)
    guard flags & ~1 == 0 else { throw damaged("its flags are \(flags)") }
    var offset = 1
    var header = RowHeader(hasMetadata: flags & 1 != 0)
    header.version = try Varint.read32(bytes, &offset)
    header.shape = try Varint.read32(bytes, &offset)
    header.id = RowID(try Varint.read(bytes, &offset))
    return (header, offset)
  }

  /// Reads what stands before metadata.
  package static func readMetadata(_ bytes: RawSpan) throws -> (version: UInt32, shape: UInt32, offset: Int) {
    var offset = 0
    let version = try Varint.read32(bytes, &offset)
    let shape = try Varint.read32(bytes, &offset)
    return (version, shape, offset)
  }

  static func damaged(_ message: String) -> DatabaseError {
    DatabaseError(.corruption, "a row's header is damaged: \(message)")
  }
}

/// Numbers in as few bytes as they need.
package enum Varint {
  package static func append(_ number: UInt64, to bytes: inout [UInt8]) {
    var rest = number
    while rest >= 0x80 {
      bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    bytes.append(UInt8(truncatingIfNeeded: rest))
  }

  static func read(_ bytes: RawSpan, _ offset: inout Int) throws -> UInt64 {
    var number: UInt64 = 0
    var shift: UInt64 = 0
    while offset < bytes.byteCount {
      let next = byte(bytes, offset)
      offset += 1
      // The tenth byte has one bit left.
      guard shift < 63 || next <= 1 else { break }
      number |= UInt64(next & 0x7F) << shift
      if next < 0x80 {
        guard next != 0 || shift == 0 else { throw RowHeader.damaged("a number is longer than it needs to be") }
        return number
      }
      shift += 7
    }
    throw RowHeader.damaged("a number does not end, or has more than 64 bits")
  }

  static func read32(_ bytes: RawSpan, _ offset: inout Int) throws -> UInt32 {
    guard let number = UInt32(exactly: try read(bytes, &offset)) else {
      throw RowHeader.damaged("a number has more than 32 bits")
    }
    return number
  }

  @inline(__always)
  static func byte(_ bytes: RawSpan, _ offset: Int) -> UInt8 {
    // Checked by the span: the offset is in bounds, or the process stops; callers compare before.
    unsafe bytes.unsafeLoad(fromByteOffset: offset, as: UInt8.self)
  }
}

/// The number of a row: given when it is inserted, kept through every update, never given again.
public struct RowID: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The number. Numbers ascend in the order of insertion, with gaps.
  public let number: UInt64

  /// A row's number, as `number` gave it out.
  public init(_ number: UInt64) { self.number = number }

  /// By number.
  public static func < (left: RowID, right: RowID) -> Bool { left.number < right.number }

  /// The number.
  public var description: String { "\(number)" }
}
