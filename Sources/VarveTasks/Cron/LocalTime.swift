internal import Foundation

/// A day of the Gregorian calendar.
struct CivilDate: Hashable {
  /// The number of days since 1 January 1970.
  let days: Int
  let month: Int
  let day: Int

  /// Creates a date from the number of days since 1 January 1970.
  ///
  /// The method is that of "chrono-Compatible Low-Level Date Algorithms": years begin in March, in eras of 400 years.
  init(days: Int) {
    self.days = days
    let shifted = days + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
    month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
  }

  /// The day of the week, where 0 is Sunday.
  var weekday: Int { ((days + 4) % 7 + 7) % 7 }

  /// Returns the maximum number of days of a month.
  static func longest(_ month: Int) -> Int { [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] }
}

extension Int64 {
  /// The day that contains a time in seconds, as the number of days since day 0.
  var flooredDay: Int { Int(self >= 0 ? self / 86_400 : (self - 86_399) / 86_400) }
}

extension Range<Int64> {
  /// The days that contain times of a range of seconds.
  var flooredDays: Range<Int> { isEmpty ? 0..<0 : lowerBound.flooredDay..<(upperBound - 1).flooredDay + 1 }
}

/// Converts between UTC and the local time of a zone, in seconds.
///
/// A wall time is what a clock in the zone shows, represented as if it were UTC.
struct LocalTime: Sendable {
  /// Returns the number of seconds by which the zone's clock is ahead of UTC at a time.
  private let offset: @Sendable (Int64) -> Int64

  /// Creates the local time of a zone that is given by its offsets.
  init(offset: @escaping @Sendable (Int64) -> Int64) { self.offset = offset }

  init(_ zone: TimeZone) {
    self.init { second in Int64(zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(second)))) }
  }

  /// Times in which the zone has one offset.
  struct Span {
    let times: Range<Int64>
    let offset: Int64
    /// The offset in the second before the span. If it is less, wall times are skipped there.
    let offsetBefore: Int64
  }

  /// Returns the times from one on that have its offset, at most up to the end of its day.
  func span(from begin: Int64, to end: Int64) -> Span {
    let offset = offset(begin)
    var (low, high) = (begin, end - 1)
    if self.offset(high) == offset {
      high = end
    } else {
      while high - low > 1 {
        let middle = low + (high - low) / 2
        if self.offset(middle) == offset { low = middle } else { high = middle }
      }
    }
    return Span(times: begin..<high, offset: offset, offsetBefore: self.offset(begin - 1))
  }

  /// Returns the time from which on the clock shows new wall times, after it was set back within a day before a time.
  /// Returns the time itself if it was not.
  func endOfRepetition(at second: Int64, _ offset: Int64) -> Int64 {
    let begin = second - 86_400
    let before = self.offset(begin)
    if before <= offset { return second }
    let end = span(from: begin, to: second + 1).times.upperBound
    return max(second, end + before - offset)
  }
}
