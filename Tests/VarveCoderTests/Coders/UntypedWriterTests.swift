import EngineTestSupport
import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of values that are written without their types, and read without types and with them.
struct UntypedWriterTests {
  @Test(arguments: 0..<8)
  func `every untyped value that is written is read back`(round: Int) throws {
    let seed = UInt64.random(in: 0 ... .max)
    var random = SeededRandom(seed: seed)
    let coder = BinaryCoder(shapes: MemoryShapes())
    for _ in 0..<200 {
      let value = Self.value(depth: 0, &random)
      let bytes = try UntypedWriter.bytes(of: value)
      let found = try unsafe coder.untyped(from: bytes.span.bytes, shape: 0)
      #expect(found == Self.sorted(value), "seed \(seed)")
    }
  }

  @Test func `written fields are read as a record, and nil fields are absent`() throws {
    struct Point: Codable, Equatable {
      var x: Int
      var y: Double?
      var name: String?
      var tags: [String: [Int]]
    }
    let shapes = try MemoryShapes([["name", "x", "more", "y", "tags"]])
    let coder = BinaryCoder(shapes: shapes)
    let tags = UntypedValue.record([.init("b", .array([.integer(1), .integer(-1)])), .init("a", .array([]))])
    let bytes = try UntypedWriter.bytes(ofFields: [nil, .integer(7), .null, .integer(3), tags])
    let point = try coder.decode(Point.self, from: unsafe bytes.span.bytes, shape: 1)
    #expect(point == Point(x: 7, y: 3, name: nil, tags: ["a": [], "b": [1, -1]]))
  }

  @Test func `an untyped value has the bytes of the equal typed value`() throws {
    let values: [(UntypedValue, any Codable)] = [
      (.integer(63), 63), (.integer(64), 64), (.integer(-17), -17), (.integer(Int128(Int64.min)), Int.min),
      (.double(0.5), 0.5), (.double(0.1), 0.1), (.string("é"), "é"), (.bool(true), true),
      (.string(String(repeating: "x", count: 64)), String(repeating: "x", count: 64)),
      (.date(1.5), Date(timeIntervalSinceReferenceDate: 1.5)), (.bytes([1, 2]), Data([1, 2])),
      (.array((0..<20).map { .integer($0) }), Array(0..<20)), (.decimal("1.25"), Decimal(string: "1.25") ?? 0),
      (.record([.init("b", .integer(2)), .init("a", .integer(1))]), ["a": 1, "b": 2]),
      (.url("https://example.com"), try #require(URL(string: "https://example.com"))),
    ]
    for (untyped, typed) in values {
      #expect(try UntypedWriter.bytes(of: untyped) == ValueCoder().encode(typed).bytes, "\(untyped)")
    }
  }

  @Test func `an untyped value that is nested too deep, malformed, or has a field twice is refused`() {
    var deep = UntypedValue.integer(1)
    for _ in 0..<CoderLimits.depth { deep = .array([deep]) }
    for wrong in [deep, .uuid("1"), .decimal("x"), .record([.init("a", .null), .init("a", .null)])] {
      #expect(errorCode { _ = try UntypedWriter.bytes(of: wrong) } == .encodingFailed)
    }
  }

  private static func value(depth: Int, _ random: inout SeededRandom) -> UntypedValue {
    switch Int.random(in: 0..<(depth < 4 ? 15 : 13), using: &random) {
    case 0: .null
    case 1: .bool(Bool.random(using: &random))
    case 2: .integer(Int128(Int64.random(in: -5_000...5_000, using: &random)))
    case 3: .integer(Int128.random(in: .min ... .max, using: &random))
    case 4: .unsigned(UInt128.random(in: (1 << 127) ... .max, using: &random))
    case 5: .float(Float.random(in: -1...1, using: &random))
    case 6: .double(Double.random(in: -1e9...1e9, using: &random))
    case 7: .string(String(repeating: "é", count: Int.random(in: 0..<80, using: &random)))
    case 8: .bytes((0..<Int.random(in: 0..<300, using: &random)).map { UInt8(truncatingIfNeeded: $0) })
    case 9: .uuid(UUID().uuidString)
    case 10: .date(Double.random(in: -1e9...1e9, using: &random))
    case 11: .url("https://example.com/\(Int.random(in: 0..<100, using: &random))")
    case 12: .decimal("\(Int.random(in: -10_000...10_000, using: &random)).5")
    case 13:
      .array((0..<Int.random(in: 0..<20, using: &random)).map { _ in value(depth: depth + 1, &random) })
    default:
      .record(
        (0..<Int.random(in: 0..<6, using: &random)).map { number in
          UntypedValue.Member("f\((number * 7) % 11)", value(depth: depth + 1, &random))
        })
    }
  }

  /// Returns a copy with the fields in the order of their names.
  private static func sorted(_ value: UntypedValue) -> UntypedValue {
    switch value {
    case .array(let values): .array(values.map(sorted))
    case .record(let fields):
      .record(
        fields.map { UntypedValue.Member($0.name, sorted($0.value)) }
          .sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) })
    default: value
    }
  }
}
