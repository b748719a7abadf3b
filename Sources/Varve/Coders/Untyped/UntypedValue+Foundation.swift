internal import Foundation

extension UntypedValue {
  /// Reads the kinds of values that property lists have in addition to those of JSON.
  init(foundation container: any SingleValueDecodingContainer) throws {
    if let date = try? container.decode(Date.self) {
      self = .date(date.timeIntervalSinceReferenceDate)
    } else {
      self = .bytes([UInt8](try container.decode(Data.self)))
    }
  }

  /// The value as JSON on one line, with the fields in their order. Bytes are base64, dates ISO 8601 to the
  /// millisecond, UUIDs and URLs their text, decimal numbers numbers; infinities and NaN are strings.
  package var json: String {
    var text = ""
    write(to: &text)
    return text
  }

  private func write(to text: inout String) {
    switch self {
    case .null: text += "null"
    case .bool(let value): text += value ? "true" : "false"
    case .integer(let value): text += "\(value)"
    case .unsigned(let value): text += "\(value)"
    case .float(let value): text += value.isFinite ? "\(value)" : "\"\(UntypedValue.name(of: Double(value)))\""
    case .double(let value): text += value.isFinite ? "\(value)" : "\"\(UntypedValue.name(of: value))\""
    case .string(let value), .uuid(let value), .url(let value): UntypedValue.quote(value, to: &text)
    case .bytes(let value): UntypedValue.quote(Data(value).base64EncodedString(), to: &text)
    case .date(let value): UntypedValue.quote(UntypedValue.date(value), to: &text)
    case .decimal(let value): text += value == "NaN" ? "\"NaN\"" : value
    case .array(let values):
      text += "["
      for (index, value) in values.enumerated() {
        if index > 0 { text += "," }
        value.write(to: &text)
      }
      text += "]"
    case .record(let fields):
      text += "{"
      for (index, field) in fields.enumerated() {
        if index > 0 { text += "," }
        UntypedValue.quote(field.name, to: &text)
        text += ":"
        field.value.write(to: &text)
      }
      text += "}"
    }
  }

  private static func name(of value: Double) -> String {
    value.isNaN ? "NaN" : value > 0 ? "Infinity" : "-Infinity"
  }

  private static func quote(_ string: String, to text: inout String) {
    text += "\""
    for scalar in string.unicodeScalars {
      switch scalar {
      case "\"": text += "\\\""
      case "\\": text += "\\\\"
      case "\n": text += "\\n"
      case _ where scalar.value < 0x20:
        let digits = String(scalar.value, radix: 16)
        text += "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
      default: text.unicodeScalars.append(scalar)
      }
    }
    text += "\""
  }

  /// Returns a date in ISO 8601 for the years 1 to 9999, and otherwise as a number of seconds since 2001. This does not
  /// use a calendar, which would stop the process for some of the numbers that may be stored.
  private static func date(_ interval: Double) -> String {
    // 2001-01-01 is day 730,791 after 0000-03-01, at which a cycle of 400 years begins.
    let milliseconds = (interval * 1000).rounded(.down)
    guard abs(milliseconds) < 9e15 else { return "\(interval) s since 2001" }
    let (day, rest) = Int(milliseconds).quotientAndRemainder(dividingBy: 86_400_000)
    let ofDay = rest < 0 ? rest + 86_400_000 : rest
    let days = (rest < 0 ? day - 1 : day) + 730_791
    guard days >= 306, days < 3_652_365 else { return "\(interval) s since 2001" }
    let (era, dayOfEra) = days.quotientAndRemainder(dividingBy: 146_097)
    let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let march = (5 * dayOfYear + 2) / 153
    let month = march < 10 ? march + 3 : march - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    func digits(_ number: Int, _ count: Int) -> String {
      String(repeating: "0", count: max(0, count - "\(number)".utf8.count)) + "\(number)"
    }
    let clock = [ofDay / 3_600_000, ofDay / 60_000 % 60, ofDay / 1_000 % 60].map { digits($0, 2) }
    let dayOfMonth = dayOfYear - (153 * march + 2) / 5 + 1
    return "\(digits(year, 4))-\(digits(month, 2))-\(digits(dayOfMonth, 2))T\(clock.joined(separator: ":"))"
      + ".\(digits(ofDay % 1_000, 3))Z"
  }
}
