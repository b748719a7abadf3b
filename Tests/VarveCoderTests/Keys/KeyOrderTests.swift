import EngineTestSupport
import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests that encodings sort as the values do, that equal values have equal encodings, and that each value is decoded
/// to itself.
struct KeyOrderTests {
  static let seeds: [UInt64] = [1, 2, 3]

  private func values<Value>(
    _ edges: [Value], _ count: Int, _ seed: UInt64, _ value: (inout SeededRandom) -> Value
  ) -> [Value] {
    var random = SeededRandom(seed: seed)
    return edges + (0..<count).map { _ in value(&random) }
  }

  private func checkIntegers<Value: FixedWidthInteger & KeyCodable>(_ type: Value.Type, _ seed: UInt64) throws {
    let keys = values(KeySamples.integerEdges(type), 150, seed) { KeySamples.integer(&$0) as Value }
    let misorder = try KeyCheck.firstMisorder(keys)
    #expect(misorder == nil, "\(type), seed \(seed)")
  }

  @Test(arguments: seeds)
  func `integers of each width sort as numbers`(seed: UInt64) throws {
    try checkIntegers(Int.self, seed)
    try checkIntegers(Int8.self, seed)
    try checkIntegers(Int16.self, seed)
    try checkIntegers(Int32.self, seed)
    try checkIntegers(Int64.self, seed)
    try checkIntegers(Int128.self, seed)
    try checkIntegers(UInt.self, seed)
    try checkIntegers(UInt8.self, seed)
    try checkIntegers(UInt16.self, seed)
    try checkIntegers(UInt32.self, seed)
    try checkIntegers(UInt64.self, seed)
    try checkIntegers(UInt128.self, seed)
  }

  @Test func `all integers of 16 bits sort as numbers`() throws {
    var last = try Int16.min.encoded()
    for value in Int16.min + 1...Int16.max {
      let bytes = try value.encoded()
      guard KeyCheck.compare(last, bytes) < 0, try Int16.decoded(from: bytes) == value else {
        Issue.record("\(value)")
        return
      }
      last = bytes
    }
    #expect(last == [0x32, 0x7f, 0xff])
  }

  /// Checks a number at another width: it has the same bytes if it fits, and throws an error if it does not.
  private func checkWidth<Value: FixedWidthInteger & KeyCodable>(
    _ type: Value.Type, _ number: some FixedWidthInteger, _ bytes: [UInt8]
  ) throws {
    if let value = Value(exactly: number) {
      let same = try value.encoded() == bytes
      let back = try Value.decoded(from: bytes)
      #expect(same && back == value, "\(number) as \(type)")
    } else {
      let error = #expect(throws: DatabaseError.self) { try Value.decoded(from: bytes) }
      #expect(error?.code == .invalidKey, "\(number) as \(type)")
    }
  }

  private func checkWidths(_ number: some FixedWidthInteger & KeyCodable) throws {
    let bytes = try number.encoded()
    try checkWidth(Int8.self, number, bytes)
    try checkWidth(Int16.self, number, bytes)
    try checkWidth(Int32.self, number, bytes)
    try checkWidth(Int64.self, number, bytes)
    try checkWidth(Int128.self, number, bytes)
    try checkWidth(UInt8.self, number, bytes)
    try checkWidth(UInt16.self, number, bytes)
    try checkWidth(UInt32.self, number, bytes)
    try checkWidth(UInt64.self, number, bytes)
    try checkWidth(UInt128.self, number, bytes)
  }

  @Test func `one number has one encoding at every width, and does not decode where it does not fit`() throws {
    for number in KeySamples.integerEdges(Int128.self) { try checkWidths(number) }
    for number in KeySamples.integerEdges(UInt128.self) { try checkWidths(number) }
  }

  @Test(arguments: seeds)
  func `doubles, floats and dates sort as numbers`(seed: UInt64) throws {
    let doubles = values(KeySamples.doubleEdges, 400, seed, KeySamples.double)
    #expect(try KeyCheck.firstMisorder(doubles) == nil, "seed \(seed)")
    let dates = doubles.map { Date(timeIntervalSinceReferenceDate: $0) }
    #expect(try KeyCheck.firstMisorder(dates) == nil, "seed \(seed)")
    let floats = doubles.map { Float($0) } + [.leastNonzeroMagnitude, .leastNormalMagnitude.nextDown, -0.0]
    #expect(try KeyCheck.firstMisorder(floats) == nil, "seed \(seed)")
  }

  @Test(arguments: seeds)
  func `a float has the bytes of its double, and no other double decodes as a float`(seed: UInt64) throws {
    for double in values(KeySamples.doubleEdges, 400, seed, KeySamples.double) {
      let float = Float(double)
      #expect(try float.encoded() == Double(float).encoded(), "\(double)")
      let decoded = try? Float.decoded(from: double.encoded())
      #expect(decoded == Float(exactly: double), "\(double)")
    }
  }

  @Test func `zero has one encoding, whatever its sign`() throws {
    #expect(try (-0.0).encoded() == (0.0).encoded())
    #expect(try Float(-0.0).encoded() == (0.0).encoded())
    let dates = [0.0, -0.0].map { Date(timeIntervalSinceReferenceDate: $0) }
    #expect(try dates[0].encoded() == dates[1].encoded())
  }

  @Test(arguments: seeds)
  func `decimals sort as numbers, however they are written`(seed: UInt64) throws {
    let decimals = values(KeySamples.decimalEdges, 300, seed, KeySamples.decimal)
    #expect(try KeyCheck.firstMisorder(decimals) == nil, "seed \(seed)")
    #expect(try Decimal(string: "1.50")?.encoded() == Decimal(string: "1.5")?.encoded())
  }

  @Test(arguments: seeds)
  func `durations sort by their length`(seed: UInt64) throws {
    let edges: [Duration] = [
      .zero, .seconds(Int64.max), .seconds(Int64.min), .nanoseconds(-1), .nanoseconds(1),
      Duration(secondsComponent: -1, attosecondsComponent: -1), Duration(secondsComponent: 0, attosecondsComponent: -1),
    ]
    let durations = values(edges, 300, seed, KeySamples.duration)
    #expect(try KeyCheck.firstMisorder(durations) == nil, "seed \(seed)")
  }

  @Test(arguments: seeds)
  func `descending parts sort in reverse order, alone and among other parts`(seed: UInt64) throws {
    let strings = values(KeySamples.pieces, 200, seed, KeySamples.string)
    // Strings sort by their normal form, which their keys contain.
    let misplaced = try KeyCheck.firstMisorder(strings.map { Descending($0) }) { left, right in
      guard let first = try? left.value.encoded(), let second = try? right.value.encoded() else { return false }
      return KeyCheck.compare(second, first) < 0
    }
    #expect(misplaced == nil, "seed \(seed)")
    let data = values([Data(), Data([0]), Data([0, 0xff]), Data([0, 1]), Data([0xff])], 200, seed, KeySamples.data)
    #expect(
      try KeyCheck.firstMisorder(data.map { Descending($0) }) { $1.value.lexicographicallyPrecedes($0.value) } == nil)
    let numbers = values(KeySamples.integerEdges(Int.self), 200, seed) { KeySamples.integer(&$0) as Int }
    #expect(try KeyCheck.firstMisorder(numbers.map { Descending($0) }) == nil, "seed \(seed)")
    let optionals: [Int?] = values([nil, 0, .min, .max], 200, seed) { random in
      KeySamples.optional(&random) { KeySamples.integer(&$0) }
    }
    func rank(_ value: Int?) -> (Int, Int) { value.map { (1, $0) } ?? (0, 0) }
    #expect(try KeyCheck.firstMisorder(optionals.map { Descending($0) }) { rank($1.value) < rank($0.value) } == nil)
    // The first and second parts take few values, so that the parts after them decide the order.
    let keys = values([], 300, seed) { random in
      Compound(
        random.below(2), Descending(Data(KeySamples.data(&random).prefix(2))), KeySamples.integer(&random) as Int)
    }
    let misorder = try KeyCheck.firstMisorder(keys) { left, right in
      let (first, second) = (left.values, right.values)
      if first.0 != second.0 { return first.0 < second.0 }
      if first.1 != second.1 { return second.1.value.lexicographicallyPrecedes(first.1.value) }
      return first.2 < second.2
    }
    #expect(misorder == nil, "seed \(seed)")
  }

  @Test func `a URL that is relative to another is not a key`() throws {
    let base = try #require(URL(string: "https://example.org/a"))
    let error = #expect(throws: DatabaseError.self) { try URL(string: "b", relativeTo: base)?.encoded() }
    #expect(error?.code == .invalidKey && error?.message.contains("absoluteURL") == true)
    #expect(try URL(string: "b", relativeTo: base)?.absoluteURL.encoded() == "https://example.org/b".encoded())
  }

  @Test func `a NaN is not a key`() {
    let patterns: [UInt64] = [0x7ff8_0000_0000_0000, 0xfff8_0000_0000_0001, 0x7ff0_0000_0000_0001]
    for pattern in patterns {
      let value = Double(bitPattern: pattern)
      let keys: [any KeyCodable] = [
        value, Float(value), Date(timeIntervalSinceReferenceDate: value), Double?.some(value), Compound(1, value),
      ]
      for key in keys {
        let error = #expect(throws: DatabaseError.self) { try key.encoded() }
        #expect(error?.code == .invalidKey)
      }
    }
  }

  @Test(arguments: seeds)
  func `Booleans, UUIDs and data sort by their bytes`(seed: UInt64) throws {
    #expect(try KeyCheck.firstMisorder([false, true]) { !$0 && $1 } == nil)
    let uuids = values([], 400, seed, KeySamples.uuid)
    #expect(try KeyCheck.firstMisorder(uuids) == nil, "seed \(seed)")
    let data = values([Data(), Data([0]), Data([0, 0xff]), Data([0, 1]), Data([0xff])], 400, seed, KeySamples.data)
    #expect(try KeyCheck.firstMisorder(data) { $0.lexicographicallyPrecedes($1) } == nil, "seed \(seed)")
  }

  @Test(arguments: seeds)
  func `nil sorts before every value, in each layer`(seed: UInt64) throws {
    func rank(_ value: Int??) -> (Int, Int, Int) {
      switch value {
      case .none: (0, 0, 0)
      case .some(.none): (1, 0, 0)
      case .some(.some(let number)): (1, 1, number)
      }
    }
    let keys: [Int??] = values([.none, .some(.none), .some(.some(0)), .min, .max], 200, seed) { random in
      KeySamples.optional(&random) { KeySamples.optional(&$0) { KeySamples.integer(&$0) } }
    }
    #expect(try KeyCheck.firstMisorder(keys) { rank($0) < rank($1) } == nil, "seed \(seed)")
    let encodings = try [Int??.none, .some(.none), .some(.some(0))].map { try $0.encoded() }
    #expect(encodings == [[0x03], [0x04, 0x03], [0x04, 0x04, 0x30]])
  }
}
