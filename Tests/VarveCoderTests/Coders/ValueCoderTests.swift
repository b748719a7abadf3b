import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of all coders with the same values.
struct ValueCoderTests {
  static let kinds: [CoderKind] = [.binary, .json, .propertyList]

  /// Checks a value of the zoo with a coder. `prepared` is false for coders that refuse the value.
  private func check<T: Codable & Equatable>(_ value: T, _ coder: ValueCoder) throws {
    let row = try coder.encode(value)
    #expect(try coder.decode(T.self, row) == value, "\(coder.kind): \(T.self)")
    #expect(try coder.encode(value) == row, "\(coder.kind): \(T.self) encodes otherwise the second time")
    if coder.kind != .binary { #expect(row.shape == 0) }
  }

  @Test(arguments: kinds)
  func `a value of every type is read back`(kind: CoderKind) throws {
    let coder = ValueCoder(kind)
    for number in 0..<20 { try check(Zoo.Book.sample(number), coder) }
    try check(Zoo.Integers.least, coder)
    try check(Zoo.Optionals.full, coder)
    try check(Zoo.Optionals(), coder)
    try check(Zoo.Optionals(int: nil, list: [nil], twice: 1), coder)
    try check(Zoo.Scalars.sample, coder)
    try check(Zoo.Empty(), coder)
    try check(Zoo.Library.sample, coder)
    try check(Zoo.Event.all, coder)
    for event in Zoo.Event.all { try check(event, coder) }
    try check(Zoo.Expression.sample, coder)
    try check(Zoo.Tree.sample, coder)
    try check(Zoo.Everything.sample, coder)
    try check(Zoo.Wrapper(value: Zoo.Wrapper(value: "x")), coder)
    try check(Zoo.Dog(name: "Rex", owner: "Ann", tricks: ["sit"]), coder)
    try check(Zoo.Dog(name: "Rex", owner: nil, tricks: []), coder)
    try check(Zoo.Cat(name: "Tom", lives: 9), coder)
    try check(Zoo.Mixed(point: Zoo.Point(x: 1, y: 2), name: "n", numbers: [1, 2, 3]), coder)
    try check(Zoo.ManyFields(3), coder)
    try check([[1, 2], [], [3]], coder)
    try check(["b": 1, "a": 2], coder)
    try check([Zoo.Color.red, .blue], coder)
  }

  @Test(arguments: [CoderKind.binary, .json])
  func `the binary and the JSON coder read back values that property lists can't store`(kind: CoderKind) throws {
    let coder = ValueCoder(kind)
    try check(Zoo.Payload.sample, coder)
    try check(Zoo.Integers.largest, coder)
    try check(7, coder)
    try check("text", coder)
    try check(Zoo.Color.green, coder)
    try check(Zoo.Celsius(rawValue: .infinity), coder)
    try check([nil, 1] as [Int?], coder)
    try check(Int?.none, coder)
    try check(true, coder)
  }

  @Test func `the binary coder reads back numbers of 128 bits, any double and thousands of fields`() throws {
    let coder = ValueCoder(.binary)
    try check(Zoo.Wide(signed: .min, unsigned: .max, list: [.max, 0, -1, Int128(UInt64.max)], maybe: 1), coder)
    for count in [0, 1, 255, 256, 257, 1_023, 1_024, 1_025, 5_000] { try check(Zoo.ManyFields(count), coder) }
    let bits: [UInt64] = [
      0, 1, 0x8000_0000_0000_0000, 0x7ff0_0000_0000_0000, 0xfff0_0000_0000_0000, 0x7ff8_0000_0000_0001,
      0x7ff0_0000_0000_0001, 0x3ff0_0000_0000_0000, 0x47ef_ffff_e000_0000, 0x36a0_0000_0000_0000, 0x3fb9_9999_9999_999a,
    ]
    for pattern in bits {
      #expect(try coder.copy(Double(bitPattern: pattern)).bitPattern == pattern, "\(String(pattern, radix: 16))")
      let date = Date(timeIntervalSinceReferenceDate: Double(bitPattern: pattern))
      #expect(try coder.copy(date).timeIntervalSinceReferenceDate.bitPattern == pattern)
    }
    for pattern: UInt32 in [0, 1, 0x8000_0000, 0x7f80_0000, 0x7fc0_0001, 0x7f80_0001, 0x3dcc_cccd] {
      #expect(try coder.copy(Float(bitPattern: pattern)).bitPattern == pattern, "\(String(pattern, radix: 16))")
    }
  }

  @Test func `integers of every size come back`() throws {
    let coder = ValueCoder(.binary)
    for shift in 0..<63 {
      for delta in -2...2 {
        for value in [(1 << shift) + delta, -(1 << shift) + delta] { #expect(try coder.copy(value) == value) }
      }
    }
    for value in -5_000...5_000 { #expect(try coder.copy([value]) == [value]) }
    for value in UInt64.max - 3...UInt64.max { #expect(try coder.copy(value) == value) }
  }

  @Test func `strings and arrays of every small size come back`() throws {
    let coder = ValueCoder(.binary)
    for count in 0..<300 {
      let text = String(repeating: "é", count: count / 2) + (count % 2 == 1 ? "x" : "")
      #expect(try coder.copy(text) == text)
      #expect(try coder.copy(Array(0..<count)) == Array(0..<count))
      #expect(try coder.copy(Data(count: count)).count == count)
    }
  }

  @Test func `URLs keep their base, and decimal numbers all digits`() throws {
    let coder = ValueCoder(.binary)
    let base = URL(string: "https://example.org/a/")
    let urls = [URL(string: "b?c=d#e", relativeTo: base), base, URL(string: "mailto:a@example.org"), URL(string: "x")]
    for url in urls.compactMap(\.self) {
      let copy = try coder.copy(Zoo.Wrapper(value: url)).value
      #expect(copy == url)
      #expect(copy.baseURL == url.baseURL)
    }
    let texts = ["0", "-1", "12345678901234567890123456789012345678", "0.00000000000000000001", "1e100", "-7.5e-100"]
    for text in texts {
      let number = try #require(Decimal(string: text, locale: nil))
      #expect(try coder.copy(number) == number, "\(text)")
    }
    #expect(try coder.copy(Decimal.nan).isNaN)
  }

  @Test func `the raw coder stores bytes, and nothing else`() throws {
    let coder = ValueCoder(.raw)
    let bytes: [UInt8] = [0, 1, 255]
    #expect(try coder.encode(Data(bytes)).bytes == bytes)
    #expect(try coder.encode(bytes).bytes == bytes)
    #expect(try coder.copy(Data(bytes)) == Data(bytes))
    #expect(try coder.convert(Data(bytes), to: [UInt8].self) == bytes)
    #expect(try coder.copy(Data()).isEmpty)
    #expect(coderFault { _ = try coder.encode("text") }?.code == .encodingFailed)
    #expect(coderFault { _ = try coder.decode(String.self, (0, bytes)) }?.code == .decodingFailed)
    #expect(coderFault { _ = try coder.decode(Data.self, (1, bytes)) }?.code == .corruption)
  }

  @Test func `equal dictionaries have equal bytes, in every order of insertion`() throws {
    for kind in Self.kinds where kind != .propertyList {
      let coder = ValueCoder(kind)
      let keys = (0..<50).map { "key \($0 * 7 % 50)" }
      let forward = Dictionary(uniqueKeysWithValues: keys.map { ($0, $0.count) })
      var backward = Dictionary<String, Int>(minimumCapacity: 400)
      for key in keys.reversed() { backward[key] = key.count }
      #expect(Array(forward.keys) != Array(backward.keys), "the test needs two orders")
      #expect(try coder.encode(forward).bytes == coder.encode(backward).bytes)
    }
  }

  @Test func `two coders give the same bytes for the same values`() throws {
    let one = ValueCoder(.binary)
    let other = ValueCoder(.binary)
    #expect(try one.encode(Zoo.Library.sample) == other.encode(Zoo.Library.sample))
    #expect(try one.encode(Zoo.Everything.sample) == other.encode(Zoo.Everything.sample))
  }

  @Test func `the coders keep their numbers on disk`() {
    #expect(CoderKind.allCases.map(\.number) == [0, 1, 2, 3])
    #expect(CoderKind(number: 1) == .binary && CoderKind(number: 0) == .raw)
    #expect(CoderKind(number: 2) == .json && CoderKind(number: 3) == .propertyList)
  }

  @Test func `a value that encodes nothing is an error at the top, and an empty record within`() throws {
    struct Silent: Codable, Hashable {
      init() {}
      init(from decoder: any Decoder) throws {}
      func encode(to encoder: any Encoder) throws {}
    }
    let coder = ValueCoder(.binary)
    #expect(
      coderFault { _ = try coder.encode(Silent()) } == CoderFault(.encodingFailed, .invalidValue, "the value itself"))
    #expect(try coder.copy([Silent(), Silent()]).count == 2)
    #expect(try coder.json(Zoo.Wrapper(value: Silent())) == #"{"value":{}}"#)
    #expect(try coder.copy(Zoo.Wrapper(value: Silent())) == Zoo.Wrapper(value: Silent()))
  }
}
