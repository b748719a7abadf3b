/// What the catalog says of a collection: written when it is made.
///
/// ```
///  byte 0        format of this record, 1
///  bytes 1–4     id, big-endian
///  byte 5        number of the coder
///  byte 6        storage: 0 the shared families, 1 families of its own
///  to the end    the type of its keys, UTF-8
/// ```
/// On disk: never change. The families of its own are named `c.<id>.objects` and `c.<id>.metadata`.
package struct CollectionRecord: Hashable {
  package var id: UInt32
  package var coder: UInt8
  package var isOwn: Bool
  package var keyType: String

  var bytes: [UInt8] { [1] + BigEndian.bytes(id) + [coder, isOwn ? 1 : 0] + Array(keyType.utf8) }

  init(id: UInt32, coder: UInt8, isOwn: Bool, keyType: String) {
    self.id = id
    self.coder = coder
    self.isOwn = isOwn
    self.keyType = keyType
  }

  package init(_ bytes: [UInt8], name: String) throws {
    guard bytes.count >= 7, let id = BigEndian.number(bytes, at: 1, as: UInt32.self), bytes[6] <= 1 else {
      throw DatabaseError(.corruption, "the catalog's record is damaged", collection: name)
    }
    guard bytes[0] == 1 else {
      throw DatabaseError(.unsupportedVersion, "the catalog's record has format \(bytes[0])", collection: name)
    }
    guard let keyType = String(validating: bytes[7...], as: UTF8.self) else {
      throw DatabaseError(.corruption, "the catalog record has a key type that is not UTF-8", collection: name)
    }
    self.init(id: id, coder: bytes[5], isOwn: bytes[6] == 1, keyType: keyType)
  }

  /// The name of the family of its own that holds `part`.
  package func familyName(_ part: String) -> String { "c.\(id).\(part)" }

  /// The number of the collection that a family belongs to; nil for a family of none.
  static func number(ofFamily name: String) -> UInt32? {
    let parts = name.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3, parts[0] == "c" else { return nil }
    return UInt32(parts[1])
  }
}
