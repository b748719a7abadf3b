/// The keys of the family `catalog`: a tag, followed by the name or number of the entry.
///
/// ```
///  'f'                                → format of the object layer, 4 bytes big-endian
///  'g'                                → how often collections or versions came or went, 4 bytes big-endian
///  'i'                                → first row id that is not reserved, 8 bytes big-endian
///  'n'                                → first collection id that was never given, 4 bytes big-endian
///  't'                                → first shape number that may be given, 4 bytes big-endian
///  'w'                                → first number of a format version that may be given, 4 bytes big-endian
///  'm'                                → first extension number that was never given, 4 bytes big-endian
///  'c' name                           → CollectionRecord
///  'd' collection id (4, big-endian)  → the name that a collection had which was dropped: the feed may speak of it
///  'e' name                           → ExtensionRecord
///  'o' coder number (1)               → the stored name of a coder of a program's own
///  'p'                                → first number of such a coder that may be given, 1 byte
///  's' shape number (4, big-endian)   → a shape, as `Shape` writes it
///  'v' collection id (4) number (4)   → the raw value of a format version, as text
///  'q'                                → damaged blocks were given up, and what follows from that is not done: empty
///  'x' extension number (4) name      → a setting of an extension, see ExtensionSettings
/// ```
/// The format is on disk and must never change. Names are UTF-8 in normalization form C. Only a salvage writes 'p', 't'
/// and 'w', because there may be rows with numbers that the catalog has lost.
package enum CatalogKey {
  package static let format: [UInt8] = Array("f".utf8)
  package static let generation: [UInt8] = Array("g".utf8)
  package static let rowIDs: [UInt8] = Array("i".utf8)
  package static let nextCollection: [UInt8] = Array("n".utf8)
  package static let nextExtension: [UInt8] = Array("m".utf8)
  static let damageRepair: [UInt8] = Array("q".utf8)
  package static let collections: [UInt8] = Array("c".utf8)
  static let nextShape: [UInt8] = Array("t".utf8)
  static let nextVersion: [UInt8] = Array("w".utf8)
  package static let dropped: [UInt8] = Array("d".utf8)
  package static let extensions: [UInt8] = Array("e".utf8)
  package static let coders: [UInt8] = Array("o".utf8)
  package static let nextCoder: [UInt8] = Array("p".utf8)
  package static let shapes: [UInt8] = Array("s".utf8)
  package static let versions: [UInt8] = Array("v".utf8)
  package static let settings: [UInt8] = Array("x".utf8)

  /// The format that this version writes, and the highest format that it reads.
  package static let currentFormat: UInt32 = 1

  package static func collection(_ name: String) -> [UInt8] { collections + Array(Name.composed(name).utf8) }
  package static func dropped(_ collection: UInt32) -> [UInt8] { dropped + BigEndian.bytes(collection) }
  package static func databaseExtension(_ name: String) -> [UInt8] { extensions + Array(Name.composed(name).utf8) }
  package static func coder(_ number: UInt8) -> [UInt8] { coders + [number] }
  package static func shape(_ number: UInt32) -> [UInt8] { shapes + BigEndian.bytes(number) }
  package static func version(_ collection: UInt32, _ number: UInt32) -> [UInt8] {
    versions + BigEndian.bytes(collection) + BigEndian.bytes(number)
  }
  static func versions(of collection: UInt32) -> [UInt8] { versions + BigEndian.bytes(collection) }
  static func settings(of number: UInt32) -> [UInt8] { settings + BigEndian.bytes(number) }
}

/// The big-endian encoding of numbers, whose bytes have the same order as the numbers.
package enum BigEndian {
  package static func bytes<Number: FixedWidthInteger>(_ number: Number) -> [UInt8] {
    unsafe withUnsafeBytes(of: number.bigEndian) { unsafe [UInt8]($0) }
  }

  /// Returns the number at an offset, or `nil` if there are too few bytes.
  package static func number<Number: FixedWidthInteger>(
    _ bytes: [UInt8], at offset: Int = 0, as type: Number.Type = Number.self
  ) -> Number? {
    let count = Number.bitWidth / 8
    guard offset >= 0, bytes.count - offset >= count else { return nil }
    return bytes[offset..<(offset + count)].reduce(0) { $0 << 8 | Number(truncatingIfNeeded: $1) }
  }
}

extension CatalogKey {
  /// Returns the name after the tag of a key. Throws `.corruption` if it is not text.
  package static func name(in key: [UInt8], after size: Int = 1) throws -> String {
    guard let name = String(validating: key.dropFirst(size), as: UTF8.self) else {
      throw DatabaseError(.corruption, "a name in the catalog is not UTF-8: \(KeyText.text(of: key))")
    }
    return name
  }
}
