internal import Varve

/// Reads a binary property list without the type of its content.
///
/// It does not use Foundation's decoder: for a list that refers to itself, which damaged bytes may contain, that
/// decoder overflows the stack or never returns.
///
/// # Format
/// All numbers are big-endian.
/// ```
///  8 bytes     "bplist" and a version
///  objects     marker (1), its low four bits a size or a count n; 15: n is in an integer object that follows
///    00 08 09  null, false, true
///    1s        integer of 2^s bytes: without a sign up to 4, two's complement above
///    2s        floating-point number of 2^s bytes, 4 or 8
///    33        date: 8 bytes, a double, seconds since 2001
///    4n 5n 6n  n bytes; n characters of ASCII; n units of UTF-16
///    8s        UID of s + 1 bytes
///    An Dn     array of n references; dictionary of n references to keys, and then n to values
///  offsets     the offset of each object
///  32 bytes    6 unused, size of an offset (1), size of a reference (1), count of objects (8), index of the top
///              object (8), the offset of the offsets (8)
/// ```
///
/// # Invariants
/// 1. Values are nested at most as deep as those of the other coders.
/// 2. There are at most as many values as bytes: each takes at least one byte to reference, and no writer makes two
///    containers share a third.
/// 3. The total size of strings and bytes, counted at each reference, is bounded.
struct BinaryPropertyList {
  private static let sizeMaximum = 256 << 20
  private let bytes: [UInt8]
  private let offsetSize: Int
  private let referenceSize: Int
  private let objectCount: Int
  private let offsets: Int
  private var valuesLeft: Int
  private var sizeLeft = sizeMaximum

  /// Returns the value of a property list.
  ///
  /// Throws `.corruption` if the bytes are not a binary property list.
  static func value(_ bytes: ArraySlice<UInt8>) throws -> UntypedValue {
    var list = try BinaryPropertyList(Array(bytes))
    let top = try list.number(at: list.bytes.count - 16, size: 8)
    return try list.value(top, depth: 1)
  }

  private init(_ bytes: [UInt8]) throws {
    guard bytes.count >= 8 + 32, bytes.starts(with: Array("bplist0".utf8)) else { throw Self.damaged }
    self.bytes = bytes
    offsetSize = Int(bytes[bytes.count - 26])
    referenceSize = Int(bytes[bytes.count - 25])
    valuesLeft = bytes.count
    guard (1...8).contains(offsetSize), (1...8).contains(referenceSize),
      let count = Self.integer(bytes[(bytes.count - 24)..<(bytes.count - 16)]),
      let table = Self.integer(bytes[(bytes.count - 8)...]),
      table >= 8, table <= bytes.count - 32, count <= (bytes.count - 32 - table) / offsetSize
    else { throw Self.damaged }
    objectCount = count
    offsets = table
  }

  private static var damaged: DatabaseError { DatabaseError(.corruption, "not a binary property list") }

  // MARK: - Values

  private mutating func value(_ object: Int, depth: Int) throws -> UntypedValue {
    guard depth <= CoderLimits.depth, valuesLeft > 0 else { throw Self.damaged }
    valuesLeft -= 1
    var offset = try location(of: object)
    let marker = bytes[offset]
    offset += 1
    let low = Int(marker & 0x0F)
    switch marker >> 4 {
    case 0: return try simple(marker)
    case 1 where low <= 4: return .integer(try integer(at: offset, size: 1 << low))
    case 2 where low == 2: return .float(Float(bitPattern: UInt32(truncatingIfNeeded: try bits(at: offset, size: 4))))
    case 2 where low == 3: return .double(Double(bitPattern: try bits(at: offset, size: 8)))
    case 3 where low == 3: return .date(Double(bitPattern: try bits(at: offset, size: 8)))
    case 4: return .bytes(Array(try content(&offset, low, unit: 1)))
    case 5, 6: return .string(try string(object))
    case 8: return .record([.init("CF$UID", .integer(Int128(try bits(at: offset, size: min(low + 1, 8)))))])
    case 0xA: return try array(offset, low, depth)
    case 0xD: return try dictionary(offset, low, depth)
    default: throw Self.damaged
    }
  }

  private func simple(_ marker: UInt8) throws -> UntypedValue {
    switch marker {
    case 0x00: return .null
    case 0x08: return .bool(false)
    case 0x09: return .bool(true)
    default: throw Self.damaged
    }
  }

  private mutating func array(_ start: Int, _ low: Int, _ depth: Int) throws -> UntypedValue {
    var offset = start
    let references = try content(&offset, low, unit: referenceSize)
    var values: [UntypedValue] = []
    for location in stride(from: references.startIndex, to: references.endIndex, by: referenceSize) {
      values.append(try value(try number(at: location, size: referenceSize), depth: depth + 1))
    }
    return .array(values)
  }

  private mutating func dictionary(_ start: Int, _ low: Int, _ depth: Int) throws -> UntypedValue {
    var offset = start
    let references = try content(&offset, low, unit: 2 * referenceSize)
    let half = references.count / 2
    var fields: [UntypedValue.Member] = []
    for location in stride(from: references.startIndex, to: references.startIndex + half, by: referenceSize) {
      let name = try string(try number(at: location, size: referenceSize))
      fields.append(.init(name, try value(try number(at: location + half, size: referenceSize), depth: depth + 1)))
    }
    // The order on disk is that of a hash table, which differs for equal values.
    return .record(fields.sorted { $0.name < $1.name })
  }

  private mutating func string(_ object: Int) throws -> String {
    var offset = try location(of: object)
    let marker = bytes[offset]
    offset += 1
    let low = Int(marker & 0x0F)
    switch marker >> 4 {
    case 5:
      guard let text = String(validating: try content(&offset, low, unit: 1), as: UTF8.self) else { throw Self.damaged }
      return text
    case 6:
      let content = try content(&offset, low, unit: 2)
      let units = stride(from: content.startIndex, to: content.endIndex, by: 2).map {
        UInt16(content[$0]) << 8 | UInt16(content[$0 + 1])
      }
      guard let text = String(validating: units, as: UTF16.self) else { throw Self.damaged }
      return text
    default: throw Self.damaged
    }
  }

  // MARK: - Bytes

  private func location(of object: Int) throws -> Int {
    guard object < objectCount else { throw Self.damaged }
    let location = try number(at: offsets + object * offsetSize, size: offsetSize)
    guard location >= 8, location < offsets else { throw Self.damaged }
    return location
  }

  /// Returns the content after a marker, given the low four bits of the marker and the size of a unit in bytes.
  ///
  /// Advances `offset` past the count if that is stored as an integer object. Throws if the content extends past the
  /// offset table or exceeds the remaining size limit.
  private mutating func content(_ offset: inout Int, _ low: Int, unit: Int) throws -> ArraySlice<UInt8> {
    var count = low
    if low == 0x0F {
      guard offset < offsets, bytes[offset] >> 4 == 1, bytes[offset] & 0x0F <= 3 else { throw Self.damaged }
      let size = 1 << Int(bytes[offset] & 0x0F)
      count = try number(at: offset + 1, size: size)
      offset += 1 + size
    }
    guard offset <= offsets, count <= (offsets - offset) / unit, count * unit <= sizeLeft else { throw Self.damaged }
    sizeLeft -= count * unit
    return bytes[offset..<(offset + count * unit)]
  }

  private func bits(at offset: Int, size: Int) throws -> UInt64 {
    guard offset <= bytes.count - size else { throw Self.damaged }
    return bytes[offset..<(offset + size)].reduce(0) { $0 << 8 | UInt64($1) }
  }

  private func integer(at offset: Int, size: Int) throws -> Int128 {
    if size < 8 { return Int128(try bits(at: offset, size: size)) }
    let high = try bits(at: offset, size: 8)
    if size == 8 { return Int128(Int64(bitPattern: high)) }
    return Int128(Int64(bitPattern: high)) << 64 | Int128(try bits(at: offset + 8, size: 8))
  }

  /// Returns the unsigned big-endian number at an offset, such as a count or another offset.
  private func number(at offset: Int, size: Int) throws -> Int {
    guard offset >= 0, offset <= bytes.count - size, let number = Self.integer(bytes[offset..<(offset + size)]) else {
      throw Self.damaged
    }
    return number
  }

  private static func integer(_ bytes: ArraySlice<UInt8>) -> Int? {
    Int(exactly: bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
  }
}
