/// The decoding and encoding of a defined collection's objects, without their type.
struct ObjectCodec: Sendable {
  let type: any (Codable & Sendable).Type
  /// The raw values of the format's versions, in the order of their declaration. It is empty if there is no format.
  var versions: [String] = []
  var currentVersion: String?
  /// The format that made the definition, or `nil` if there is none.
  var formatID: ObjectIdentifier?
  /// The type of the metadata, or `nil` if any type is allowed.
  var metadataType: (any Sendable.Type)?
  /// The function that decodes metadata of any version, or `nil` if they are decoded as the requested type.
  var decodeMetadata: (@Sendable (StoredValue, _ version: String?) throws -> any Sendable)?
  /// Whether objects are decoded without conversion: there are no versions, and the format has no `decode` of its own.
  var isPlain = true
  /// The decoder of objects of any version, which decodes them as `type`.
  private(set) var decoder: ObjectDecoder
  var rules = ObjectRules()

  init<Object: Codable & Sendable>(_ object: Object.Type) {
    type = object
    decoder = TypedDecoder<Object> { stored, _ in try stored.decode(Object.self) }
  }

  /// Sets a decoder that decodes objects by calling `decode`.
  mutating func setDecoder<Object: Codable & Sendable>(
    _ decode: @escaping @Sendable (StoredValue, _ version: String?) throws -> Object
  ) {
    precondition(Object.self == type, "the collection holds \(type), not \(Object.self)")
    decoder = TypedDecoder(decode)
  }
}

/// A decoder of rows' objects.
class ObjectDecoder: @unchecked Sendable {
  // Unchecked: the subclass has only constants.

  func decodeAny(_ value: StoredValue, _ version: String?) throws -> Any {
    preconditionFailure("objects are decoded by a subclass")
  }

  /// Returns the object, or `nil` if the collection contains objects of another type.
  @inline(__always)
  final func object<Object>(_ type: Object.Type, _ value: StoredValue, _ version: String?) throws -> Object? {
    if let typed = self as? TypedDecoder<Object> { return try typed.decode(value, version) }
    return try decodeAny(value, version) as? Object
  }
}

/// A decoder with a known type. It avoids existentials, in which an object is allocated and has to be cast back.
private final class TypedDecoder<Object>: ObjectDecoder, @unchecked Sendable {
  let decode: @Sendable (StoredValue, _ version: String?) throws -> Object

  init(_ decode: @escaping @Sendable (StoredValue, _ version: String?) throws -> Object) { self.decode = decode }

  override func decodeAny(_ value: StoredValue, _ version: String?) throws -> Any {
    try decode(value, version)
  }
}
