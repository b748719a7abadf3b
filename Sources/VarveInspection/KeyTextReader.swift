internal import Foundation
public import Varve

/// Parses keys from the text that `KeyText` writes, by the type of the keys.
///
///     "a"   42   1.5   true   nil   0xc0ffee   2026-02-03T04:05:06.789Z   ("a", 42, nil)
///
/// The type determines the meaning of a text: an optional with a value is written like the value, so the text alone
/// does not show whether it is an optional. For a type with its own name, each part is parsed as what it looks like,
/// which is right unless it is an optional.
struct KeyTextReader {
  private let text: [UInt8]
  private let whole: String
  private var index = 0
  private var encoder = KeyEncoder(capacity: 40)
  private var partCount = 0
  private var isTuple = false
  /// Whether the text may have fewer parts than the type.
  private let takesFewer: Bool

  private init(_ text: String, takesFewer: Bool) {
    whole = text
    self.text = Array(text.utf8)
    self.takesFewer = takesFewer
  }

  /// Returns the complete key for a text. Throws `.invalidKey`.
  static func key(_ text: String, _ form: KeyForm) throws -> [UInt8] {
    if form.isText, !isQuoted(text) { return try bare(text, form) }
    var reader = KeyTextReader(text, takesFewer: false)
    try reader.read(form)
    return reader.encoder.bytes
  }

  /// Returns the key, or the first parts of one, for a text.
  static func parts(_ text: String, _ form: KeyForm) throws -> [UInt8] {
    if form.isText, !isQuoted(text) { return try bare(text, form) }
    var reader = KeyTextReader(text, takesFewer: true)
    try reader.read(form)
    return reader.encoder.bytes
  }

  /// Returns the string that a text stands for, with or without quotation marks.
  static func string(_ text: String) throws -> String {
    guard isQuoted(text) else { return text }
    var reader = KeyTextReader(text, takesFewer: false)
    let string = try reader.quoted()
    guard reader.index == reader.text.count else { throw reader.invalid("text follows the string; expected the end") }
    return string
  }

  /// Compares bytes instead of calling `hasPrefix`, because a quotation mark followed by a combining accent is one
  /// character.
  private static func isQuoted(_ text: String) -> Bool { text.utf8.first == UInt8(ascii: "\"") }

  /// Returns the key for a text without quotation marks.
  ///
  /// String keys need none: a text that doesn't begin with one is the string itself.
  private static func bare(_ text: String, _ form: KeyForm) throws -> [UInt8] {
    var encoder = KeyEncoder(capacity: 40)
    if case .optional = form {
      if text == "nil" {
        encoder.appendNil()
        return encoder.bytes
      }
      encoder.appendSome()
    }
    encoder.append(string: text)
    return encoder.bytes
  }

  // MARK: - Parts

  private mutating func read(_ form: KeyForm) throws {
    if text.first == UInt8(ascii: "(") {
      isTuple = true
      index = 1
    }
    if case .other = form {
      while !isAtEnd { try readGuess() }
    } else {
      _ = try read(part: form)
    }
    if isTuple {
      guard take(")") else { throw invalid("it has more parts than the keys of the collection") }
    }
    guard index == text.count else { throw invalid("text follows the key; expected the end") }
  }

  private var isAtEnd: Bool { index == text.count || (isTuple && text[index] == UInt8(ascii: ")")) }

  /// Reads a part. Returns false if the text has ended and may have fewer parts.
  private mutating func read(part form: KeyForm) throws -> Bool {
    switch form {
    case .compound(let forms):
      for form in forms {
        if try !read(part: form) { return false }
      }
      return true
    case .other:
      while !isAtEnd { try readGuess() }
      return true
    default: break
    }
    guard try beginPart() else { return false }
    try readValue(form)
    return true
  }

  /// Skips the separator before a part. Returns false if the text has ended and may have fewer parts.
  private mutating func beginPart() throws -> Bool {
    if isAtEnd {
      guard takesFewer, partCount > 0 else { throw invalid("it has fewer parts than the keys of the collection") }
      return false
    }
    if partCount > 0 {
      guard take(",") else { throw invalid("a comma is missing between two parts") }
      while take(" ") {}
    }
    partCount += 1
    return true
  }

  private mutating func readValue(_ form: KeyForm) throws {
    switch form {
    case .string: encoder.append(string: try quoted())
    case .integer: try readInteger(word())
    case .double:
      let word = word()
      guard let value = Double(word) else { throw invalid("\(word) is not a number") }
      try encoder.append(double: value)
    case .bool:
      if take("true") {
        encoder.append(bool: true)
      } else if take("false") {
        encoder.append(bool: false)
      } else {
        throw invalid("it is neither true nor false")
      }
    case .data: encoder.append(data: Data(try hexadecimal(word())))
    case .uuid:
      let word = word()
      guard let value = UUID(uuidString: word) else { throw invalid("\(word) is not a UUID") }
      encoder.append(uuid: value)
    case .date: try encoder.append(date: try date())
    case .decimal: try encoder.append(decimal: try decimal())
    case .duration:
      let word = word()
      guard let value = DurationText.duration(word) else { throw invalid("\(word) is not a duration like 1.5s") }
      encoder.append(duration: value)
    case .descending(let ascending):
      encoder.invert()
      defer { encoder.invert() }
      try readValue(ascending)
    case .optional(let wrapped): try readOptional(wrapped)
    case .compound(let forms):
      // This is inside an optional whose first part has begun already.
      guard let first = forms.first else { return }
      try readValue(first)
      for form in forms.dropFirst() {
        if try !read(part: form) { return }
      }
    case .other: try readGuessedValue()
    }
  }

  private mutating func readOptional(_ wrapped: KeyForm) throws {
    if take("nil") { return encoder.appendNil() }
    encoder.appendSome()
    guard case .optional(let inner) = wrapped else { return try readValue(wrapped) }
    guard take("some(") else { throw invalid("an optional of an optional is nil or some(...)") }
    try readOptional(inner)
    guard take(")") else { throw invalid("the end of some(...) is missing") }
  }

  // MARK: - Values

  private mutating func readInteger(_ word: String) throws {
    if let value = Int128(word) {
      try encoder.append(integer: value)
    } else if let value = UInt128(word) {
      try encoder.append(integer: value)
    } else {
      throw invalid("\(word) is not an integer of at most 128 bits")
    }
  }

  private func hexadecimal(_ word: String) throws -> [UInt8] {
    let digits = word.dropFirst(2).utf8.map { Character(Unicode.Scalar($0)).hexDigitValue }
    guard word.hasPrefix("0x"), digits.count.isMultiple(of: 2) else {
      throw invalid("\(word) is not 0x and an even number of hexadecimal digits")
    }
    return try stride(from: 0, to: digits.count, by: 2).map { location in
      guard let high = digits[location], let low = digits[location + 1] else {
        throw invalid("\(word) is not 0x and an even number of hexadecimal digits")
      }
      return UInt8(high << 4 | low)
    }
  }

  private mutating func decimal() throws -> Decimal {
    let word = word()
    // The check is needed because the initializer accepts any text that begins with a number.
    let isNumber = word.utf8.allSatisfy { "0123456789+-.eE".utf8.contains($0) }
    guard isNumber, let value = Decimal(string: word) else { throw invalid("\(word) is not a decimal number") }
    return value
  }

  private mutating func date() throws -> Date {
    if take("date(") {
      let word = word()
      guard let seconds = Double(word), take(")") else { throw invalid("date(...) holds no number of seconds") }
      return Date(timeIntervalSinceReferenceDate: seconds)
    }
    let word = word()
    guard let date = DateText.date(word) else {
      throw invalid("\(word) is not a date like 2026-02-03T04:05:06.789Z or date(SECONDS SINCE 2001)")
    }
    return date
  }

  /// Reads a part of a type with its own name, as what it looks like.
  private mutating func readGuess() throws {
    guard try beginPart() else { return }
    try readGuessedValue()
  }

  private mutating func readGuessedValue() throws {
    if index < text.count, text[index] == UInt8(ascii: "\"") { return encoder.append(string: try quoted()) }
    let start = index
    let word = word()
    index = start
    switch word {
    case "nil": try readValue(.optional(.other))
    case "true", "false": try readValue(.bool)
    case _ where word.hasPrefix("0x"): try readValue(.data)
    case _ where UUID(uuidString: word) != nil: try readValue(.uuid)
    case _ where word.hasPrefix("date(") || DateText.date(word) != nil: try readValue(.date)
    case _ where DurationText.duration(word) != nil: try readValue(.duration)
    case _ where Int128(word) != nil || UInt128(word) != nil: try readValue(.integer)
    case _ where Double(word) != nil: try readValue(.double)
    default: throw invalid("\(word) is not part of a key")
    }
  }

  // MARK: - Text

  private mutating func take(_ expected: String) -> Bool {
    guard text[index...].starts(with: expected.utf8) else { return false }
    index += expected.utf8.count
    return true
  }

  /// Returns the text before the next separator, and moves past it.
  private mutating func word() -> String {
    let begin = index
    while index < text.count, ![UInt8(ascii: ","), UInt8(ascii: ")"), UInt8(ascii: " ")].contains(text[index]) {
      index += 1
    }
    return String(decoding: text[begin..<index], as: UTF8.self)
  }

  /// Reads a quoted string, with the escapes of `KeyText`.
  private mutating func quoted() throws -> String {
    guard take("\"") else { throw invalid("a string between quotation marks is missing") }
    var bytes: [UInt8] = []
    while index < text.count {
      let byte = text[index]
      index += 1
      switch byte {
      case UInt8(ascii: "\""): return String(decoding: bytes, as: UTF8.self)
      case UInt8(ascii: "\\"): bytes += try escape()
      default: bytes.append(byte)
      }
    }
    throw invalid("a string does not end")
  }

  private mutating func escape() throws -> [UInt8] {
    for (name, meaning) in [("\"", "\""), ("\\", "\\"), ("n", "\n"), ("r", "\r"), ("t", "\t"), ("0", "\0")]
    where take(name) { return Array(meaning.utf8) }
    if take("u{"), let end = text[index...].firstIndex(of: UInt8(ascii: "}")), end - index <= 6 {
      let digits = String(decoding: text[index..<end], as: UTF8.self)
      if let scalar = UInt32(digits, radix: 16).flatMap(Unicode.Scalar.init) {
        index = end + 1
        return Array(String(scalar).utf8)
      }
    }
    throw invalid("an escape is none of \\\" \\\\ \\n \\r \\t \\0 \\u{...}")
  }

  private func invalid(_ message: String) -> DatabaseError { DatabaseError(.invalidKey, message, key: whole) }
}

extension KeyForm {
  /// Whether keys are strings, or strings and nil.
  fileprivate var isText: Bool { self == .string || self == .optional(.string) }
}

/// Parses the durations that `KeyText` writes.
private enum DurationText {
  /// Returns the duration of a text such as `-1.5s`, or `nil` if the text is not a duration.
  static func duration(_ text: String) -> Duration? {
    guard text.utf8.last == UInt8(ascii: "s") else { return nil }
    let pieces = text.dropLast().split(separator: ".", omittingEmptySubsequences: false)
    guard (1...2).contains(pieces.count), let seconds = Int64(pieces[0]) else { return nil }
    guard pieces.count == 2 else { return Duration(secondsComponent: seconds, attosecondsComponent: 0) }
    let digits = pieces[1].utf8
    guard (1...18).contains(digits.count), digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    let padded = String(pieces[1]) + String(repeating: "0", count: 18 - digits.count)
    guard let fraction = Int64(padded) else { return nil }
    let isNegative = pieces[0].utf8.first == UInt8(ascii: "-")
    return Duration(secondsComponent: seconds, attosecondsComponent: isNegative ? -fraction : fraction)
  }
}

/// Parses the dates that `KeyText` writes.
private enum DateText {
  /// Returns the date of a text such as `2026-02-03T04:05:06.789Z`, or `nil` if the text is not a date.
  ///
  /// A text written by `KeyText` yields the same double.
  static func date(_ text: String) -> Date? {
    let bytes = Array(text.utf8)
    guard bytes.count >= 20, bytes.last == UInt8(ascii: "Z"), separatorsAreRight(bytes),
      let year = number(bytes, 0..<4), let month = number(bytes, 5..<7), let day = number(bytes, 8..<10),
      let hour = number(bytes, 11..<13), let minute = number(bytes, 14..<16), let second = number(bytes, 17..<19),
      (1...12).contains(month), (1...dayCount(year, month)).contains(day), hour < 24, minute < 60, second < 60
    else { return nil }
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
    let fraction = bytes[19..<(bytes.count - 1)]
    if fraction.isEmpty { return Date(timeIntervalSinceReferenceDate: Double(seconds)) }
    guard fraction.first == UInt8(ascii: "."), fraction.count > 1, fraction.count <= 21 else { return nil }
    guard let part = Int128(String(decoding: fraction.dropFirst(), as: UTF8.self)), part >= 0 else { return nil }
    return Double(decimal(seconds, part, digits: fraction.count - 1)).map {
      Date(timeIntervalSinceReferenceDate: $0)
    }
  }

  private static func separatorsAreRight(_ bytes: [UInt8]) -> Bool {
    bytes[4] == UInt8(ascii: "-") && bytes[7] == UInt8(ascii: "-") && bytes[10] == UInt8(ascii: "T")
      && bytes[13] == UInt8(ascii: ":") && bytes[16] == UInt8(ascii: ":")
  }

  private static func number(_ bytes: [UInt8], _ range: Range<Int>) -> Int? {
    let digits = bytes[range]
    guard digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
  }

  private static func dayCount(_ year: Int, _ month: Int) -> Int {
    if month == 2 { return year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400)) ? 29 : 28 }
    return [4, 6, 9, 11].contains(month) ? 30 : 31
  }

  /// Returns the number of days from 2001-01-01 to a date of the proleptic Gregorian calendar.
  ///
  /// Years start in March, so that a leap day is the last day of a year.
  private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int {
    // 400 years are added, so that no term is negative.
    let shifted = (month <= 2 ? year - 1 : year) + 400
    let yearOfEra = shifted % 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    return (shifted / 400 - 1) * 146_097 + dayOfEra - 730_791
  }

  /// Returns seconds and a fraction as a decimal number, so that it is rounded only once, to the nearest double.
  private static func decimal(_ seconds: Int, _ fraction: Int128, digits: Int) -> String {
    var scale: Int128 = 1
    for _ in 0..<digits { scale *= 10 }
    let scaled = Int128(seconds) * scale + fraction
    let text = "\(scaled.magnitude)"
    let padded = String(repeating: "0", count: max(0, digits + 1 - text.utf8.count)) + text
    return (scaled < 0 ? "-" : "") + padded.dropLast(digits) + "." + padded.suffix(digits)
  }
}

extension KeyText {
  /// Returns the encoded key of a type for a text as `text(of:)` writes it.
  ///
  /// The quotation marks are optional for string keys and optional string keys.
  ///
  /// *Throws* `.invalidKey` if the text is not a key.
  public static func key(_ text: String, as type: KeyType) throws -> [UInt8] {
    try KeyTextReader.key(text, KeyForm(type.name))
  }
}
