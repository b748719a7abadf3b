import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of what a tool prints for rows whose types it does not know.
struct UntypedValueTests {
  private let coder = ValueCoder(.binary)

  @Test func `a row is printed as JSON, its fields in their order`() throws {
    struct Book: Codable {
      var title: String?
      var year: Int
      var author: String?
    }
    #expect(try coder.json(Book(title: "A", year: 1999)) == #"{"title":"A","year":1999}"#)
    #expect(
      try coder.json([Book(year: -1), Book(title: "\"\\\n\u{1}", year: 2)])
        == #"[{"year":-1},{"title":"\"\\\n\u0001","year":2}]"#)
    #expect(
      try coder.json(Zoo.Event.all)
        == #"[{"ping":{}},{"moved":{"_0":{"x":1,"y":2}}},{"renamed":{"from":"a"}},{"renamed":{"from":"a","to":"b"}},"#
        + #"{"several":{"_0":1,"_1":2.5,"_2":[{"ping":{}},{"moved":{"_0":{"x":0,"y":0}}},"#
        + #"{"several":{"_0":0,"_1":0.0,"_2":[]}}]}}]"#)
    #expect(try coder.json(["b": [1], "a": []]) == #"{"a":[],"b":[1]}"#)
    #expect(try coder.json([Int?.none, 1]) == "[null,1]")
  }

  @Test func `values of their own kinds are printed as text`() throws {
    let uuid = try #require(UUID(uuidString: "00112233-4455-6677-8899-AABBCCDDEEFF"))
    #expect(try coder.json(uuid) == #""00112233-4455-6677-8899-AABBCCDDEEFF""#)
    #expect(try coder.json(Data([1, 2, 255])) == #""AQL/""#)
    #expect(try coder.json(try #require(URL(string: "a:b"))) == #""a:b""#)
    #expect(try coder.json(Decimal(string: "-12.50")) == "-12.5")
    #expect(try coder.json(Decimal.nan) == #""NaN""#)
    #expect(try coder.json([Double.nan, .infinity, -.infinity, 1e300]) == #"["NaN","Infinity","-Infinity",1e+300]"#)
    #expect(try coder.json([Float(0.1), -.infinity]) == #"[0.1,"-Infinity"]"#)
    #expect(try coder.json(UInt128.max) == "340282366920938463463374607431768211455")
    #expect(try coder.json([true, false]) == "[true,false]")
  }

  @Test func `dates are printed as ISO 8601, and dates outside of its range as seconds since 2001`() throws {
    func text(_ interval: Double) throws -> String { try coder.json(Date(timeIntervalSinceReferenceDate: interval)) }
    #expect(try text(0) == #""2001-01-01T00:00:00.000Z""#)
    #expect(try text(-0.001) == #""2000-12-31T23:59:59.999Z""#)
    #expect(try text(-978_307_200) == #""1970-01-01T00:00:00.000Z""#)
    #expect(try text(-27_705_600) == #""2000-02-15T08:00:00.000Z""#)
    for text in ["1e300", "-1e300", "nan", "inf", "-inf", "9e12", "-9e12", "3e11", "-1e11"] {
      let interval = try #require(Double(text))
      #expect(try coder.json(Date(timeIntervalSinceReferenceDate: interval)) == "\"\(interval) s since 2001\"")
    }
    #expect(try text(-63_113_904_000) == #""0001-01-01T00:00:00.000Z""#)
    #expect(try text(252_423_993_599.5) == #""9999-12-31T23:59:59.500Z""#)
    // The text must equal Foundation's, from the year on in which its calendar is the Gregorian one.
    let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
    for step in 0..<3_700 {
      let interval = -13_000_000_000.0 + Double(step) * 70_000_003.25
      let date = Date(timeIntervalSinceReferenceDate: interval)
      #expect(try text(interval) == "\"\(date.formatted(style))\"")
    }
  }

  @Test func `rows of the other coders are printed, too`() throws {
    for kind in [CoderKind.json, .propertyList] {
      let coder = ValueCoder(kind)
      #expect(
        try coder.json(Zoo.Tree.sample)
          == #"{"children":[{"children":[{"children":[],"name":"b"}],"name":"a"},{"children":[],"name":"c"}],"#
          + #""name":"root"}"#
      )
      #expect(try coder.json(["a": 1.5]) == #"{"a":1.5}"#)
      #expect(try coder.json(["a": [true]]) == #"{"a":[true]}"#)
    }
    let list = ValueCoder(.propertyList)
    #expect(try list.json([Date(timeIntervalSinceReferenceDate: 0)]) == #"["2001-01-01T00:00:00.000Z"]"#)
    #expect(try list.json([Data([255])]) == #"["/w=="]"#)
    #expect(try ValueCoder(.raw).json(Data([255])) == #""/w==""#)
    #expect(throws: DatabaseError.self) { try ValueCoder(.json).untyped((0, hex("7b"))) }
  }

  @Test func `rows are read as untyped values with the fields of their types`() throws {
    let decoded = try coder.untyped(try coder.encode(Zoo.Scalars.sample))
    guard case .record(let fields) = decoded else { throw DatabaseError(.corruption, "no record") }
    #expect(
      fields.map(\.name) == ["bool", "float", "double", "string", "data", "bytes", "date", "uuid", "url", "decimal"])
    #expect(
      fields.map(\.value) == [
        .bool(true), .float(0.1), .double(0.1), .string("Grüße 👋🏽"), .bytes([0, 255, 1]), .bytes([9, 8, 7]), .date(-1.5),
        .uuid("09090909-0909-0909-0909-090909090909"), .url("file:///a%20b/c"), .decimal("-0.00000000000123456789"),
      ])
    let wide = Zoo.Wide(signed: .min, unsigned: .max, list: [], maybe: nil)
    #expect(
      try coder.untyped(try coder.encode(wide))
        == .record([
          .init("signed", .integer(.min)), .init("unsigned", .unsigned(.max)), .init("list", .array([])),
        ]))
  }
}
