/// A JSON value that retains what a typed decoder loses: the text of numbers, and the position of each value in the
/// text.
///
/// Rows are compared by their bytes, so a 128-bit integer or a stored text with its own blanks must be preserved.
indirect enum JSONValue {
  case null
  case bool(Bool)
  /// A number as it is written.
  case number(String)
  case string(String)
  case array([JSONValue])
  case object([Member])

  struct Member {
    let name: String
    let value: JSONValue
    /// The range of the value in the text.
    let range: Range<Int>
  }

  /// Parses a complete text as one value. Throws an error that describes the fault and its position.
  static func parse(_ text: [UInt8]) throws(RecordError) -> JSONValue {
    guard String(validating: text, as: UTF8.self) != nil else { throw RecordError("not valid UTF-8") }
    var parser = JSONParser(text)
    return try parser.whole()
  }

  /// Returns whether both values are equal however they are written: numbers by their value, members in any order.
  func isSame(as other: JSONValue) -> Bool {
    switch (self, other) {
    case (.null, .null): return true
    case (.bool(let left), .bool(let right)): return left == right
    case (.string(let left), .string(let right)): return left.unicodeScalars.elementsEqual(right.unicodeScalars)
    case (.number(let left), .number(let right)):
      if left == right { return true }
      if let left = Int128(left), let right = Int128(right) { return left == right }
      return Double(left) == Double(right)
    case (.array(let left), .array(let right)):
      return left.count == right.count && zip(left, right).allSatisfy { $0.isSame(as: $1) }
    case (.object(let left), .object(let right)):
      guard left.count == right.count else { return false }
      let known = Dictionary(right.map { ($0.name, $0.value) }, uniquingKeysWith: { first, _ in first })
      return left.allSatisfy { member in known[member.name].map { member.value.isSame(as: $0) } ?? false }
    default: return false
    }
  }
}

/// Parses JSON strictly according to RFC 8259.
private struct JSONParser {
  /// The maximum nesting: that of Foundation, and a few levels for the values around an object.
  private static let depthMaximum = 520
  private let text: [UInt8]
  private var index = 0

  init(_ text: [UInt8]) { self.text = text }

  mutating func whole() throws(RecordError) -> JSONValue {
    skipBlanks()
    let value = try value(depth: 1)
    skipBlanks()
    guard index == text.count else { throw wrong("something follows the value") }
    return value
  }

  private mutating func value(depth: Int) throws(RecordError) -> JSONValue {
    guard depth <= Self.depthMaximum else { throw wrong("it is nested deeper than \(Self.depthMaximum) levels") }
    switch peek {
    case UInt8(ascii: "{"): return try object(depth)
    case UInt8(ascii: "["): return try array(depth)
    case UInt8(ascii: "\""): return .string(try string())
    case UInt8(ascii: "t"): return try word("true", .bool(true))
    case UInt8(ascii: "f"): return try word("false", .bool(false))
    case UInt8(ascii: "n"): return try word("null", .null)
    default: return .number(try number())
    }
  }

  private mutating func object(_ depth: Int) throws(RecordError) -> JSONValue {
    index += 1
    var members: [JSONValue.Member] = []
    skipBlanks()
    if take("}") { return .object([]) }
    repeat {
      skipBlanks()
      let name = try string()
      skipBlanks()
      guard take(":") else { throw wrong("a colon is missing") }
      skipBlanks()
      let begin = index
      let value = try value(depth: depth + 1)
      members.append(JSONValue.Member(name: name, value: value, range: begin..<index))
      skipBlanks()
    } while take(",")
    guard take("}") else { throw wrong("the end of an object is missing") }
    return .object(members)
  }

  private mutating func array(_ depth: Int) throws(RecordError) -> JSONValue {
    index += 1
    var values: [JSONValue] = []
    skipBlanks()
    if take("]") { return .array([]) }
    repeat {
      skipBlanks()
      values.append(try value(depth: depth + 1))
      skipBlanks()
    } while take(",")
    guard take("]") else { throw wrong("the end of an array is missing") }
    return .array(values)
  }

  private mutating func word(_ word: String, _ value: JSONValue) throws(RecordError) -> JSONValue {
    guard text[index...].starts(with: word.utf8) else { throw wrong("no value begins here") }
    index += word.utf8.count
    return value
  }

  private mutating func number() throws(RecordError) -> String {
    let begin = index
    _ = take("-")
    if !take("0") { try digits("no value begins here") }
    if take(".") { try digits("digits are missing after the decimal point") }
    if take("e") || take("E") {
      if !take("+") { _ = take("-") }
      try digits("digits are missing in the exponent")
    }
    return String(decoding: text[begin..<index], as: UTF8.self)
  }

  private mutating func digits(_ message: String) throws(RecordError) {
    let begin = index
    while let byte = peek, (0x30...0x39).contains(byte) { index += 1 }
    guard index > begin else { throw wrong(message) }
  }

  // MARK: - Strings

  private mutating func string() throws(RecordError) -> String {
    guard take("\"") else { throw wrong("a string is missing") }
    var bytes: [UInt8] = []
    while let byte = peek {
      index += 1
      switch byte {
      case UInt8(ascii: "\""): return String(decoding: bytes, as: UTF8.self)
      case UInt8(ascii: "\\"): bytes += String(try escape()).utf8
      case ..<0x20: throw wrong("a control character stands in a string; escape it")
      default: bytes.append(byte)
      }
    }
    throw wrong("a string does not end")
  }

  private mutating func escape() throws(RecordError) -> Unicode.Scalar {
    guard let byte = peek else { throw wrong("a string does not end") }
    index += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
    case UInt8(ascii: "b"): return "\u{8}"
    case UInt8(ascii: "f"): return "\u{c}"
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "u"): break
    default: throw wrong("an escape is none of JSON")
    }
    let first = try unit()
    if let scalar = Unicode.Scalar(first) { return scalar }
    // Two units of UTF-16 represent one scalar.
    guard (0xd800..<0xdc00).contains(first), take("\\"), take("u") else { throw wrong("half a character is escaped") }
    let second = try unit()
    guard (0xdc00..<0xe000).contains(second),
      let scalar = Unicode.Scalar(0x10000 + (first - 0xd800) << 10 + (second - 0xdc00))
    else { throw wrong("half a character is escaped") }
    return scalar
  }

  private mutating func unit() throws(RecordError) -> UInt32 {
    guard index + 4 <= text.count, let bytes = HexText.bytes(String(decoding: text[index..<index + 4], as: UTF8.self))
    else { throw wrong("four hexadecimal digits are missing") }
    index += 4
    return UInt32(bytes[0]) << 8 | UInt32(bytes[1])
  }

  // MARK: - Bytes

  private var peek: UInt8? { index < text.count ? text[index] : nil }

  private mutating func take(_ character: Unicode.Scalar) -> Bool {
    guard peek == UInt8(ascii: character) else { return false }
    index += 1
    return true
  }

  private mutating func skipBlanks() {
    while let byte = peek, byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d { index += 1 }
  }

  private func wrong(_ message: String) -> RecordError { RecordError("not valid JSON at byte \(index): \(message)") }
}
