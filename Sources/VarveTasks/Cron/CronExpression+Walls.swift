/// The wall times that an expression matches, in seconds as if they were UTC. They are calculated from the fields, and
/// not found by trying each minute.
extension CronExpression {
  /// Returns the first matching wall time of a range, or `nil` if no time of the range matches.
  ///
  /// Complexity: O(days of the range), like the other methods.
  func first(in walls: Range<Int64>) -> Int64? {
    for day in walls.flooredDays where fits(CivilDate(days: day)) {
      let begin = Int64(day) * 86_400
      guard let minute = minute(from: Self.minutes(until: walls.lowerBound - begin)) else { continue }
      let wall = begin + Int64(minute) * 60
      return wall < walls.upperBound ? wall : nil
    }
    return nil
  }

  /// Returns the last matching wall time of a range, or `nil` if no time of the range matches.
  func last(in walls: Range<Int64>) -> Int64? {
    for day in walls.flooredDays.reversed() where fits(CivilDate(days: day)) {
      let begin = Int64(day) * 86_400
      guard let minute = minute(before: Self.minutes(until: walls.upperBound - begin)) else { continue }
      let wall = begin + Int64(minute) * 60
      return wall >= walls.lowerBound ? wall : nil
    }
    return nil
  }

  /// Returns the number of matching wall times of a range.
  func count(in walls: Range<Int64>) -> Int {
    var sum = 0
    for day in walls.flooredDays where fits(CivilDate(days: day)) {
      let begin = Int64(day) * 86_400
      sum += count(before: Self.minutes(until: walls.upperBound - begin))
      sum -= count(before: Self.minutes(until: walls.lowerBound - begin))
    }
    return sum
  }

  /// Returns the number of minutes of a day that begin before a second of it, from 0 to 1,440.
  private static func minutes(until second: Int64) -> Int { Int(min(max(0, (second + 59) / 60), 1_440)) }

  /// Returns the first matching minute of a day from a minute on.
  private func minute(from minute: Int) -> Int? {
    let hour = minute / 60
    let rest = minutes & (.max << UInt64(minute % 60))
    if hours >> UInt64(hour) & 1 != 0, rest != 0 { return hour * 60 + rest.trailingZeroBitCount }
    let later = hours & (.max << UInt64(hour + 1))
    return later == 0 ? nil : later.trailingZeroBitCount * 60 + minutes.trailingZeroBitCount
  }

  /// Returns the last matching minute of a day before a minute.
  private func minute(before minute: Int) -> Int? {
    let hour = minute / 60
    let rest = minutes & ~(.max << UInt64(minute % 60))
    if hours >> UInt64(hour) & 1 != 0, rest != 0 { return hour * 60 + rest.highestBit }
    let earlier = hours & ~(.max << UInt64(hour))
    return earlier == 0 ? nil : earlier.highestBit * 60 + minutes.highestBit
  }

  /// Returns the number of matching minutes of a day before a minute.
  private func count(before minute: Int) -> Int {
    let hour = minute / 60
    let wholeHours = (hours & ~(.max << UInt64(hour))).nonzeroBitCount
    let rest = hours >> UInt64(hour) & 1 != 0 ? minutes & ~(.max << UInt64(minute % 60)) : 0
    return wholeHours * minutes.nonzeroBitCount + rest.nonzeroBitCount
  }
}

extension UInt64 {
  /// The index of the highest bit that is set.
  fileprivate var highestBit: Int { 63 - leadingZeroBitCount }
}
