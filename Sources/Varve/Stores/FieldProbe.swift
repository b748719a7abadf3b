internal import Synchronization

/// Collects the names of the fields that an object encodes at its top level. Debug builds use it to find metadata that
/// is encoded with its object.
final class FieldProbe: Encoder {
  let codingPath: [any CodingKey] = []
  let userInfo: [CodingUserInfoKey: Any] = [:]
  fileprivate(set) var names: Set<String> = []
  /// Whether the probe is for the top level, whose fields are noted.
  fileprivate let isTop: Bool
  /// Whether the object encoded another value instead of itself, whose fields it then has. Only one is followed,
  /// because a number encodes itself.
  fileprivate var hasFollowed = false

  fileprivate init(isTop: Bool) { self.isTop = isTop }

  private static let checked = Mutex<Set<ObjectIdentifier>>([])

  /// Throws `.invalidDefinition` if the object encodes a field `metadata`. Each type is checked until one object has
  /// passed.
  static func check<Object: Encodable>(_ object: Object, collection: String) throws {
    let id = ObjectIdentifier(Object.self)
    if checked.withLock({ $0.contains(id) }) { return }
    let probe = FieldProbe(isTop: true)
    // The coder throws the same error when it encodes the object.
    try? object.encode(to: probe)
    guard !probe.names.contains("metadata") else {
      throw DatabaseError(
        .invalidDefinition,
        "\(Object.self) encodes its metadata with the object, so that it is stored twice; write "
          + "\"@StoredSeparately var metadata\", or leave it out of the coding keys", collection: collection)
    }
    checked.withLock { _ = $0.insert(id) }
  }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
    KeyedEncodingContainer(ProbedFields<Key>(probe: self))
  }

  func unkeyedContainer() -> any UnkeyedEncodingContainer { ProbedValues() }

  func singleValueContainer() -> any SingleValueEncodingContainer { ProbedValue(probe: self) }
}

private struct ProbedFields<Key: CodingKey>: KeyedEncodingContainerProtocol {
  let probe: FieldProbe
  var codingPath: [any CodingKey] { [] }

  private func note(_ key: Key) {
    if probe.isTop { probe.names.insert(key.stringValue) }
  }

  func encodeNil(forKey key: Key) { note(key) }
  func encode<Value: Encodable>(_ value: Value, forKey key: Key) { note(key) }

  func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) -> KeyedEncodingContainer<Nested>
  {
    note(key)
    return FieldProbe(isTop: false).container(keyedBy: type)
  }

  func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
    note(key)
    return ProbedValues()
  }

  func superEncoder() -> any Encoder { FieldProbe(isTop: false) }

  func superEncoder(forKey key: Key) -> any Encoder {
    note(key)
    return FieldProbe(isTop: false)
  }
}

private struct ProbedValues: UnkeyedEncodingContainer {
  var codingPath: [any CodingKey] { [] }
  private(set) var count = 0

  mutating func encodeNil() { count += 1 }
  mutating func encode<Value: Encodable>(_ value: Value) { count += 1 }

  mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
    count += 1
    return FieldProbe(isTop: false).container(keyedBy: type)
  }

  mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
    count += 1
    return ProbedValues()
  }

  mutating func superEncoder() -> any Encoder {
    count += 1
    return FieldProbe(isTop: false)
  }
}

private struct ProbedValue: SingleValueEncodingContainer {
  let probe: FieldProbe
  var codingPath: [any CodingKey] { [] }

  func encodeNil() {}
  func encode<Value: Encodable>(_ value: Value) throws {
    guard !probe.hasFollowed else { return }
    probe.hasFollowed = true
    try value.encode(to: probe)
  }
}
