@testable import Varve

/// The target for the catalog.
///
/// The input is its kind (1 byte), then a record of the catalog: of a collection, of an extension, of a setting, a
/// shape, or a key with a name.
enum CatalogTarget {
  static func read(_ input: [UInt8]) throws {
    guard let kind = input.first else { throw DatabaseError(.corruption, "the input is empty") }
    let bytes = Array(input.dropFirst())
    let again: [UInt8]
    switch kind % 5 {
    case 0: again = try CollectionRecord(bytes, name: "c").bytes
    case 1: again = try ExtensionRecord(bytes, name: "e").bytes
    case 2: again = try ExtensionSetting(bytes).bytes
    case 3: again = try Shape(bytes).bytes
    default: again = Array(try CatalogKey.name(in: [0] + bytes).utf8)
    }
    try require(again == bytes, "\(bytes) is written as \(again)")
  }
}
