#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// JSON as every command prints it: one object a line, members in the order of their names, so that
/// equal content is equal text.
enum JSONText {
  static func bytes(_ value: some Encodable) throws -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return Array(try encoder.encode(value))
  }

  /// A line for a report that must not fail: a description replaces what can't be encoded.
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
