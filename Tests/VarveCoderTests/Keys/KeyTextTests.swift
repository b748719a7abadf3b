import EngineTestSupport
import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Keys as parts and as text, without knowing their types.
struct KeyTextTests {
  private func text(_ key: some KeyCodable) throws -> String { KeyText.text(of: try key.encoded()) }

  private func date(_ seconds: Double) -> Date { Date(timeIntervalSinceReferenceDate: seconds) }

  @Test func `numbers, Booleans, UUIDs and data are shown as text`() throws {
    #expect(try text(42) == "42")
    #expect(try text(Int128.min) == "-170141183460469231731687303715884105728")
    #expect(try text(UInt128.max) == "340282366920938463463374607431768211455")
    #expect(try text(UInt128(Int128.max)) == "170141183460469231731687303715884105727")
    #expect(try text(42.0) == "42.0")
    #expect(try text(-Double.infinity) == "-inf")
    #expect(try text(true) == "true")
    #expect(try text(Data()) == "0x")
    #expect(try text(Data([0, 0xc0, 0xff])) == "0x00c0ff")
    let uuid = UUID()
    #expect(try text(uuid) == uuid.uuidString)
    #expect(try text(Decimal(string: "-12.50")) == "-12.5")
    #expect(try text(Decimal(string: "1e30")) == "1000000000000000000000000000000")
    #expect(try text(Duration.milliseconds(-1_500)) == "-1.5s")
    #expect(try text(Duration.milliseconds(-500)) == "-0.5s")
    #expect(try text(Duration(secondsComponent: 2, attosecondsComponent: 1)) == "2.000000000000000001s")
    #expect(try text(Compound(Descending("a"), Descending(Int?.some(1)), 2)) == "(\"a\", 1, 2)")
  }

  @Test func `strings are quoted, and invisible characters are escaped`() throws {
    #expect(try text("a") == #""a""#)
    #expect(try text("") == #""""#)
    #expect(try text("\"\\\n\r\t\0") == #""\"\\\n\r\t\0""#)
    #expect(try text("é 😀") == #""é 😀""#)
    #expect(
      try text("\u{7f}\u{200b}\u{2028}\u{a0}\u{202e}\u{e000}") == #""\u{7f}\u{200b}\u{2028}\u{a0}\u{202e}\u{e000}""#)
  }

  @Test func `optionals and several parts are shown as text`() throws {
    #expect(try text(Compound("a", 42, Int?.none)) == #"("a", 42, nil)"#)
    #expect(try text(Compound("a", Int?.some(42))) == #"("a", 42)"#)
    #expect(try text(Int?.none) == "nil")
    #expect(try text(Int?.some(1)) == "1")
    #expect(try [Int??.none, .some(.none), .some(.some(1))].map { try text($0) } == ["nil", "some(nil)", "some(1)"])
    #expect(KeyText.text(of: []) == "()")
    #expect(KeyText.text(of: .some(.string("x"))) == #""x""#)
  }

  @Test func `bytes that are not a key are shown in hexadecimal`() {
    #expect(KeyText.text(of: [0x11, 0x61]) == "<invalid 0x1161>")
    #expect(KeyText.text(of: [0x30, 0xff, 0x00]) == "<invalid 0x30ff00>")
  }

  @Test func `dates are shown with as many fractional digits as they need`() throws {
    #expect(try text(date(0)) == "2001-01-01T00:00:00Z")
    #expect(try text(date(0.1)) == "2001-01-01T00:00:00.1Z")
    #expect(try text(date(-0.25)) == "2000-12-31T23:59:59.75Z")
    #expect(try text(date(791_784_245.789)) == "2026-02-03T04:04:05.789Z")
    #expect(try text(date(791_784_245.789.nextUp)) == "2026-02-03T04:04:05.7890002Z")
    #expect(try text(date(-63_113_904_000)) == "0001-01-01T00:00:00Z")
    #expect(try text(date(-63_145_526_400)) == "0000-01-01T00:00:00Z")
    #expect(try text(date((-63_145_526_400).nextDown)) == "date(-63145526400.00001)")
    #expect(try text(date(252_423_993_599.5)) == "9999-12-31T23:59:59.5Z")
    #expect(try text(date(252_423_993_600)) == "date(252423993600.0)")
    #expect(try text(date(.infinity)) == "date(inf)")
    #expect(try text(date(1e-5)) == "date(1e-05)")
    #expect(try text(date(-0.00012345678901234567)) == "2000-12-31T23:59:59.99987654321098765433Z")
  }

  @Test(arguments: [1, 2] as [UInt64])
  func `dates have the day and the time of Foundation`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let style = Date.ISO8601FormatStyle()
    for _ in 0..<3_000 {
      // The years 1600 to 9999: Foundation's calendar is Julian long before.
      let seconds = random.below(265_000_000_000) - 12_600_000_000
      let date = date(Double(seconds))
      guard date < Date(timeIntervalSinceReferenceDate: 252_423_993_600) else { continue }
      #expect(try text(date) == date.formatted(style), "seed \(seed)")
    }
  }

  @Test func `the days around the ends of months are those of the calendar`() throws {
    for year in 1600...2500 {
      let isLeapYear = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
      for day in ["01-01", "02-28", "03-01", "07-31", "12-31"] + (isLeapYear ? ["02-29"] : []) {
        let expected = "\(year)-\(day)T12:00:00Z"
        #expect(try text(Date(expected, strategy: .iso8601)) == expected)
      }
    }
  }

  @Test(arguments: [1, 2] as [UInt64])
  func `different dates have different texts`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    for _ in 0..<3_000 {
      let first = (Double(random.below(4_000_000_000)) - 2_000_000_000) / Double(1 << random.below(20))
      #expect(try text(date(first)) != text(date(first.nextUp)), "seed \(seed): \(first)")
    }
  }

  @Test(arguments: [1, 2] as [UInt64])
  func `the parts of a key are its values`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    for _ in 0..<1_000 {
      let key = Compound(
        KeySamples.string(&random), KeySamples.integer(&random) as UInt128, KeySamples.uuid(&random),
        KeySamples.data(&random), KeySamples.optional(&random) { $0.below(10) },
        Date(timeIntervalSinceReferenceDate: KeySamples.double(&random)), KeySamples.double(&random), random.oneIn(2))
      let values = key.values
      let expected: [KeyPart] = [
        .string(values.0), Int128(exactly: values.1).map { .integer($0) } ?? .largeInteger(values.1), .uuid(values.2),
        .data(values.3), values.4.map { .some(.integer(Int128($0))) } ?? .null, .date(values.5), .double(values.6),
        .bool(values.7),
      ]
      #expect(try KeyPart.parts(of: key.encoded()) == expected, "seed \(seed)")
    }
  }
}
