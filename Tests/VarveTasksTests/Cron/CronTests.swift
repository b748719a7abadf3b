import Foundation
import Testing

@_spi(Extensions) @testable import VarveTasks

/// Tests of the times of cron expressions, including changes of clocks.
struct CronTests {
  private static func zone(_ name: String) throws -> TimeZone { try #require(TimeZone(identifier: name)) }

  private static func times(_ expression: String, _ zone: TimeZone, from: String, to: String) throws -> [String] {
    let (expression, end) = (try CronExpression(expression), try Date(iso: to))
    var times: [String] = []
    var last = try Date(iso: from)
    while let next = expression.next(after: last, in: zone), next < end {
      #expect(next > last)
      times.append(next.ISO8601Format())
      last = next
    }
    return times
  }

  @Test func `quarter-hours are points in time: 92 on the day the clocks go forward, 100 on the day they go back`()
    throws
  {
    let zone = try Self.zone("America/New_York")
    let short = try Self.times("*/15 * * * *", zone, from: "2026-03-08T04:59:59Z", to: "2026-03-09T04:00:00Z")
    let long = try Self.times("*/15 * * * *", zone, from: "2026-11-01T03:59:59Z", to: "2026-11-02T05:00:00Z")
    #expect(short.count == 92 && long.count == 100)
    #expect(Set(long).count == 100)
  }

  @Test func `a fixed time in a clock gap fires once, at its end, and a repeated one fires the first time`() throws {
    let zone = try Self.zone("America/New_York")
    #expect(
      try Self.times("30 2 * * *", zone, from: "2026-03-07T12:00:00Z", to: "2026-03-10T00:00:00Z")
        == ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"])
    #expect(
      try Self.times("0,15,30,45 2 * * *", zone, from: "2026-03-08T05:00:00Z", to: "2026-03-08T12:00:00Z")
        == ["2026-03-08T07:00:00Z"])
    #expect(
      try Self.times("30 1 * * *", zone, from: "2026-10-31T12:00:00Z", to: "2026-11-03T00:00:00Z")
        == ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"])
  }

  @Test func `clock changes of half an hour are handled, as on Lord Howe Island`() throws {
    let zone = try Self.zone("Australia/Lord_Howe")
    // On 4 October 2026, the clocks change from 2:00 to 2:30.
    #expect(
      try Self.times("15 2 * * *", zone, from: "2026-10-03T00:00:00Z", to: "2026-10-05T00:00:00Z")
        == ["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"])
    #expect(
      try Self.times("*/30 * * * *", zone, from: "2026-10-03T14:59:59Z", to: "2026-10-03T16:30:00Z")
        == ["2026-10-03T15:00:00Z", "2026-10-03T15:30:00Z", "2026-10-03T16:00:00Z"])
  }

  @Test func `no minute is left out where the clocks go back across midnight, as they did in Newfoundland`() throws {
    let zone = try Self.zone("America/St_Johns")
    // On 7 November 2010, the clocks changed from 0:01 to 23:01 of the day before.
    let times = try Self.times("* * * * *", zone, from: "2010-11-07T01:29:59Z", to: "2010-11-07T04:30:00Z")
    #expect(times.count == 180)
    #expect(times.contains("2010-11-07T02:30:00Z") && times.contains("2010-11-07T03:30:00Z"))
    #expect(
      try Self.times("0 0 * * *", zone, from: "2010-11-06T12:00:00Z", to: "2010-11-08T12:00:00Z")
        == ["2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"])
  }

  @Test func `midnight in a clock gap fires at the end of the gap`() throws {
    // In Beirut, the clocks change from 0:00 to 1:00.
    let zone = try Self.zone("Asia/Beirut")
    #expect(
      try Self.times("0 0 * * *", zone, from: "2026-03-28T12:00:00Z", to: "2026-03-30T12:00:00Z")
        == ["2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"])
  }

  @Test func `fields may be lists, ranges, steps and names, and either of the two day fields may match`() throws {
    let zone = TimeZone.gmt
    #expect(
      try Self.times("5/20 10-11 1 JAN *", zone, from: "2026-01-01T00:00:00Z", to: "2026-12-31T00:00:00Z")
        == ["10:05", "10:25", "10:45", "11:05", "11:25", "11:45"].map { "2026-01-01T\($0):00Z" })
    // 13 February 2026 is a Friday; the expression matches a 13th, or a Friday.
    #expect(
      try Self.times("0 12 13 FEB FRI", zone, from: "2026-02-01T00:00:00Z", to: "2026-03-01T00:00:00Z")
        == ["06", "13", "20", "27"].map { "2026-02-\($0)T12:00:00Z" })
    #expect(
      try Self.times("0 0 * * 7", zone, from: "2026-01-01T00:00:00Z", to: "2026-01-12T00:00:00Z")
        == ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"])
    #expect(
      try Self.times("0 0 * * SAT-SUN", zone, from: "2026-01-01T00:00:00Z", to: "2026-01-06T00:00:00Z")
        == ["2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"])
    #expect(
      try Self.times("@monthly", zone, from: "2026-01-01T00:00:00Z", to: "2026-03-02T00:00:00Z")
        == ["2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"])
    #expect(
      try Self.times("0 0 29 2 *", zone, from: "2096-03-01T00:00:00Z", to: "2110-01-01T00:00:00Z")
        == ["2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z"])
  }

  @Test(arguments: [
    "0 0 31 2 *", "0 0 31 4,6,9,11 *", "60 * * * *", "* * * *", "* * * * * *", "a * * * *", "5-1 * * * *",
    "*/0 * * * *", "1--3 * * * *", ", * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "@never",
    "1/2/3 * * * *", "-1 * * * *", "",
  ])
  func `an expression that is invalid or never matches is refused with an error that quotes it`(text: String) {
    let error = #expect(throws: TaskError.self) { try CronExpression(text) }
    #expect("\(error.map { "\($0)" } ?? "")".contains("\"\(text)\""))
  }

  @Test func `times ascend in every time zone, and match the expression in the calendar`() throws {
    var calendar = Calendar(identifier: .gregorian)
    for name in ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"] {
      let zone = try Self.zone(name)
      calendar.timeZone = zone
      let expression = try CronExpression("10 5 * * 1,3")
      var last = try Date(iso: "2026-01-01T00:00:00Z")
      for _ in 0..<150 {
        let next = try #require(expression.next(after: last, in: zone))
        let parts = calendar.dateComponents([.hour, .minute, .weekday, .second], from: next)
        #expect(parts.hour == 5 && parts.minute == 10 && parts.second == 0 && [2, 4].contains(parts.weekday))
        let expected = calendar.nextDate(
          after: last, matching: DateComponents(hour: 5, minute: 10, second: 0), matchingPolicy: .strict)
        #expect(next >= (expected ?? .distantFuture))
        last = next
      }
    }
  }
}
