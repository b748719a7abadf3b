internal import Foundation

/// Conversions of a time of day to and from its form on disk: whole milliseconds since 1970.
enum WallTime {
  /// The end of the year 9999. A task that is due later has no timer.
  static let latest: Int64 = 253_402_300_799_999

  /// The maximum error of a `Date` of whole milliseconds, in milliseconds: a fraction of a microsecond.
  private static let dateError = 0.001

  /// Returns the milliseconds of a date, rounded up and bounded by those of the year 9999.
  static func milliseconds(_ date: Date) -> Int64 {
    let milliseconds = (date.timeIntervalSince1970 * 1_000 - dateError).rounded(.up)
    if milliseconds.isNaN { return latest }
    return Int64(min(max(milliseconds, -Double(latest)), Double(latest)))
  }

  /// Returns the last whole millisecond that has passed at a date: a task that is due by then is not early.
  static func passed(_ date: Date) -> Int64 {
    let milliseconds = (date.timeIntervalSince1970 * 1_000 + dateError).rounded(.down)
    return milliseconds.isNaN ? -latest : Int64(min(max(milliseconds, -Double(latest)), Double(latest)))
  }

  /// Returns the duration from a date to a time, at most the longest one, or zero if the time has passed.
  static func wait(from date: Date, to time: Int64) -> Duration {
    .seconds(min(max(0, Double(time) / 1_000 - date.timeIntervalSince1970), Duration.longest.secondCount))
  }

  static func date(_ milliseconds: Int64) -> Date { Date(timeIntervalSince1970: Double(milliseconds) / 1_000) }
}
