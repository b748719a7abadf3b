internal import Foundation

/// Encodes a field of instances as a part of a key.
///
/// The caller needs to know neither the type of the instance nor that of the field: with generic types, each row of
/// each index would request their metadata from the runtime.
class FieldEncoder: @unchecked Sendable {
  // Unchecked: subclasses have only constants.

  /// Appends the encoded field of the instance at an address. Throws what encoding throws.
  func append(_ instance: InstanceAddress, to encoder: inout KeyEncoder) throws {
    preconditionFailure("a field is encoded by a subclass")
  }

  /// Returns the encoder of a field.
  static func of<Instance, Value: KeyCodable>(_ path: KeyPath<Instance, Value>) -> FieldEncoder {
    guard let offset = MemoryLayout<Instance>.offset(of: path) else { return PathEncoder(path) }
    // The most common types of fields get specialized code.
    return switch Value.self {
    case is String.Type: StoredEncoder<String>(offset)
    case is Int.Type: StoredEncoder<Int>(offset)
    case is Double.Type: StoredEncoder<Double>(offset)
    case is Bool.Type: StoredEncoder<Bool>(offset)
    case is Date.Type: StoredEncoder<Date>(offset)
    case is UUID.Type: StoredEncoder<UUID>(offset)
    case is Optional<String>.Type: StoredEncoder<String?>(offset)
    case is Optional<Int>.Type: StoredEncoder<Int?>(offset)
    case is Optional<Date>.Type: StoredEncoder<Date?>(offset)
    case is Optional<UUID>.Type: StoredEncoder<UUID?>(offset)
    default: StoredEncoder<Value>(offset)
    }
  }
}

/// The encoder of a field that is stored in the instance.
private final class StoredEncoder<Value: KeyCodable>: FieldEncoder, @unchecked Sendable {
  private let offset: Int

  init(_ offset: Int) { self.offset = offset }

  override func append(_ instance: InstanceAddress, to encoder: inout KeyEncoder) throws {
    try instance.field(at: offset, as: Value.self).encodeKey(into: &encoder)
  }
}

/// The encoder of a field that is computed, or that is reached through a reference.
private final class PathEncoder<Instance, Value: KeyCodable>: FieldEncoder, @unchecked Sendable {
  private let path: KeyPath<Instance, Value>

  init(_ path: KeyPath<Instance, Value>) { self.path = path }

  override func append(_ instance: InstanceAddress, to encoder: inout KeyEncoder) throws {
    try instance.instance(as: Instance.self)[keyPath: path].encodeKey(into: &encoder)
  }
}
