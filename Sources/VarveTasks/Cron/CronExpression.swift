public import Foundation

/// A recurring schedule as in `crontab`: minute, hour, day of the month, month, and day of the week.
///
/// ```
///  ┌ minute, 0 to 59
///  │ ┌ hour, 0 to 23
///  │ │ ┌ day of the month, 1 to 31
///  │ │ │ ┌ month, 1 to 12, or JAN to DEC
///  │ │ │ │ ┌ day of the week, 0 to 7, where 0 and 7 are Sunday, or SUN to SAT
///  0 3 * * MON-FRI
/// ```
/// Each field is `*`, a number, a range `1-5`, a step `*/15`, `10-40/10` or `5/20`, or a list of these. `@hourly`,
/// `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly` and `@annually` stand for whole expressions. If both the day
/// of the month and the day of the week are restricted, a day matches if it fits either of them, as POSIX specifies.
///
/// # Daylight saving
/// If the hour field is `*` or a step of it, the expression matches points in time: each local time that exists
/// matches, and one that occurs twice matches twice. Otherwise a local time that is skipped counts as the end of the
/// gap, and of a local time that occurs twice only the first occurrence counts. So such a time occurs once on each day,
/// as in Debian's cron.
public struct CronExpression: Hashable, Sendable, CustomStringConvertible {
  /// The text of the expression as it was given.
  public let text: String
  let minutes: UInt64
  let hours: UInt64
  private let days: UInt64
  private let months: UInt64
  private let weekdays: UInt64
  /// Whether the expression matches each point in time at which the local time fits: see "Daylight saving" above.
  let isHourly: Bool
  private let restrictsDay: Bool
  private let restrictsWeekday: Bool

  private static let names = [
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
  ]
  private static let monthNames = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
  private static let weekdayNames = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]

  /// Parses an expression.
  ///
  /// Throws `TaskError.invalidValue`, which names the field. It is also thrown if no time ever matches, as for
  /// `0 0 31 2 *`.
  public init(_ text: String) throws(TaskError) {
    self.text = text
    let fields = (Self.names[text.lowercased()] ?? text).split(whereSeparator: \.isWhitespace)
    guard fields.count == 5 else {
      throw .invalidValue(
        "the cron expression \"\(text)\" has \(fields.count) fields, expected 5 or a name such as @daily")
    }
    func field(_ index: Int, _ name: String, _ range: ClosedRange<Int>, _ names: [String] = []) throws(TaskError)
      -> UInt64
    {
      do { return try Self.bits(fields[index], range, names) } catch {
        throw .invalidValue("the cron expression \"\(text)\": the \(name) \"\(fields[index])\" \(error.reason)")
      }
    }
    minutes = try field(0, "minute", 0...59)
    hours = try field(1, "hour", 0...23)
    days = try field(2, "day of the month", 1...31)
    months = try field(3, "month", 1...12, Self.monthNames)
    let weekdays = try field(4, "day of the week", 0...7, Self.weekdayNames)
    self.weekdays = weekdays >> 7 & 1 | weekdays
    isHourly = fields[1].hasPrefix("*")
    restrictsDay = !fields[2].hasPrefix("*")
    restrictsWeekday = !fields[4].hasPrefix("*")
    if restrictsDay, !restrictsWeekday, !hasDay {
      throw .invalidValue("the cron expression \"\(text)\" never fits: none of its months has such a day")
    }
  }

  /// The text of the expression as it was given.
  public var description: String { text }

  // MARK: - Fields

  private struct Refusal: Error { let reason: String }

  private static func bits(_ field: Substring, _ range: ClosedRange<Int>, _ names: [String]) throws(Refusal) -> UInt64 {
    var bits: UInt64 = 0
    for part in field.split(separator: ",", omittingEmptySubsequences: false) {
      let pieces = part.split(separator: "/", omittingEmptySubsequences: false)
      guard pieces.count <= 2, let base = pieces.first, !base.isEmpty else {
        throw Refusal(reason: "is not a number, a range or a step")
      }
      var step = 1
      if pieces.count == 2 {
        guard let number = number(pieces[1]), number >= 1 else {
          throw Refusal(reason: "has a step that is not 1 or more")
        }
        step = number
      }
      let (low, high) = try bounds(base, range, names, isStep: pieces.count == 2)
      for value in stride(from: low, through: high, by: step) { bits |= 1 << UInt64(value) }
    }
    return bits
  }

  private static func bounds(_ text: Substring, _ range: ClosedRange<Int>, _ names: [String], isStep: Bool)
    throws(Refusal) -> (Int, Int)
  {
    if text == "*" { return (range.lowerBound, range.upperBound == 7 ? 6 : range.upperBound) }
    let ends = text.split(separator: "-", omittingEmptySubsequences: false)
    var numbers: [Int] = []
    for end in ends {
      // A name yields 0 for Sunday; at the end of a range it becomes 7 below.
      let named = names.firstIndex(of: end.uppercased()).map { $0 + (range.lowerBound == 1 ? 1 : 0) }
      guard let number = named ?? number(end) else { throw Refusal(reason: "is not a number, a range or a step") }
      guard range.contains(number) else {
        throw Refusal(reason: "is not from \(range.lowerBound) to \(range.upperBound)")
      }
      numbers.append(number)
    }
    guard numbers.count <= 2 else { throw Refusal(reason: "is not a number, a range or a step") }
    let low = numbers[0]
    var high = numbers.count == 2 ? numbers[1] : isStep ? range.upperBound : low
    if range.upperBound == 7, high == 0, low > 0 { high = 7 }
    guard low <= high else { throw Refusal(reason: "is a range that ends before it begins") }
    return (low, high)
  }

  private static func number(_ text: Substring) -> Int? {
    guard !text.isEmpty, text.count <= 3, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return Int(text)
  }

  /// Whether one of the expression's months has one of its days.
  private var hasDay: Bool {
    (1...12).contains { month in
      guard months >> UInt64(month) & 1 != 0 else { return false }
      return (1...CivilDate.longest(month)).contains { days >> UInt64($0) & 1 != 0 }
    }
  }

  /// Returns whether the expression matches times of a day.
  func fits(_ day: CivilDate) -> Bool {
    guard months >> UInt64(day.month) & 1 != 0 else { return false }
    let (isDay, isWeekday) = (days >> UInt64(day.day) & 1 != 0, weekdays >> UInt64(day.weekday) & 1 != 0)
    if restrictsDay, restrictsWeekday { return isDay || isWeekday }
    return isDay && isWeekday
  }

  // MARK: - Times

  /// Returns the first matching time after a date, in a time zone.
  ///
  /// Complexity: O(days until then); 29 February is at most 8 years away.
  public func next(after date: Date, in zone: TimeZone) -> Date? {
    let last = Double(WallTime.latest / 1_000)
    // After a date that is not finite, no time follows.
    guard date.timeIntervalSince1970.isFinite else { return nil }
    let second = Int64(min(max(date.timeIntervalSince1970.rounded(.down), -last), last))
    return CronTimes(self, LocalTime(zone)).next(after: second).map { Date(timeIntervalSince1970: Double($0)) }
  }
}
