/// A JSON object on one line, composed of members whose values may be JSON already. The members are sorted by their
/// names, as `JSONText` sorts them.
struct JSONLine {
  private var members: [(name: String, json: String)] = []

  mutating func add(_ name: String, json: String) { members.append((name, json)) }
  mutating func add(_ name: String, _ text: String) { add(name, json: Self.quoted(text)) }
  mutating func add(_ name: String, _ number: some FixedWidthInteger) { add(name, json: "\(number)") }

  /// The text of the line without a newline.
  var text: String {
    let sorted = members.sorted { $0.name < $1.name }
    return "{" + sorted.map { Self.quoted($0.name) + ":" + $0.json }.joined(separator: ",") + "}"
  }

  static func array(_ elements: [String]) -> String { "[" + elements.joined(separator: ",") + "]" }

  /// Returns a text as a JSON string. Unicode's line separators are escaped too, because some readers treat them as the
  /// end of a line.
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

  /// Returns JSON for people: characters that would break a line or a column, or move a terminal's cursor, are escaped.
  ///
  /// Between values JSON has no such characters except blanks, and those are spaces here.
  static func printable(_ json: String) -> String {
    guard json.unicodeScalars.contains(where: breaksLines) else { return json }
    return json.unicodeScalars.reduce(into: "") { text, scalar in
      if breaksLines(scalar) { text += escape(scalar) } else { text.unicodeScalars.append(scalar) }
    }
  }

  private static func breaksLines(_ scalar: Unicode.Scalar) -> Bool {
    scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value) || (0x2028...0x2029).contains(scalar.value)
  }

  /// Returns the escape sequence of a scalar of at most 16 bits.
  private static func escape(_ scalar: Unicode.Scalar) -> String {
    let digits = String(scalar.value, radix: 16)
    return "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
  }
}
