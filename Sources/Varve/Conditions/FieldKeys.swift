/// Sets of the values of a field, by their keys. Nil everywhere where values of the type are not keys.
enum FieldKeys {
  /// The key of a value; nil where its type has no keys, or the value has no key, as a NaN.
  static func key<Value>(_ value: Value) -> [UInt8]? {
    func encoded<Key: KeyCodable>(_ type: Key.Type) -> [UInt8]? { (value as? Key).flatMap { try? $0.encoded() } }
    return (Value.self as? any KeyCodable.Type).flatMap { encoded($0) }
  }

  private static func isKey<Value>(_ type: Value.Type) -> Bool { type is any KeyCodable.Type }

  /// These values. One without a key equals none.
  static func some<Value>(_ values: some Sequence<Value>) -> KeySet? {
    isKey(Value.self) ? KeySet(keys: values.compactMap { key($0) }) : nil
  }

  /// The values that are less than one. Of one without a key, none.
  static func below<Value>(_ value: Value, orEqual: Bool) -> KeySet? {
    guard isKey(Value.self) else { return nil }
    guard let key = key(value) else { return KeySet.none }
    return KeySet(to: orEqual ? KeyRange.end(ofParts: key) : key)
  }

  /// The values that are greater than one. Of one without a key, none.
  static func above<Value>(_ value: Value, orEqual: Bool) -> KeySet? {
    guard isKey(Value.self) else { return nil }
    guard let key = key(value) else { return KeySet.none }
    return KeySet(from: orEqual ? key : KeyRange.end(ofParts: key))
  }

  /// The values of a range.
  static func range<Value>(_ lower: Value, _ upper: Value, isClosed: Bool) -> KeySet? {
    guard let first = above(lower, orEqual: true), let second = below(upper, orEqual: isClosed) else { return nil }
    return first.intersection(second)
  }

  /// The strings that begin with one.
  static func prefix(_ prefix: String, isOptional: Bool) -> KeySet {
    let bytes = KeyRange.prefix(ofStrings: prefix, after: isOptional ? [KeyTag.some] : [])
    return KeySet(from: bytes, to: KeyRange.successor(ofPrefix: bytes))
  }

  /// The same values, each as an optional.
  static func wrapped(_ set: KeySet) -> KeySet { set.following([KeyTag.some]) }

  /// Whether a value is in a set.
  static func has<Value>(_ set: KeySet, _ value: Value) -> Bool { key(value).map(set.contains) ?? set.hasUnkeyed }
}
