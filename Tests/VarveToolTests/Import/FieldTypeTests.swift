import Foundation
import Testing
import VarveInspection

@testable import VarveTool

/// Tests of the conversion of the values of columns.
struct FieldTypeTests {
  @Test func `values of columns without a type keep their stored type`() {
    #expect(FieldType.stored.field(.integer(.min)) == .integer(Int128(Int64.min)))
    #expect(FieldType.stored.field(.real(0.5)) == .double(0.5))
    #expect(FieldType.stored.field(.text("é")) == .text("é"))
    #expect(FieldType.stored.field(.blob([0, 255])) == .data([0, 255]))
    #expect(FieldType.stored.field(.damagedText([255])) == nil)
  }

  @Test func `numbers are converted only if no information is lost`() {
    #expect(FieldType.int.field(.real(3)) == .integer(3) && FieldType.int.field(.real(3.5)) == nil)
    #expect(FieldType.int.field(.text("3")) == nil && FieldType.int.field(.blob([3])) == nil)
    #expect(FieldType.double.field(.integer(1 << 53)) == .double(9_007_199_254_740_992))
    #expect(FieldType.double.field(.integer((1 << 53) + 1)) == nil && FieldType.double.field(.text("1")) == nil)
    #expect(FieldType.text.field(.integer(1)) == nil && FieldType.data.field(.text("a")) == nil)
  }

  private static let booleans: [(ColumnValue, Bool?)] = [
    (.integer(0), false), (.integer(1), true), (.text("TRUE"), true), (.text("false"), false),
    (.text("1"), true), (.integer(2), nil), (.real(1), nil), (.text("yes"), nil), (.blob([1]), nil),
  ]

  @Test(arguments: booleans)
  func `a Boolean is 0, 1, true or false`(value: ColumnValue, expected: Bool?) {
    #expect(FieldType.bool.field(value) == expected.map { .bool($0) })
  }

  @Test func `a UUID is a text or 16 bytes`() throws {
    let uuid = try #require(UUID(uuidString: "01020304-0506-0708-090A-0B0C0D0E0F10"))
    #expect(FieldType.uuid.field(.text(uuid.uuidString.lowercased())) == .uuid(uuid))
    #expect(FieldType.uuid.field(.blob(Array(1...16))) == .uuid(uuid))
    #expect(FieldType.uuid.field(.blob(Array(1...15))) == nil && FieldType.uuid.field(.text("1")) == nil)
    #expect(FieldType.uuid.field(.integer(1)) == nil)
  }

  @Test func `dates are read from seconds since 1970 or 2001`() {
    #expect(FieldType.date1970.field(.integer(0)) == .date(Date(timeIntervalSince1970: 0)))
    #expect(FieldType.date1970.field(.real(1.5)) == .date(Date(timeIntervalSince1970: 1.5)))
    #expect(FieldType.date2001.field(.real(-1.5)) == .date(Date(timeIntervalSinceReferenceDate: -1.5)))
    #expect(FieldType.date1970.field(.real(.infinity)) == nil && FieldType.date2001.field(.text("0")) == nil)
  }

  /// Texts, each with its seconds after 2026-02-03 04:05:06 in UTC.
  private static let dates: [(String, Double)] = [
    ("2026-02-03 04:05:06", 0), ("2026-02-03T04:05:06Z", 0), ("2026-02-03 04:05:06 Z", 0),
    ("2026-02-03 04:05:06.500", 0.5), ("2026-02-03T04:05:06.5Z", 0.5), ("2026-02-03 05:05:06+01:00", 0),
    ("2026-02-02T23:35:06-0430", 0), ("2026-02-03 05:05:06.5 +01:00", 0.5), ("2026-02-03 04:05", -6),
    ("2026-02-03", -14_706), ("1970-01-01", -1_770_091_506),
  ]

  @Test(arguments: dates)
  func `dates are read from texts in the formats that SQLite programs write`(text: String, seconds: Double) {
    let date = Date(timeIntervalSince1970: 1_770_091_506 + seconds)
    #expect(FieldType.iso8601.field(.text(text)) == .date(date))
  }

  @Test(arguments: [
    "", "yesterday", "2026-02-30", "2026-13-01", "2026-02-03 24:00:00", "2026-02-03 04:05:06+1",
    "2026-02-03 04:05:06+99:00",
    "2026-02-03x04:05:06", "2026-02-03 04", "20260203", "2026-02-03 04:05:06 CET", "2026-02-03 04:05:06.", "éééééééééé",
    "2026-02-03+01:00", "2026-02-03 04:05+", "2026-02-03 04:05:06.7+-0100", "2026-02-03 04:05:06+01:0", "Z", "+0100",
  ])
  func `a text that is not a date is refused`(text: String) {
    #expect(FieldType.iso8601.field(.text(text)) == nil)
  }

  @Test func `JSON is converted to arrays and maps, with exact integers`() {
    let text = #"{"a":[1,-2.5,null,true,"é"],"b":{"c":9007199254740993,"d":1e2}}"#
    let expected = FieldValue.map([
      "a": .array([.integer(1), .double(-2.5), .null, .bool(true), .text("é")]),
      "b": .map(["c": .integer(9_007_199_254_740_993), "d": .double(100)]),
    ])
    #expect(FieldType.json.field(.text(text)) == expected)
    #expect(FieldType.json.field(.blob(Array(text.utf8))) == expected)
    #expect(FieldType.json.field(.text("\"a\"")) == .text("a"))
    for wrong in ["", "{", "{a:1}", #"{"a":1,"a":2}"#, "1e999", "nul"] {
      #expect(FieldType.json.field(.text(wrong)) == nil, "\(wrong)")
    }
    #expect(FieldType.json.field(.integer(1)) == nil)
  }

  @Test func `the value of a column is described briefly for errors`() {
    #expect(ColumnValue.text("a\tb").found == "the text \"a\\x09b\"")
    #expect(ColumnValue.text(String(repeating: "x", count: 50)).found.hasSuffix("xx…\""))
    #expect(ColumnValue.blob([1, 255]).found == "2 bytes, 0x01ff")
    #expect(ColumnValue.integer(-1).found == "the integer -1" && ColumnValue.real(0.5).found == "the number 0.5")
    #expect(ColumnValue.damagedText([255]).found == "a text that is not UTF-8, 0xff")
    #expect(ColumnValue.null.found == "NULL")
  }
}
