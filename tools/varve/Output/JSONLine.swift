/// A JSON object on one line, put together of members whose values may be JSON already: members in the order of
/// their names, as `JSONText` has them.
struct JSONLine {
  private var members: [(name: String, json: String)] = []

  mutating func add(_ name: String, json: String) { members.append((name, json)) }
  mutating func add(_ name: String, _ text: String) { add(name, json: Self.quoted(text)) }
  mutating func add(_ name: String, _ number: some FixedWidthInteger) { add(name, json: "\(number)") }

  /// The line, without its newline.
  var text: String {
    let sorted = members.sorted { $0.name < $1.name }
    return "{" + sorted.map { Self.quoted($0.name) + ":" + $0.json }.joined(separator: ",") + "}"
  }

  static func array(_ elements: [String]) -> String { "[" + elements.joined(separator: ",") + "]" }

  /// A string of JSON. Line separators of Unicode are escaped too: some readers of lines take them for the end of one.
  static func quoted(_ text: String) -> String {
    var quoted = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": quoted += "\\\""
      case "\\": quoted += "\\\\"
      case "\n": quoted += "\\n"
      case "\r": quoted += "\\r"
      case "\t": quoted += "\\t"
      case _ where breaksLines(scalar): quoted += escape(scalar)
      default: quoted.unicodeScalars.append(scalar)
      }
    }
    return quoted + "\""
  }

  /// JSON for people: what would break a line or a column, or move a terminal's cursor, is escaped. Between values JSON
  /// has no such character but blanks, and those are spaces here.
  static func printable(_ json: String) -> String {
    guard json.unicodeScalars.contains(where: breaksLines) else { return json }
    return json.unicodeScalars.reduce(into: "") { text, scalar in
      if breaksLines(scalar) { text += escape(scalar) } else { text.unicodeScalars.append(scalar) }
    }
  }

  private static func breaksLines(_ scalar: Unicode.Scalar) -> Bool {
    scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value) || (0x2028...0x2029).contains(scalar.value)
  }

  /// Of a scalar of at most 16 bits.
  private static func escape(_ scalar: Unicode.Scalar) -> String {
    let digits = String(scalar.value, radix: 16)
    return "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
  }
}
