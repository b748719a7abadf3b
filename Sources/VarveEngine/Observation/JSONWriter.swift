/// Writes JSON: objects and arrays of numbers, strings and nested values. The engine does not use Foundation.
struct JSONWriter {
  private(set) var text = ""
  private var needsComma = false

  /// Writes an object; `body` writes its members.
  mutating func object(_ name: String? = nil, _ body: (inout JSONWriter) -> Void) { wrap(name, "{", "}", body) }

  /// Writes an array; `body` writes its elements, which have no names.
  mutating func array(_ name: String? = nil, _ body: (inout JSONWriter) -> Void) { wrap(name, "[", "]", body) }

  mutating func number(_ name: String? = nil, _ value: some BinaryInteger) { raw(name, String(value)) }

  /// Writes a number. NaN and infinities are written as 0; JSON cannot represent them.
  mutating func number(_ name: String? = nil, _ value: Double) { raw(name, value.isFinite ? "\(value)" : "0") }

  mutating func string(_ name: String? = nil, _ value: String) { raw(name, Self.quoted(value)) }

  private mutating func wrap(_ name: String?, _ open: String, _ close: String, _ body: (inout JSONWriter) -> Void) {
    begin(name)
    text += open
    needsComma = false
    body(&self)
    text += close
    needsComma = true
  }

  private mutating func raw(_ name: String?, _ value: String) {
    begin(name)
    text += value
    needsComma = true
  }

  private mutating func begin(_ name: String?) {
    if needsComma { text += "," }
    if let name { text += Self.quoted(name) + ":" }
  }

  private static func quoted(_ value: String) -> String {
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
