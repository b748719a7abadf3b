/// A coder of the program, which encodes `Codable` values in a format that Varve does not know.
///
/// ```swift
/// enum LinesCoder: ObjectCoder {
///   static let storedName = "com.example.lines"
///   static func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] { try LinesEncoder().encode(value) }
///   static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
///     try LinesDecoder().decode(type, from: bytes)
///   }
/// }
/// CollectionDefinition("notes", Note.self, key: UUID.self, coder: .own(LinesCoder.self))
/// ```
///
/// # On disk
/// The catalog has `storedName`, and a number for it: 16 to 255, in the order in which the program's coders were first
/// used in the database. The record of a collection has the number (`CollectionRecord`), and a row that was written by
/// another coder than its collection's has it too (`RowHeader`). After its header, a row has exactly the bytes that
/// `encode` returned.
///
/// So the name must never change, and a coder has to read everything that was written under its name. Another format
/// needs another name, and the format of the collection lists the former coders: ``RowFormat/formerCoders``.
///
/// Reading a row of a coder that the program has not named throws `.unknownCoder` with the stored name. Tools show such
/// rows as bytes.
///
/// Both functions are called from any thread, also concurrently. Their errors are the causes of `.encodingFailed` and
/// `.decodingFailed`. `decode` receives bytes from a disk: it must throw for bytes that it does not understand, and
/// never trap. Equal values should have equal bytes.
public protocol ObjectCoder: Sendable {
  /// The name on disk: 1 to 255 bytes of UTF-8, stored in normal form C, different from the names of Varve's own coders
  /// (`raw`, `binary`, `json`, `propertyList`). A reversed domain name keeps it distinct from those of others.
  static var storedName: String { get }

  /// Returns the bytes of a value. Throws if the value cannot be encoded.
  static func encode<Value: Encodable>(_ value: Value) throws -> [UInt8]

  /// Returns the value of bytes that `encode` has returned, also in an earlier version of the program. Throws if the
  /// bytes are not of this format or this type.
  static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value
}

/// A placeholder for a coder of another program, of which only the name in the catalog is known.
package enum UnnamedCoder: ObjectCoder {
  package static let storedName = ""

  package static func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] { throw error }

  package static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value { throw error }

  private static var error: DatabaseError {
    DatabaseError(.unknownCoder, "the program has not named the coder of the collection")
  }
}
