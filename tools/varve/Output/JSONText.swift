#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// JSON as every command prints it: one object a line, with the members sorted by their names, so that equal content is
/// equal text.
enum JSONText {
  static func bytes(_ value: some Encodable) throws -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return Array(try encoder.encode(value))
  }

  /// Returns a line for a report that must not fail: a fixed message replaces a value that can't be encoded.
  static func line(_ value: some Encodable) -> String {
    do {
      return String(decoding: try bytes(value), as: UTF8.self)
    } catch {
      return "{\"error\":{\"message\":\"a report could not be written as JSON\"}}"
    }
  }

  static func decode<Value: Decodable>(_ type: Value.Type, _ bytes: some Sequence<UInt8>) throws -> Value {
    try JSONDecoder().decode(type, from: Data(bytes))
  }
}
