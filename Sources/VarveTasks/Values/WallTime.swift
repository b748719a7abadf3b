public import Foundation

/// A time of day as the disk has it: whole milliseconds since 1970.
enum WallTime {
  /// The end of the year 9999. What is due later has no timer.
  static let latest: Int64 = 253_402_300_799_999

  /// The milliseconds of a date, rounded up; bounded by those of the year 9999.
  static func milliseconds(_ date: Date) -> Int64 {
    let milliseconds = (date.timeIntervalSince1970 * 1_000).rounded(.up)
    if milliseconds.isNaN { return latest }
    return Int64(min(max(milliseconds, -Double(latest)), Double(latest)))
  }

  static func date(_ milliseconds: Int64) -> Date { Date(timeIntervalSince1970: Double(milliseconds) / 1_000) }
}
