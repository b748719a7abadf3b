/// A coder of a program's own: how `Codable` values become bytes in a form that Varve does not know.
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
/// The catalog has `storedName`, and a number for it: 16 to 255, in the order in which coders of programs were first used in
/// the database. The record of a collection has the number (`CollectionRecord`), and a row that another coder of its
/// collection wrote has it too (`RowHeader`). After the header a row has the bytes that `encode` returned, and nothing else.
/// So the name never changes, and what a name stands for reads what it has written before. Another form needs another name,
/// and the format says what was before: ``RowFormat/formerCoders``.
///
/// A program that meets a row of a coder that it has not named gets `.unknownCoder` with the stored name. Tools show such rows
/// as bytes.
///
/// Both functions are called from any thread, also from several at a time. What they throw is the cause of an
/// `.encodingFailed` or a `.decodingFailed`. `decode` receives bytes from a disk: it throws for those that it does not
/// understand, and never traps. Equal values should have equal bytes.
public protocol ObjectCoder: Sendable {
  /// The name on disk: 1 to 255 bytes of UTF-8, kept in normal form C, not one of Varve's own coders' (`raw`, `binary`, `json`,
  /// `propertyList`). A reversed domain name keeps it apart from those of others.
  static var storedName: String { get }

  /// The bytes of a value. Throws where it can't be encoded.
  static func encode<Value: Encodable>(_ value: Value) throws -> [UInt8]

  /// The value of bytes that `encode` has returned, also in an earlier version of the program. Throws where they are not such
  /// bytes, or not of the type.
  static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value
}

/// Stands for a coder of another program's, of which the catalog has the name alone.
package enum UnnamedCoder: ObjectCoder {
  package static let storedName = ""

  package static func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] { throw error }

  package static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value { throw error }

  private static var error: DatabaseError {
    DatabaseError(.unknownCoder, "the program has not named the coder of the collection")
  }
}
