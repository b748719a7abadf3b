/// Encodes values as JSON in one line. The engine does not use Foundation.
///
/// The members of an object are in the order in which the value encodes them. NaN and infinities are written as 0,
/// because JSON cannot represent them.
enum JSONText {
  static func of(_ value: some Encodable) -> String {
    switch value {
    case let text as String: return quoted(text)
    case let flag as Bool: return flag ? "true" : "false"
    case let number as any BinaryInteger: return "\(number)"
    case let number as Double: return number.isFinite ? "\(number)" : "0"
    default:
      let node = JSONNode()
      do { try value.encode(to: node) } catch {
        fatalError("the containers of JSON throw no error, but a value of type \(type(of: value)) did: \(error)")
      }
      return node.text
    }
  }

  fileprivate static func quoted(_ value: String) -> String {
    var result = "\""
    for scalar in value.unicodeScalars {
      switch scalar {
      case "\"": result += "\\\""
      case "\\": result += "\\\\"
      case _ where scalar.value < 0x20:
        let digits = String(scalar.value, radix: 16)
        result += "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result + "\""
  }
}

/// An object, an array or a single value while it is encoded.
private final class JSONNode: Encoder {
  /// The elements, or the members with their names, each with the node of its text.
  private var parts: [(prefix: String, node: JSONNode)] = []
  private var brackets = ("", "")
  private var single = "null"

  var codingPath: [any CodingKey] { [] }
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  var text: String {
    if brackets.0.isEmpty { return single }
    return brackets.0 + parts.map { $0.prefix + $0.node.text }.joined(separator: ",") + brackets.1
  }

  var count: Int { parts.count }

  /// Adds an element, or a member if it has a name.
  func add(_ name: String? = nil) -> JSONNode {
    let node = JSONNode()
    parts.append((name.map { JSONText.quoted($0) + ":" } ?? "", node))
    return node
  }

  func set(_ text: String) { single = text }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
    brackets = ("{", "}")
    return KeyedEncodingContainer(JSONObject(node: self))
  }

  func unkeyedContainer() -> any UnkeyedEncodingContainer {
    brackets = ("[", "]")
    return JSONArray(node: self)
  }

  func singleValueContainer() -> any SingleValueEncodingContainer { JSONValue(node: self) }
}

private struct JSONObject<Key: CodingKey>: KeyedEncodingContainerProtocol {
  let node: JSONNode
  var codingPath: [any CodingKey] { [] }

  func encodeNil(forKey key: Key) { node.add(key.stringValue).set("null") }
  func encode(_ value: some Encodable, forKey key: Key) { node.add(key.stringValue).set(JSONText.of(value)) }
  func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) -> KeyedEncodingContainer<Nested>
  {
    node.add(key.stringValue).container(keyedBy: type)
  }
  func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
    node.add(key.stringValue).unkeyedContainer()
  }
  func superEncoder() -> any Encoder { node.add("super") }
  func superEncoder(forKey key: Key) -> any Encoder { node.add(key.stringValue) }
}

private struct JSONArray: UnkeyedEncodingContainer {
  let node: JSONNode
  var codingPath: [any CodingKey] { [] }
  var count: Int { node.count }

  func encodeNil() { node.add().set("null") }
  func encode(_ value: some Encodable) { node.add().set(JSONText.of(value)) }
  func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
    node.add().container(keyedBy: type)
  }
  func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { node.add().unkeyedContainer() }
  func superEncoder() -> any Encoder { node.add() }
}

private struct JSONValue: SingleValueEncodingContainer {
  let node: JSONNode
  var codingPath: [any CodingKey] { [] }

  func encodeNil() { node.set("null") }
  func encode(_ value: some Encodable) { node.set(JSONText.of(value)) }
}
