import Foundation

@testable import Varve
@testable import VarveInspection

/// The target for the bytes of a key, which are read as a key of each of several types, and as parts without a type.
///
/// A type that accepts the bytes encodes the decoded key to the same bytes: a key has one encoding.
enum KeyTarget {
  /// A program's own key type.
  struct Location: KeyCodable {
    var country: String
    var number: Int?
    static var keyType: KeyType { .compound(.string, .optional(.integer)) }

    func encodeKey(into encoder: inout KeyEncoder) throws {
      try encoder.encode(country)
      try encoder.encode(number)
    }

    static func decodeKey(from decoder: inout KeyDecoder) throws -> Location {
      Location(country: try decoder.decode(), number: try decoder.decode())
    }
  }

  enum Shelf: Int, KeyCodable, CaseIterable { case fiction, science, poetry = -70_000 }

  private static let types: [any KeyCodable.Type] = [
    String.self, Int.self, Int8.self, UInt64.self, Int128.self, UInt128.self, UUID.self, Date.self, Bool.self,
    Data.self, Double.self, Float.self, Int?.self, String??.self, Shelf.self, Location.self,
    Compound<String, Int, Date?>.self, Compound<Data, Compound<Bool, Double>>.self, Compound<UUID, String>?.self,
  ]

  static func read(_ input: RawSpan) throws {
    let bytes = input.copied
    var taken: (any KeyCodable.Type)?
    for type in types where try takes(input, bytes, as: type) { taken = type }
    let isText = !KeyText.text(of: input).hasPrefix("<invalid 0x")
    do {
      let parts = try KeyPart.parts(of: input)
      try require(isText, "a key without a text: \(parts)")
    } catch let error as DatabaseError {
      try require(taken == nil, "no key, but one of \(taken.map { "\($0)" } ?? "")")
      try require(!isText, "no key, but it has a text")
      throw error
    }
  }

  /// Reads the bytes as a key of a type. Returns false if they are refused.
  private static func takes<Key: KeyCodable>(_ input: RawSpan, _ bytes: [UInt8], as type: Key.Type) throws -> Bool {
    let key: Key
    do {
      key = try Key.decoded(from: input)
    } catch let error as DatabaseError where error.code == .invalidKey || error.code == .keyTypeDiffers {
      return false
    }
    try require(try objectsAgain { try key.encoded() } == bytes, "\(type): the key \(key) has other bytes")
    let text = KeyText.text(of: bytes)
    let read = try objectsAgain { try KeyTextReader.key(text, KeyForm(Key.keyType.name)) }
    try require(read == bytes, "\(type): the text \(text) is read as another key: \(read)")
    return true
  }
}

/// Runs a read of data that the object database has written, where an error is a failure.
func objectsAgain<R>(_ body: () throws -> R) throws -> R {
  do {
    return try body()
  } catch {
    throw FuzzFailure("what was read can't be written, or not read again: \(error)")
  }
}
