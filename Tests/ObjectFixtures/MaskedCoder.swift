import Foundation
import Varve

/// A coder that is defined by a program: JSON whose bytes are masked, so that none of Varve's coders can read them.
struct MaskedCoder: ObjectCoder {
  static let storedName = "org.example.masked"

  static func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] { try Masking.encode(value, 0x5A) }

  static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
    try Masking.decode(type, bytes, 0x5A)
  }
}

/// A second coder of the same kind, for a change of the coder.
struct SecondCoder: ObjectCoder {
  static let storedName = "org.example.second"

  static func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] { try Masking.encode(value, 0xA5) }

  static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
    try Masking.decode(type, bytes, 0xA5)
  }
}

/// An error for bytes that the coders cannot read.
struct UnmaskedBytes: Error, Equatable { var first: UInt8? }

private enum Masking {
  static func encode<Value: Encodable>(_ value: Value, _ mask: UInt8) throws -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    return [mask] + [UInt8](try encoder.encode(value)).map { $0 ^ mask }
  }

  static func decode<Value: Decodable>(_ type: Value.Type, _ bytes: [UInt8], _ mask: UInt8) throws -> Value {
    guard bytes.first == mask else { throw UnmaskedBytes(first: bytes.first) }
    return try JSONDecoder().decode(type, from: Data(bytes.dropFirst().map { $0 ^ mask }))
  }
}
