internal import Foundation

/// A day of the Gregorian calendar.
struct CivilDate: Hashable {
  /// The number of days since 1 January 1970.
  let days: Int
  let month: Int
  let day: Int
  private let year: Int

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
    year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
  }

  /// The day of the week, where 0 is Sunday.
  var weekday: Int { ((days + 4) % 7 + 7) % 7 }

  var endOfMonth: CivilDate { CivilDate(days: days + length - day) }

  private var length: Int {
    month != 2 || (year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)) ? Self.longest(month) : 28
  }

  /// Returns the maximum number of days of a month.
  static func longest(_ month: Int) -> Int { [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] }
}

extension Int64 {
  /// The day that contains a time in seconds, as the number of days since day 0.
  var flooredDay: Int { Int(self >= 0 ? self / 86_400 : (self - 86_399) / 86_400) }
}

/// Converts between UTC and the local time of a zone, in seconds.
///
/// A wall time is what a clock in the zone shows, represented as if it were UTC.
struct LocalTime {
  private let zone: TimeZone

  init(_ zone: TimeZone) { self.zone = zone }

  /// Returns the number of seconds by which the zone's clock is ahead of UTC at a time.
  func offset(_ second: Int64) -> Int64 {
    Int64(zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(second))))
  }

  /// Returns the points in time at which the zone's clock shows a wall time: none in a gap, two if the wall time occurs
  /// twice.
  func utcTimes(_ wall: Int64) -> [Int64] {
    let offsets = Set([offset(wall - 86_400), offset(wall + 86_400)])
    return offsets.map { wall - $0 }.filter { $0 + offset($0) == wall }.sorted()
  }

  /// Returns the end of the gap that contains a wall time.
  func gapEnd(_ wall: Int64) -> Int64 {
    let (before, after) = (offset(wall - 86_400), offset(wall + 86_400))
    var (low, high) = (wall - max(before, after), wall - min(before, after))
    while high - low > 1 {
      let middle = low + (high - low) / 2
      if offset(middle) == after { high = middle } else { low = middle }
    }
    return high
  }
}
