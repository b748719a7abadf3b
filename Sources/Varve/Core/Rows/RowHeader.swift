/// The header of a row in the family `objects`, which precedes the object.
///
/// ```
///  byte 0          flags: bit 0 the row has metadata, bit 1 the number of a coder follows; the others are zero
///  byte            only with bit 1: number of the coder that wrote the object, as `CoderKind` and the catalog number
///                  them; without it the coder that the collection was made with (`CollectionRecord`)
///  varint          number of the format version that wrote it, as the catalog numbers them; 0: none
///  varint          number of the object's shape, as the catalog numbers them; 0: none
///  varint          row id
///  to the end      the object, as its coder wrote it
/// ```
/// A varint is little-endian in groups of seven bits, the high bit set in all but the last byte, and as short as
/// possible. The format is on disk and must never change. A row in the family `metadata` begins with only the varints
/// of version and shape, followed by the metadata. If another coder wrote them than the one with which the collection
/// was made, the bytes 0x80 0x00, with which no varint begins, and the number of the coder come first.
package struct RowHeader: Hashable {
  package var hasMetadata = false
  /// The number of the coder of the object, or `nil` for the coder with which the collection was made.
  package var coder: UInt8?
  package var version: UInt32 = 0
  package var shape: UInt32 = 0
  package var id = RowID(0)

  /// The maximum size of a header in bytes.
  static let sizeMaximum = 2 + 5 + 5 + 10

  private static let metadataBit: UInt8 = 1
  private static let coderBit: UInt8 = 2
  /// The bytes that precede the number of the coder of metadata.
  private static let coderMark: [UInt8] = [0x80, 0x00]

  /// Appends the header.
  func append(to bytes: inout [UInt8]) {
    bytes.append((hasMetadata ? Self.metadataBit : 0) | (coder == nil ? 0 : Self.coderBit))
    if let coder { bytes.append(coder) }
    Varint.append(UInt64(version), to: &bytes)
    Varint.append(UInt64(shape), to: &bytes)
    Varint.append(id.number, to: &bytes)
  }

  /// Reads the header at the beginning of a row. Returns the header and the offset of the object.
  package static func read(_ bytes: RawSpan) throws -> (header: RowHeader, objectOffset: Int) {
    guard bytes.byteCount > 0 else { throw damaged("it is empty") }
    let flags = Varint.byte(bytes, 0)
    guard flags & ~(metadataBit | coderBit) == 0 else { throw damaged("its flags are \(flags)") }
    var offset = 1
    var header = RowHeader(hasMetadata: flags & metadataBit != 0)
    if flags & coderBit != 0 {
      guard bytes.byteCount > 1 else { throw damaged("the number of its coder is missing") }
      header.coder = Varint.byte(bytes, 1)
      offset = 2
    }
    header.version = try Varint.read32(bytes, &offset)
    header.shape = try Varint.read32(bytes, &offset)
    header.id = RowID(try Varint.read(bytes, &offset))
    return (header, offset)
  }

  /// Reads the header of metadata.
  package static func readMetadata(
    _ bytes: RawSpan
  ) throws -> (coder: UInt8?, version: UInt32, shape: UInt32, offset: Int) {
    var offset = 0
    var coder: UInt8?
    if bytes.byteCount > 2, Varint.byte(bytes, 0) == coderMark[0], Varint.byte(bytes, 1) == coderMark[1] {
      coder = Varint.byte(bytes, 2)
      offset = 3
    }
    let version = try Varint.read32(bytes, &offset)
    let shape = try Varint.read32(bytes, &offset)
    return (coder, version, shape, offset)
  }

  /// Appends the header of metadata.
  package static func appendMetadata(coder: UInt8?, version: UInt32, shape: UInt32, to bytes: inout [UInt8]) {
    if let coder { bytes += coderMark + [coder] }
    Varint.append(UInt64(version), to: &bytes)
    Varint.append(UInt64(shape), to: &bytes)
  }

  static func damaged(_ message: String) -> DatabaseError {
    DatabaseError(.corruption, "a row's header is damaged: \(message)")
  }
}

/// The encoding of numbers in as few bytes as they need.
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
      // The tenth byte has only one bit left.
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
    // Callers check that the offset is in bounds before; otherwise the span stops the process.
    unsafe bytes.unsafeLoad(fromByteOffset: offset, as: UInt8.self)
  }
}

/// The number of a row. It is given when the row is inserted, kept through every update, and never given again.
public struct RowID: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The number. Numbers ascend in the order of insertion, with gaps.
  public let number: UInt64

  /// Creates a row id from the `number` of another.
  public init(_ number: UInt64) { self.number = number }

  /// Compares two row ids by number.
  public static func < (left: RowID, right: RowID) -> Bool { left.number < right.number }

  /// The number as text.
  public var description: String { "\(number)" }
}
