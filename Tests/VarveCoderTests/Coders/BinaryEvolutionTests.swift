import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of rows that one version of a type wrote, and another version reads.
struct BinaryEvolutionTests {
  private let coder = ValueCoder(.binary)

  private struct First: Codable, Equatable {
    var name = "n"
    var year = 1999
    var note: String? = "x"
  }

  @Test func `fields can be reordered, removed and added`() throws {
    struct Reordered: Codable, Equatable {
      var note: String?
      var year: Int
      var name: String
    }
    struct Less: Codable, Equatable { var year: Int }
    struct More: Codable, Equatable {
      var added: Int?
      var name: String
      var addedList: [Int]?
      var year: Int
      var note: String?
    }
    #expect(try coder.convert(First(), to: Reordered.self) == Reordered(note: "x", year: 1999, name: "n"))
    #expect(try coder.convert(First(), to: Less.self) == Less(year: 1999))
    #expect(try coder.convert(First(), to: More.self) == More(name: "n", year: 1999, note: "x"))
    #expect(try coder.convert(More(name: "m", year: 1), to: First.self) == First(name: "m", year: 1, note: nil))
  }

  @Test func `a missing required field is a key that is not found`() throws {
    struct Required: Codable { var name: String, year: Int, missing: Int }
    struct Renamed: Codable { var title: String }
    #expect(
      coderFault { _ = try coder.convert(First(), to: Required.self) }
        == CoderFault(.decodingFailed, .keyNotFound, "missing"))
    #expect(
      coderFault { _ = try coder.convert(First(), to: Renamed.self) }
        == CoderFault(.decodingFailed, .keyNotFound, "title"))
  }

  @Test func `an optional field can become required if it has a value, and not if it is absent or null`() throws {
    struct Optional: Codable, Equatable { var a: Int?, b: Int? }
    struct Required: Codable, Equatable { var a: Int, b: Int }
    #expect(try coder.convert(Optional(a: 1, b: 2), to: Required.self) == Required(a: 1, b: 2))
    #expect(try coder.convert(Required(a: 1, b: 2), to: Optional.self) == Optional(a: 1, b: 2))
    #expect(
      coderFault { _ = try coder.convert(Optional(a: 1), to: Required.self) }
        == CoderFault(.decodingFailed, .keyNotFound, "b"))
    #expect(
      coderFault { _ = try coder.convert(["a": 1, "b": nil], to: Required.self) }
        == CoderFault(.decodingFailed, .valueNotFound, "b"))
    #expect(try coder.convert(["a": 1, "b": nil], to: Optional.self) == Optional(a: 1, b: nil))
    #expect(try coder.convert(["a": 1], to: Optional.self) == Optional(a: 1, b: nil))
  }

  @Test func `numbers are read at other widths where they fit`() throws {
    #expect(try coder.convert([1, -1, 127, -128], to: [Int8].self) == [1, -1, 127, -128])
    #expect(try coder.convert([128], to: [UInt8].self) == [128])
    #expect(try coder.convert(UInt64.max, to: UInt128.self) == UInt128(UInt64.max))
    #expect(try coder.convert(Int8(-5), to: Int64.self) == -5)
    #expect(try coder.convert(Int128(70), to: UInt16.self) == 70)
    let fault = CoderFault(.decodingFailed, .dataCorrupted, "[0]")
    #expect(coderFault { _ = try coder.convert([128], to: [Int8].self) } == fault)
    #expect(coderFault { _ = try coder.convert([-1], to: [UInt].self) } == fault)
    #expect(coderFault { _ = try coder.convert([UInt64.max], to: [Int].self) } == fault)
    #expect(coderFault { _ = try coder.convert([Int128.max], to: [UInt64].self) } == fault)
    #expect(coderFault { _ = try coder.convert([UInt128.max], to: [Int128].self) } == fault)
  }

  @Test func `integers and floating-point numbers convert to each other if nothing is lost`() throws {
    #expect(try coder.convert([3, -1, 1 << 53], to: [Double].self) == [3, -1, 9_007_199_254_740_992])
    #expect(try coder.convert([3.0, -2], to: [Int].self) == [3, -2])
    #expect(try coder.convert([0.1, .infinity], to: [Float].self) == [0.1, .infinity])
    #expect(try coder.convert([Float(0.5)], to: [Double].self) == [0.5])
    #expect(try coder.convert(UInt64(9_223_372_036_854_775_808), to: Double.self) == 9_223_372_036_854_775_808)
    let fault = CoderFault(.decodingFailed, .dataCorrupted, "[0]")
    #expect(coderFault { _ = try coder.convert([(1 << 53) + 1], to: [Double].self) } == fault)
    #expect(coderFault { _ = try coder.convert([0.5], to: [Int].self) } == fault)
    #expect(coderFault { _ = try coder.convert([Double.nan], to: [Int].self) } == fault)
    #expect(coderFault { _ = try coder.convert([1e300], to: [Float].self) } == fault)
  }

  @Test func `dates, UUIDs, URLs, data and decimal numbers convert to and from the values that JSON has for them`()
    throws
  {
    let date = Date(timeIntervalSinceReferenceDate: 0.25)
    let uuid = UUID()
    let url = try #require(URL(string: "https://example.org/x"))
    #expect(try coder.convert(date, to: Double.self) == 0.25)
    #expect(try coder.convert([7], to: [Date].self) == [Date(timeIntervalSinceReferenceDate: 7)])
    #expect(try coder.convert(uuid, to: String.self) == uuid.uuidString)
    #expect(try coder.convert(uuid.uuidString, to: UUID.self) == uuid)
    #expect(try coder.convert(url, to: String.self) == "https://example.org/x")
    #expect(try coder.convert("https://example.org/x", to: URL.self) == url)
    #expect(try coder.convert([12, -1], to: [Decimal].self) == [12, -1])
    #expect(try coder.convert(0.1, to: Decimal.self) == Decimal(string: "0.1"))
    #expect(try coder.convert(Decimal(string: "0.1"), to: Double.self) == 0.1)
    #expect(try coder.convert(Decimal(12), to: Int8.self) == 12)
    #expect(try coder.convert([1, 2, 3] as [UInt8], to: Data.self) == Data([1, 2, 3]))
    #expect(try coder.convert(Data([1, 200]), to: [Int].self) == [1, 200])
    #expect(try coder.convert([1, 200], to: [UInt8].self) == [1, 200])
    #expect(try coder.convert([1, 200], to: Data.self) == Data([1, 200]))
    let fault = CoderFault(.decodingFailed, .dataCorrupted, "[0]")
    #expect(coderFault { _ = try coder.convert(["no"], to: [UUID].self) } == fault)
    #expect(coderFault { _ = try coder.convert([""], to: [URL].self) } == fault)
    #expect(coderFault { _ = try coder.convert([Data([1, 200])], to: [[Int8]].self) }?.kind == .dataCorrupted)
  }

  @Test func `values of other kinds don't convert to each other`() throws {
    let mismatch = CoderFault(.decodingFailed, .typeMismatch, "[0]")
    #expect(coderFault { _ = try coder.convert([1], to: [String].self) } == mismatch)
    #expect(coderFault { _ = try coder.convert(["1"], to: [Int].self) } == mismatch)
    #expect(coderFault { _ = try coder.convert([1], to: [Bool].self) } == mismatch)
    #expect(coderFault { _ = try coder.convert([true], to: [Int].self) } == mismatch)
    #expect(coderFault { _ = try coder.convert([[1]], to: [Int].self) } == mismatch)
    #expect(coderFault { _ = try coder.convert([1], to: [[Int]].self) } == mismatch)
    #expect(coderFault { _ = try coder.convert([1], to: [Zoo.Point].self) } == mismatch)
    #expect(coderFault { _ = try coder.convert([Zoo.Point(x: 1, y: 2)], to: [Int].self) } == mismatch)
    #expect(coderFault { _ = try coder.convert([Zoo.Point(x: 1, y: 2)], to: [[Int]].self) } == mismatch)
    #expect(coderFault { _ = try coder.convert([["x": 1]], to: [String].self) } == mismatch)
    #expect(
      coderFault { _ = try coder.convert([nil, 1] as [Int?], to: [Int].self) }
        == CoderFault(.decodingFailed, .valueNotFound, "[0]"))
    let top = CoderFault(.decodingFailed, .typeMismatch, "the value itself")
    #expect(coderFault { _ = try coder.convert(Zoo.Point(x: 1, y: 2), to: Int.self) } == top)
    #expect(coderFault { _ = try coder.convert(Zoo.Point(x: 1, y: 2), to: UUID.self) } == top)
    #expect(coderFault { _ = try coder.convert(1, to: Zoo.Point.self) } == top)
  }

  @Test func `nested records change as the outer ones do`() throws {
    struct Old: Codable { var inner: [First] = [First(), First(year: 3)], last = 7 }
    struct New: Codable, Equatable {
      struct Inner: Codable, Equatable { var year: Int8?, other: String? }
      var last: Int
      var inner: [Inner]
    }
    struct Narrow: Codable, Equatable {
      struct Inner: Codable, Equatable { var year: Int16 }
      var inner: [Inner]
      var last: Int
    }
    #expect(
      try coder.convert(Old(), to: Narrow.self) == Narrow(inner: [.init(year: 1999), .init(year: 3)], last: 7))
    #expect(
      coderFault { _ = try coder.convert(Old(), to: New.self) }
        == CoderFault(.decodingFailed, .dataCorrupted, "inner[0].year"))
    #expect(
      try coder.convert(Old(inner: [First(year: 3)]), to: New.self)
        == New(last: 7, inner: [.init(year: 3, other: nil)]))
  }

  @Test func `cases of enums may be added, and unknown ones are errors`() throws {
    enum Old: Codable, Equatable { case a(Int), b }
    enum New: Codable, Equatable { case z(String), b, a(Int), c(x: Int, y: Int) }
    for value in [Old.a(5), .b] {
      let copy = try coder.convert(value, to: New.self)
      #expect(copy == (value == .b ? .b : .a(5)))
    }
    #expect(coderFault { _ = try coder.convert(New.c(x: 1, y: 2), to: Old.self) }?.code == .decodingFailed)
    #expect(
      coderFault { _ = try coder.convert(["purple"], to: [Zoo.Color].self) }
        == CoderFault(.decodingFailed, .dataCorrupted, "[0]"))
  }

  @Test func `records and dictionaries convert to each other`() throws {
    #expect(try coder.convert(Zoo.Point(x: 1, y: 2), to: [String: Int].self) == ["x": 1, "y": 2])
    #expect(try coder.convert(["x": 1, "y": 2, "z": 3], to: Zoo.Point.self) == Zoo.Point(x: 1, y: 2))
    #expect(try coder.convert([Zoo.Point(x: 1, y: 2)], to: [[String: Int]].self) == [["x": 1, "y": 2]])
    struct Part: Codable { var x: Int?, y: Int? }
    #expect(try coder.convert(Part(x: nil, y: 2), to: [String: Int].self) == ["y": 2])
  }
}
