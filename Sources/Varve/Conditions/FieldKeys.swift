/// Creates sets of a field's values by their keys. All results are nil if values of the type are not keys.
enum FieldKeys {
  /// Returns the key of a value, or nil if its type has no keys or the value has none, such as a NaN.
  static func key<Value>(_ value: Value) -> [UInt8]? {
    func encoded<Key: KeyCodable>(_ type: Key.Type) -> [UInt8]? { (value as? Key).flatMap { try? $0.encoded() } }
    return (Value.self as? any KeyCodable.Type).flatMap { encoded($0) }
  }

  private static func isKey<Value>(_ type: Value.Type) -> Bool { type is any KeyCodable.Type }

  /// Returns the set of some values. A value without a key equals no value.
  static func some<Value>(_ values: some Sequence<Value>) -> KeySet? {
    isKey(Value.self) ? KeySet(keys: values.compactMap { key($0) }) : nil
  }

  /// Returns the set of values below a value. It is empty for a value without a key.
  static func below<Value>(_ value: Value, orEqual: Bool) -> KeySet? {
    guard isKey(Value.self) else { return nil }
    guard let key = key(value) else { return KeySet.none }
    return KeySet(to: orEqual ? KeyRange.end(ofParts: key) : key)
  }

  /// Returns the set of values above a value. It is empty for a value without a key.
  static func above<Value>(_ value: Value, orEqual: Bool) -> KeySet? {
    guard isKey(Value.self) else { return nil }
    guard let key = key(value) else { return KeySet.none }
    return KeySet(from: orEqual ? key : KeyRange.end(ofParts: key))
  }

  /// Returns the set of values in a range.
  static func range<Value>(_ lower: Value, _ upper: Value, isClosed: Bool) -> KeySet? {
    guard let first = above(lower, orEqual: true), let second = below(upper, orEqual: isClosed) else { return nil }
    return first.intersection(second)
  }

  /// Returns the set of strings that begin with a prefix.
  static func prefix(_ prefix: String, isOptional: Bool) -> KeySet {
    let bytes = KeyRange.prefix(ofStrings: prefix, after: isOptional ? [KeyTag.some] : [])
    return KeySet(from: bytes, to: KeyRange.successor(ofPrefix: bytes))
  }

  /// Returns the set of the same values as optionals.
  static func wrapped(_ set: KeySet) -> KeySet { set.following([KeyTag.some]) }

  /// Returns whether a value is in a set.
  static func has<Value>(_ set: KeySet, _ value: Value) -> Bool { key(value).map(set.contains) ?? set.hasUnkeyed }
}
