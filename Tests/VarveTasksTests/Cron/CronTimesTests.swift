import EngineTestSupport
import Foundation
import Synchronization
import Testing

@_spi(Extensions) @testable import VarveTasks

/// Tests of the times of random expressions, which are compared with those that a clock shows minute by minute.
struct CronTimesTests {
  private static let zones = [
    "GMT", "America/New_York", "America/St_Johns", "America/Sao_Paulo", "America/Havana", "Australia/Lord_Howe",
    "Asia/Beirut", "Asia/Tehran", "Asia/Kathmandu", "Africa/Casablanca", "Africa/Cairo", "Pacific/Apia",
    "Pacific/Chatham", "Pacific/Kwajalein", "Antarctica/Troll", "Europe/Lisbon",
  ]

  /// An expression whose fields are sets of numbers.
  private struct Sample {
    var minutes: [Int]?
    var hours: [Int]?
    var days: [Int]?
    var months: [Int]?
    var weekdays: [Int]?

    init(_ random: inout SeededRandom) {
      func field(_ range: ClosedRange<Int>, _ starCount: Int) -> [Int]? {
        if Int.random(in: 0..<4, using: &random) < starCount { return nil }
        return (0..<Int.random(in: 1...4, using: &random)).map { _ in Int.random(in: range, using: &random) }
      }
      minutes = field(0...59, 1)
      hours = field(0...23, 2)
      days = field(1...28, 3)
      months = field(1...12, 3)
      weekdays = field(0...6, 3)
    }

    var text: String {
      [minutes, hours, days, months, weekdays]
        .map { $0.map { $0.map { "\($0)" }.joined(separator: ",") } ?? "*" }.joined(separator: " ")
    }

    /// Returns whether a wall time fits, given the parts of its day.
    func fits(_ wall: Int64, _ day: DateComponents) -> Bool {
      let minute = Int((wall % 86_400 + 86_400) % 86_400 / 60)
      func has(_ numbers: [Int]?, _ number: Int?) -> Bool { numbers.map { $0.contains(number ?? -1) } ?? true }
      guard has(minutes, minute % 60), has(hours, minute / 60), has(months, day.month) else { return false }
      let (isDay, isWeekday) = (has(days, day.day), has(weekdays, day.weekday.map { $0 - 1 }))
      return days != nil && weekdays != nil ? isDay || isWeekday : isDay && isWeekday
    }
  }

  /// Returns the times of a sample after a time and up to another one, by looking at the clock of the zone each minute.
  private static func times(_ sample: Sample, _ zone: TimeZone, after first: Int64, through last: Int64) -> [Int64] {
    var calendar = Calendar(identifier: .gregorian)
    calendar.timeZone = .gmt
    var days: [Int: DateComponents] = [:]
    func fits(_ wall: Int64) -> Bool {
      let number = Int((Double(wall) / 86_400).rounded(.down))
      if days[number] == nil {
        days[number] = calendar.dateComponents(
          [.month, .day, .weekday], from: Date(timeIntervalSince1970: Double(wall)))
      }
      return days[number].map { sample.fits(wall, $0) } ?? false
    }
    var times: [Int64] = []
    var time = (first - 2 * 86_400) / 60 * 60
    var seen = time + Int64(zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(time))))
    while time + 60 <= last {
      time += 60
      let wall = time + Int64(zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(time))))
      var matches = sample.hours == nil && fits(wall)
      if sample.hours != nil, wall > seen {
        // Wall times that were skipped count as this one.
        matches = stride(from: seen + 60, through: wall, by: 60).contains(where: fits)
      }
      seen = max(seen, wall)
      if matches, time > first { times.append(time) }
    }
    return times
  }

  @Test func `the times of random expressions are those of the clock, also in days in which it is set`() throws {
    let seeds = TestScale.seed.map { $0...$0 } ?? 1...UInt64(TestScale.count(60))
    for seed in seeds {
      var random = SeededRandom(seed: seed)
      let sample = Sample(&random)
      let zone = try #require(TimeZone(identifier: Self.zones.randomElement(using: &random) ?? "GMT"))
      // From 1990 to 2037, and half of them a day or two before the clock is set.
      var first = Int64.random(in: 631_152_000..<2_145_916_800, using: &random)
      let date = Date(timeIntervalSince1970: Double(first))
      if Bool.random(using: &random), let next = zone.nextDaylightSavingTimeTransition(after: date) {
        first = Int64(next.timeIntervalSince1970) - Int64.random(in: 0..<2 * 86_400, using: &random)
      }
      let last = first + Int64.random(in: 1..<5 * 86_400, using: &random)
      let expected = Self.times(sample, zone, after: first, through: last)
      let times = CronTimes(try CronExpression(sample.text), LocalTime(zone))
      let comment: Comment = "VARVE_TEST_SEED=\(seed): \"\(sample.text)\" in \(zone.identifier) from \(first)"
      var found: [Int64] = []
      while let next = times.next(after: found.last ?? first), next <= last { found.append(next) }
      #expect(found == expected, comment)
      #expect(times.count(after: first, through: last) == expected.count, comment)
      #expect(times.last(after: first, through: last) == expected.last, comment)
      for _ in 0..<8 {
        let middle = Int64.random(in: first...last, using: &random)
        #expect(times.count(after: first, through: middle) == expected.count { $0 <= middle }, comment)
        #expect(times.last(after: middle, through: last) == expected.last { $0 > middle }, comment)
        let number = Int.random(in: 0...expected.count + 1, using: &random)
        let begin = times.begin(ofLast: number, after: first, through: last)
        #expect(expected.count { $0 > begin } == min(number, expected.count), comment)
        #expect(begin >= first && begin <= last, comment)
      }
    }
  }

  /// Counts how often the offset of a zone is looked up.
  private final class CountedZone: Sendable {
    private let zone: TimeZone
    private let count = Atomic(0)
    init(_ zone: TimeZone) { self.zone = zone }

    var local: LocalTime {
      LocalTime { [self] second in
        count.add(1, ordering: .relaxed)
        return Int64(zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(second))))
      }
    }
    func take() -> Int { count.exchange(0, ordering: .relaxed) }
  }

  @Test func `a time is found by a few lookups of offsets, however many times a day has`() throws {
    let zone = CountedZone(try #require(TimeZone(identifier: "America/New_York")))
    for text in ["* * * * *", "*/5 2-23 * * *", "0 3 * * *", "0 12 13 * FRI"] {
      let times = CronTimes(try CronExpression(text), zone.local)
      // The clock is set back on 1 November 2026.
      var time: Int64 = 1_793_318_400
      for _ in 0..<1_000 { time = try #require(times.next(after: time)) }
      let perTime = zone.take() / 1_000
      // If the hour is given, a wall time within a day after the clock was set may be one that is repeated.
      #expect(perTime <= (times.expression.isHourly ? 5 : 24), "\(text)")
    }
  }

  @Test func `times of years are counted by days, and the last one is found from the end`() throws {
    let zone = CountedZone(try #require(TimeZone(identifier: "Europe/Berlin")))
    let times = CronTimes(try CronExpression("* * * * *"), zone.local)
    let (first, years): (Int64, Int64) = (1_767_225_600, 5)
    let last = first + years * 365 * 86_400
    #expect(times.count(after: first, through: last) == Int(years) * 365 * 1_440)
    #expect(zone.take() <= Int(years) * (365 * 4 + 2 * 20))
    #expect(times.last(after: first, through: last) == last)
    #expect(times.begin(ofLast: 3, after: first, through: last) == last - 121)
    #expect(zone.take() <= 40)
  }
}
