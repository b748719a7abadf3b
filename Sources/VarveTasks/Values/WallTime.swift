public import Foundation

/// A time of day as the disk has it: whole milliseconds since 1970.
enum WallTime {
  /// The end of the year 9999. What is due later has no timer.
  static let latest: Int64 = 253_402_300_799_999

  /// A `Date` of whole milliseconds may be a fraction of a microsecond off them, in milliseconds.
  private static let dateError = 0.001

  /// The milliseconds of a date, rounded up; bounded by those of the year 9999.
  static func milliseconds(_ date: Date) -> Int64 {
    let milliseconds = (date.timeIntervalSince1970 * 1_000 - dateError).rounded(.up)
    if milliseconds.isNaN { return latest }
    return Int64(min(max(milliseconds, -Double(latest)), Double(latest)))
  }

  /// The last whole millisecond that has passed: what is due until then is not early.
  static func passed(_ date: Date) -> Int64 {
    let milliseconds = (date.timeIntervalSince1970 * 1_000 + dateError).rounded(.down)
    return milliseconds.isNaN ? -latest : Int64(min(max(milliseconds, -Double(latest)), Double(latest)))
  }

  /// How long it is from a date to a time; zero where that has passed.
  static func wait(from date: Date, to time: Int64) -> Duration {
    .seconds(max(0, Double(time) / 1_000 - date.timeIntervalSince1970))
  }

  static func date(_ milliseconds: Int64) -> Date { Date(timeIntervalSince1970: Double(milliseconds) / 1_000) }
}
