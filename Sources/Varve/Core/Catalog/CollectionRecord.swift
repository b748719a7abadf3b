/// The catalog's record of a collection. It is written when the collection is made or renamed, and when another coder
/// takes over.
///
/// ```
///  byte 0        format of this record: 1, or 2 where another coder has taken over
///  bytes 1–4     id, big-endian
///  byte 5        number of the coder that it was made with: that of rows that name none (`RowHeader`)
///  byte 6        storage: 0 the shared families, 1 families of its own
///  byte 7        only in format 2: number of the coder that writes, another than that of byte 5
///  to the end    the type of its keys, UTF-8
/// ```
/// The numbers of coders are those of `CoderKind`, and for programs' own coders those of the catalog (`CatalogKey`).
/// The format is on disk and must never change. Families of the collection's own are named `c.<id>.objects` and
/// `c.<id>.metadata`.
package struct CollectionRecord: Hashable {
  package var id: UInt32
  /// The coder with which the collection was made.
  package var coder: UInt8
  /// The coder that writes the collection.
  package var writer: UInt8
  package var isOwn: Bool
  package var keyType: String

  var bytes: [UInt8] {
    let head: [UInt8] = [writer == coder ? 1 : 2] + BigEndian.bytes(id) + [coder, isOwn ? 1 : 0]
    return head + (writer == coder ? [] : [writer]) + Array(keyType.utf8)
  }

  init(id: UInt32, coder: UInt8, writer: UInt8? = nil, isOwn: Bool, keyType: String) {
    self.id = id
    self.coder = coder
    self.writer = writer ?? coder
    self.isOwn = isOwn
    self.keyType = keyType
  }

  package init(_ bytes: [UInt8], name: String) throws {
    guard bytes.count >= 7, let id = BigEndian.number(bytes, at: 1, as: UInt32.self), bytes[6] <= 1 else {
      throw DatabaseError(.corruption, "the catalog's record is damaged", collection: name)
    }
    guard bytes[0] == 1 || bytes[0] == 2 else {
      throw DatabaseError(.unsupportedVersion, "the catalog's record has format \(bytes[0])", collection: name)
    }
    let writer = bytes[0] == 2 ? bytes.dropFirst(7).first : bytes[5]
    guard let writer, bytes[0] == 1 || writer != bytes[5] else {
      throw DatabaseError(.corruption, "the catalog's record is damaged", collection: name)
    }
    guard let keyType = String(validating: bytes[(bytes[0] == 2 ? 8 : 7)...], as: UTF8.self) else {
      throw DatabaseError(.corruption, "the catalog record has a key type that is not UTF-8", collection: name)
    }
    self.init(id: id, coder: bytes[5], writer: writer, isOwn: bytes[6] == 1, keyType: keyType)
  }

  /// Returns the name of the collection's own family for `part`.
  package func familyName(_ part: String) -> String { "c.\(id).\(part)" }

  /// Returns the number of the collection that a family belongs to, or `nil` if it belongs to none.
  static func number(ofFamily name: String) -> UInt32? {
    let parts = name.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3, parts[0] == "c" else { return nil }
    return UInt32(parts[1])
  }
}
