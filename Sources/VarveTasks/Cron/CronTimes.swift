/// The times of a cron expression in a time zone, in seconds since 1970.
///
/// The times of a day of UTC follow from the fields of the expression. A day in which the clocks of the zone are set is
/// divided at that point, and each part has one offset from UTC. So the cost does not depend on the number of times.
struct CronTimes: Sendable {
  let expression: CronExpression
  private let local: LocalTime

  /// The number of days that are searched for a time. 29 February is at most 8 years away.
  private static let dayMaximum = 366 * 9

  init(_ expression: CronExpression, _ local: LocalTime) {
    self.expression = expression
    self.local = local
  }

  /// Returns the first time after a time.
  ///
  /// Complexity: O(days until then).
  func next(after second: Int64) -> Int64? {
    let begin = (second + 1).flooredDay
    for day in begin...(begin + Self.dayMaximum) where mayHaveTimes(day) {
      if let time = first(in: max(second + 1, Int64(day) * 86_400)..<Int64(day + 1) * 86_400) { return time }
    }
    return nil
  }

  /// Returns the last time after a time and up to another one.
  ///
  /// Complexity: O(days since then).
  func last(after first: Int64, through last: Int64) -> Int64? {
    for day in Self.days(after: first, through: last).reversed() where mayHaveTimes(day) {
      if let time = self.last(in: Self.part(of: day, after: first, through: last)) { return time }
    }
    return nil
  }

  /// Returns the number of times after a time and up to another one.
  ///
  /// Complexity: O(days).
  func count(after first: Int64, through last: Int64) -> Int {
    var sum = 0
    for day in Self.days(after: first, through: last) where mayHaveTimes(day) {
      sum += count(in: Self.part(of: day, after: first, through: last))
    }
    return sum
  }

  /// Returns the time after which the last `number` times up to `last` are, or `first` if no more than these are after
  /// it.
  ///
  /// Complexity: O(days since then, and times of one day).
  func begin(ofLast number: Int, after first: Int64, through last: Int64) -> Int64 {
    var left = number
    if left == 0 { return last }
    for day in Self.days(after: first, through: last).reversed() where mayHaveTimes(day) {
      var part = Self.part(of: day, after: first, through: last)
      let count = count(in: part)
      if count < left {
        left -= count
        continue
      }
      for _ in 0..<left { part = part.lowerBound..<(self.last(in: part) ?? part.lowerBound) }
      return part.upperBound - 1
    }
    return first
  }

  // MARK: - One day

  private static func days(after first: Int64, through last: Int64) -> Range<Int> {
    first < last ? (first + 1..<last + 1).flooredDays : 0..<0
  }

  /// Returns the part of a day of UTC that is after a time and not after another one.
  private static func part(of day: Int, after first: Int64, through last: Int64) -> Range<Int64> {
    max(first + 1, Int64(day) * 86_400)..<min(last + 1, Int64(day + 1) * 86_400)
  }

  /// Returns whether a day of UTC may have times. No zone is a whole day ahead of UTC or after it.
  private func mayHaveTimes(_ day: Int) -> Bool {
    (day - 1...day + 1).contains { expression.fits(CivilDate(days: $0)) }
  }

  private func first(in part: Range<Int64>) -> Int64? {
    var begin = part.lowerBound
    while begin < part.upperBound {
      let span = local.span(from: begin, to: part.upperBound)
      let times = times(of: span)
      if let time = times.gapEnd ?? expression.first(in: times.walls).map({ $0 - span.offset }) { return time }
      begin = span.times.upperBound
    }
    return nil
  }

  private func last(in part: Range<Int64>) -> Int64? {
    var found: Int64?
    var begin = part.lowerBound
    while begin < part.upperBound {
      let span = local.span(from: begin, to: part.upperBound)
      let times = times(of: span)
      found = expression.last(in: times.walls).map { $0 - span.offset } ?? times.gapEnd ?? found
      begin = span.times.upperBound
    }
    return found
  }

  private func count(in part: Range<Int64>) -> Int {
    var sum = 0
    var begin = part.lowerBound
    while begin < part.upperBound {
      let span = local.span(from: begin, to: part.upperBound)
      let times = times(of: span)
      sum += expression.count(in: times.walls) + (times.gapEnd == nil ? 0 : 1)
      begin = span.times.upperBound
    }
    return sum
  }

  /// Returns the wall times of a span that count, and the time at which it begins if that is the end of a gap with
  /// matching wall times.
  private func times(of span: LocalTime.Span) -> (gapEnd: Int64?, walls: Range<Int64>) {
    let (begin, end) = (span.times.lowerBound, span.times.upperBound + span.offset)
    if expression.isHourly { return (nil, begin + span.offset..<end) }
    if span.offsetBefore < span.offset,
      expression.first(in: begin + span.offsetBefore..<begin + span.offset) != nil
    {
      // The wall time at the end of the gap is the same point in time.
      return (begin, begin + 1 + span.offset..<end)
    }
    return (nil, min(local.endOfRepetition(at: begin, span.offset) + span.offset, end)..<end)
  }
}
