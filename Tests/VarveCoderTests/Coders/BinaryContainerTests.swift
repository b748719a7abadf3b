import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of types that use their containers in every way that `Codable` permits.
struct BinaryContainerTests {
  private let coder = ValueCoder(.binary)

  /// A type that encodes with a closure.
  private struct Writer: Encodable {
    let body: (any Encoder) throws -> Void
    init(_ body: @escaping (any Encoder) throws -> Void) { self.body = body }
    func encode(to encoder: any Encoder) throws { try body(encoder) }
  }

  private enum Key: CodingKey { case a, b, c, d }

  /// Returns the JSON encoding of a value, with its keys sorted.
  private func foundation(_ value: Writer) throws -> UntypedValue {
    let coder = ValueCoder(.json)
    return try coder.untyped(try coder.encode(value)).sorted
  }

  private func expectAsJSON(_ value: Writer, _ comment: Comment) throws {
    let expected = try foundation(value)
    for _ in 0..<3 { #expect(try coder.untyped(try coder.encode(value)).sorted == expected, comment) }
    // The value is also encoded inside other values and next to them.
    #expect(try coder.untyped(try coder.encode([value, value])).sorted == .array([expected, expected]), comment)
    let inMap = try coder.untyped(try coder.encode(["k": value])).sorted
    #expect(inMap == .record([.init("k", expected)]), comment)
  }

  @Test func `nested containers may be filled in any order`() throws {
    try expectAsJSON(
      Writer { encoder in
        var container = encoder.container(keyedBy: Key.self)
        var a = container.nestedContainer(keyedBy: Key.self, forKey: .a)
        var b = container.nestedUnkeyedContainer(forKey: .b)
        try container.encode("c", forKey: .c)
        try b.encode(1)
        try a.encode(2, forKey: .b)
        try b.encode(contentsOf: [3, 4])
        try a.encode(5, forKey: .a)
        var inner = b.nestedContainer(keyedBy: Key.self)
        try a.encode(["x"], forKey: .d)
        try inner.encode(6, forKey: .a)
      }, "keyed")
    try expectAsJSON(
      Writer { encoder in
        var list = encoder.unkeyedContainer()
        var first = list.nestedUnkeyedContainer()
        var second = list.nestedContainer(keyedBy: Key.self)
        try list.encode(Zoo.Point(x: 1, y: 2))
        try list.encode(Zoo.Point(x: 3, y: 4))
        try second.encode(1, forKey: .a)
        try first.encode(2)
        #expect(list.count == 4 && first.count == 1)
      }, "unkeyed")
    try expectAsJSON(
      Writer { encoder in
        var map = encoder.container(keyedBy: PathKey.self)
        var late = map.nestedUnkeyedContainer(forKey: PathKey(stringValue: "z"))
        var later = map.nestedUnkeyedContainer(forKey: PathKey(stringValue: "y"))
        try map.encode(1, forKey: PathKey(stringValue: "a"))
        try late.encode(contentsOf: 0..<20)
        try later.encode("x")
      }, "map")
  }

  @Test func `super encoders may be used late`() throws {
    try expectAsJSON(
      Writer { encoder in
        var container = encoder.container(keyedBy: Key.self)
        let parent = container.superEncoder()
        let other = container.superEncoder(forKey: .d)
        try container.encode(1, forKey: .a)
        var list = container.nestedUnkeyedContainer(forKey: .b)
        let element = list.superEncoder()
        try list.encode(2)
        try Zoo.Point(x: 3, y: 4).encode(to: parent)
        try [5, 6].encode(to: other)
        var single = element.singleValueContainer()
        try single.encode("element")
      }, "late")
    try expectAsJSON(
      Writer { encoder in
        var container = encoder.container(keyedBy: Key.self)
        _ = container.superEncoder()
        _ = container.nestedContainer(keyedBy: Key.self, forKey: .a)
        _ = container.nestedUnkeyedContainer(forKey: .b)
      }, "never used")
  }

  @Test func `a container of one value can be requested several times`() throws {
    try expectAsJSON(
      Writer { encoder in
        var one = encoder.container(keyedBy: Key.self)
        try one.encode(1, forKey: .a)
        var other = encoder.container(keyedBy: PathKey.self)
        try other.encode(2, forKey: PathKey(stringValue: "other"))
        try one.encode(3, forKey: .b)
        var again = encoder.container(keyedBy: Key.self)
        try again.encode([1: "x"], forKey: .c)
        try other.encodeNil(forKey: PathKey(stringValue: "nil"))
      }, "keyed")
    try expectAsJSON(
      Writer { encoder in
        var one = encoder.unkeyedContainer()
        try one.encode(1)
        var other = encoder.unkeyedContainer()
        try other.encode(2)
        try one.encode(3)
      }, "unkeyed")
  }

  @Test func `arrays of changing kinds keep their elements`() throws {
    let parts: [any Encodable & Sendable] = [
      Zoo.Point(x: 1, y: 2), Zoo.Point(x: 3, y: 4), Zoo.Empty(), [1], Zoo.Wrapper(value: 1), "text", ["k": 1],
      Zoo.Event.ping, Int?.none,
    ]
    for first in parts.indices {
      for second in parts.indices {
        for third in parts.indices {
          try expectAsJSON(
            Writer { encoder in
              var list = encoder.unkeyedContainer()
              for index in [first, first, second, third, first] { try list.encode(Erased(parts[index])) }
            }, "\(first) \(second) \(third)")
        }
      }
    }
  }

  private struct Erased: Encodable {
    let value: any Encodable
    init(_ value: any Encodable) { self.value = value }
    func encode(to encoder: any Encoder) throws { try value.encode(to: encoder) }
  }

  @Test func `fields of every type are kept through every API`() throws {
    try expectAsJSON(
      Writer { encoder in
        var list = encoder.unkeyedContainer()
        try list.encode(true)
        try list.encode("s")
        try list.encode(1.5)
        try list.encode(Float(2.5))
        try list.encode(Int8(1))
        try list.encode(Int16(2))
        try list.encode(Int32(3))
        try list.encode(Int64(4))
        try list.encode(UInt(5))
        try list.encode(UInt8(6))
        try list.encode(UInt16(7))
        try list.encode(UInt32(8))
        try list.encode(UInt64(9))
        try list.encodeNil()
        for value in [1 as Int8, 2] { try list.encode(Zoo.Wrapper(value: value)) }
        try list.encode(Zoo.Integers.least)
        try list.encode(Zoo.Optionals.full.int8)
      }, "unkeyed")
    for value: any Encodable in [Int8(1), Int16(2), UInt(3), UInt32(4), Float(0.5), true, "x", UInt64.max] {
      try expectAsJSON(
        Writer { encoder in
          var container = encoder.singleValueContainer()
          try container.encode(value)
        }, "single \(value)")
    }
  }

  @Test func `a value can encode and decode other values with the same coder while it is being coded`() throws {
    struct Outer: Codable, Equatable {
      static let coder = ValueCoder(.binary)
      var before: Int
      var inner: Zoo.Library
      enum CodingKeys: CodingKey { case before, shape, bytes, after }

      init(inner: Zoo.Library) {
        before = 3
        self.inner = inner
      }

      init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let shape = try container.decode(UInt32.self, forKey: .shape)
        inner = try Outer.coder.decode(Zoo.Library.self, (shape, container.decode([UInt8].self, forKey: .bytes)))
        before = try container.decode(Int.self, forKey: .before)
        #expect(try container.decode(String.self, forKey: .after) == "after")
      }

      func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(before, forKey: .before)
        let row = try Outer.coder.encode(inner)
        try container.encode(row.shape, forKey: .shape)
        try container.encode(row.bytes, forKey: .bytes)
        try container.encode("after", forKey: .after)
      }
    }
    let values = [Outer(inner: Zoo.Library.sample), Outer(inner: Zoo.Library.sample)]
    for _ in 0..<3 { #expect(try Outer.coder.copy(values) == values) }
  }
}

extension UntypedValue {
  /// A copy with the fields of records sorted by name, and floating-point numbers as JSON represents them.
  var sorted: UntypedValue {
    switch self {
    case .array(let values): .array(values.map(\.sorted))
    case .record(let fields):
      .record(fields.map { Member($0.name, $0.value.sorted) }.sorted { $0.name < $1.name })
    case .float(let value): .double(Double(value))
    case .double(let value): Int128(exactly: value).map { .integer($0) } ?? self
    default: self
    }
  }
}
