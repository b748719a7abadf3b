import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests that errors name the coding path and leave no state.
struct BinaryErrorTests {
  private let coder = ValueCoder(.binary)

  /// A type that throws for odd numbers.
  private struct Even: Codable, Equatable {
    struct Odd: Error {}
    var number: Int
    var text = "some text before the error"

    private enum CodingKeys: CodingKey { case text, number }

    init(_ number: Int) { self.number = number }

    init(from decoder: any Decoder) throws {
      let container = try decoder.container(keyedBy: CodingKeys.self)
      text = try container.decode(String.self, forKey: .text)
      number = try container.decode(Int.self, forKey: .number)
      if number % 2 == 1 { throw Odd() }
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(text, forKey: .text)
      if number % 2 == 1 { throw Odd() }
      try container.encode(number, forKey: .number)
    }
  }

  private struct Shelves: Codable {
    var shelves = ["low": [[], [Zoo.Point(x: 1, y: 2), Zoo.Point(x: 3, y: 300)]]]
  }

  @Test func `an error carries the path to the field`() throws {
    struct Small: Codable { var x: Int, y: UInt8 }
    struct New: Codable { var shelves: [String: [[Small]]] }
    struct Words: Codable { var shelves: [String: [[Zoo.Wrapper<Int>]]] }
    #expect(
      coderFault { _ = try coder.convert(Shelves(), to: New.self) }
        == CoderFault(.decodingFailed, .dataCorrupted, "shelves.low[1][1].y"))
    #expect(
      coderFault { _ = try coder.convert(Shelves(), to: Words.self) }
        == CoderFault(.decodingFailed, .keyNotFound, "shelves.low[1][0].value"))
    let error = #expect(throws: DatabaseError.self) { try coder.convert(Shelves(), to: New.self) }
    #expect(error?.message.contains("shelves.low[1][1].y: an integer that does not fit UInt8") == true)
  }

  @Test func `containers and coders have the coding path while encoding and decoding`() throws {
    let row = try coder.encode(Spy(inner: .init(list: [.init(), .init()])))
    let first = "inner.list[0]"
    let second = "inner.list[1]"
    #expect(
      Spy.paths.take() == [
        first, first + ".n", first + ".n[0].super", second, second + ".n", second + ".n[0].super",
      ])
    _ = try coder.decode(Spy.self, row)
    #expect(Spy.paths.take() == [first, first, second, second])
  }

  /// A type that records the paths passed to it.
  private struct Spy: Codable {
    static let paths = Paths()
    var inner: Inner

    struct Inner: Codable { var list: [Leaf] }

    struct Leaf: Codable {
      init() {}

      init(from decoder: any Decoder) throws {
        paths.add(decoder.codingPath)
        paths.add(try decoder.container(keyedBy: PathKey.self).codingPath)
      }

      func encode(to encoder: any Encoder) throws {
        paths.add(encoder.codingPath)
        var container = encoder.container(keyedBy: PathKey.self)
        var nested = container.nestedUnkeyedContainer(forKey: PathKey(stringValue: "n"))
        paths.add(nested.codingPath)
        var deeper = nested.nestedContainer(keyedBy: PathKey.self)
        try deeper.encode(1, forKey: PathKey(stringValue: "d"))
        paths.add(deeper.superEncoder().codingPath)
      }
    }
  }

  /// The coding paths as text.
  private final class Paths: @unchecked Sendable {
    // Sendable: used by one test, on one thread.
    private var texts: [String] = []
    func add(_ path: [any CodingKey]) { texts.append(PathKey.text(of: path)) }
    func take() -> [String] {
      defer { texts = [] }
      return texts
    }
  }

  @Test func `a type that throws in the middle leaves the encoder as it was`() throws {
    let good = [Even(2), Even(4)]
    let row = try coder.encode(good)
    for bad in [[Even(1)], [Even(2), Even(3), Even(4)]] {
      #expect(throws: DatabaseError.self) { try coder.encode(bad) }
      #expect(throws: DatabaseError.self) { try coder.encode(["x": bad]) }
      #expect(throws: DatabaseError.self) { try coder.encode(["x": ["y": [bad]]]) }
      #expect(try coder.encode(good) == row)
      #expect(try coder.copy(Zoo.Library.sample) == Zoo.Library.sample)
    }
    let error = #expect(throws: DatabaseError.self) { try coder.encode(Even(1)) }
    #expect(error?.cause is Even.Odd)
  }

  @Test func `a type that throws in the middle leaves the decoder as it was`() throws {
    struct Plain: Codable { var text = "t", number: Int }
    let bad = try coder.encode([Plain(number: 2), Plain(number: 3)])
    let good = try coder.encode([Plain(number: 2), Plain(number: 4)])
    for _ in 0..<3 {
      let error = #expect(throws: DatabaseError.self) { try coder.decode([Even].self, bad) }
      #expect(error?.cause is Even.Odd)
      #expect(try coder.decode([Even].self, good).map(\.number) == [2, 4])
    }
  }

  /// A type that skips values that cannot be encoded, and writes another value instead.
  private struct Tolerant: Encodable {
    var values: [Int]
    enum Key: CodingKey { case first, list, map, last }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: Key.self)
      do {
        try container.encode(Even(values[0]), forKey: .first)
      } catch {
        try container.encode("fallback", forKey: .first)
      }
      var list = container.nestedUnkeyedContainer(forKey: .list)
      for value in values {
        do { try list.encode(Even(value)) } catch {}
      }
      var map = container.nestedContainer(keyedBy: PathKey.self, forKey: .map)
      for value in values {
        do { try map.encode(Even(value), forKey: PathKey(stringValue: "\(value)")) } catch {}
      }
      do { try container.encode(Even(values[0]), forKey: .last) } catch {}
    }
  }

  @Test func `a type can continue encoding after a field failed`() throws {
    let two = #"{"text":"some text before the error","number":2}"#
    for _ in 0..<2 {
      #expect(
        try coder.json(Tolerant(values: [1, 2, 3])) == #"{"first":"fallback","list":[\#(two)],"map":{"2":\#(two)}}"#)
      #expect(
        try coder.json(Tolerant(values: [2, 1]))
          == #"{"first":\#(two),"list":[\#(two)],"map":{"2":\#(two)},"last":\#(two)}"#)
      #expect(try coder.json(Tolerant(values: [1])) == #"{"first":"fallback","list":[],"map":{}}"#)
    }
  }

  @Test func `a key that is encoded twice is an error`() throws {
    struct Twice: Encodable {
      var between: Bool
      enum Key: CodingKey { case a, b }
      func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(1, forKey: .a)
        if between { try container.encode(2, forKey: .b) }
        // The error reaches the caller even if the type ignores it.
        try? container.encode(3, forKey: .a)
      }
    }
    struct TwiceInMap: Encodable {
      func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: PathKey.self)
        for _ in 0..<2 { try container.encode(1, forKey: PathKey(stringValue: "k")) }
      }
    }
    for _ in 0..<2 {
      for between in [false, true] {
        let fault = coderFault { _ = try coder.encode([Twice(between: between)]) }
        #expect(fault == CoderFault(.encodingFailed, .invalidValue, "[0].a"))
      }
      #expect(coderFault { _ = try coder.encode(TwiceInMap()) } == CoderFault(.encodingFailed, .invalidValue, "k"))
    }
  }

  @Test func `containers of two kinds at one coding path are an error`() throws {
    struct Confused: Encodable {
      var kind: Int
      func encode(to encoder: any Encoder) throws {
        switch kind {
        case 0:
          var list = encoder.unkeyedContainer()
          try list.encode(1)
          var fields = encoder.container(keyedBy: PathKey.self)
          try? fields.encode(1, forKey: PathKey(stringValue: "a"))
        case 1:
          var single = encoder.singleValueContainer()
          try single.encode(1)
          try? single.encode(2)
          _ = encoder.unkeyedContainer()
        default:
          var fields = encoder.container(keyedBy: PathKey.self)
          try fields.encode(1, forKey: PathKey(stringValue: "a"))
          var list = encoder.unkeyedContainer()
          try? list.encode(2)
        }
      }
    }
    for kind in 0..<3 {
      let fault = coderFault { _ = try coder.encode([Confused(kind: kind)]) }
      #expect(fault == CoderFault(.encodingFailed, .invalidValue, "[0]"))
      #expect(coderFault { _ = try coder.encode(Confused(kind: kind)) }?.kind == .invalidValue)
    }
  }

  /// A type that decodes arrays and dictionaries only.
  private struct Nest: Decodable {
    init(from decoder: any Decoder) throws {
      if var list = try? decoder.unkeyedContainer() {
        while !list.isAtEnd { _ = try list.decode(Nest.self) }
      } else {
        let map = try decoder.container(keyedBy: PathKey.self)
        for key in map.allKeys { _ = try map.decode(Nest.self, forKey: key) }
      }
    }
  }

  @Test func `values may be nested as deep as the limit, and no deeper`() throws {
    // A tree takes two levels for each node, and so does an expression: the case, and its payload.
    let limit = CoderLimits.depth
    let deepest = Zoo.Tree.chain(limit / 2)
    #expect(try coder.copy(deepest) == deepest)
    #expect(coderFault { _ = try coder.encode(Zoo.Tree.chain(limit)) }?.kind == .invalidValue)
    let expression = Zoo.Expression.nested(limit / 2 - 1)
    #expect(try coder.copy(expression) == expression)
    #expect(coderFault { _ = try coder.encode(Zoo.Expression.nested(limit)) }?.kind == .invalidValue)
    // Bytes that are nested deeper, which no encoder writes.
    for opening in [hex("a1"), hex("d0 01"), hex("d301 40")] {
      let bytes = Array(repeating: opening, count: 2_000).flatMap(\.self) + [0]
      #expect(coderFault { _ = try coder.decode(Zoo.Payload.self, (0, bytes)) }?.kind == .dataCorrupted)
      #expect(coderFault { _ = try coder.decode(Nest.self, (0, bytes)) }?.kind == .dataCorrupted)
      #expect(throws: DatabaseError.self) { try coder.untyped((0, bytes)) }
    }
  }
}
