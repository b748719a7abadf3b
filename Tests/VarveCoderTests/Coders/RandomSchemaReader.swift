import EngineTestSupport
import Foundation

@testable import Varve

/// Checks that decode a random value by the type that encoded it: by the same keys, with the fields in a random
/// order, and some of them not read at all.
enum RandomReading {
  struct Difference: Error, CustomStringConvertible {
    let description: String
  }

  /// Checks that a decoder returns the expected value.
  static func check(_ expected: RandomNode, _ decoder: any Decoder, _ random: RandomSource) throws {
    switch expected {
    case .list(let elements):
      var list = try decoder.unkeyedContainer()
      try expect(list.count == elements.count, decoder, "\(elements.count) elements, not \(list.count ?? -1)")
      for element in elements {
        if random.oneIn(20) { return }
        try check(element.node, &list, random)
      }
      try expect(list.isAtEnd, decoder, "more elements")
    case .record(let fields, _):
      let container = try decoder.container(keyedBy: RandomKey.self)
      try expect(!container.contains(.unused(in: fields)), decoder, "a field that was not written")
      for field in random.oneIn(2) ? fields : fields.shuffled(using: random) where !random.oneIn(10) {
        try check(field.node, container, field.key, random, decoder)
      }
    case .map(let entries):
      let container = try decoder.container(keyedBy: PathKey.self)
      let names = container.allKeys.map(\.stringValue).sorted()
      try expect(names == entries.map(\.key).sorted(), decoder, "the keys \(names)")
      for entry in random.oneIn(2) ? entries : entries.shuffled(using: random) where !random.oneIn(10) {
        try check(entry.node, container, PathKey(stringValue: entry.key), random, decoder)
      }
    case .wrapped(let node): try check(node, decoder, random)
    default: try checkLeaf(expected, decoder)
    }
  }

  private static func checkLeaf(_ expected: RandomNode, _ decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    switch expected {
    case .bool(let value): try expect(try container.decode(Bool.self) == value, decoder, "not \(value)")
    case .int(let value): try expect(try container.decode(Int.self) == value, decoder, "not \(value)")
    case .double(let value): try expect(try container.decode(Double.self) == value, decoder, "not \(value)")
    case .string(let value): try expect(try container.decode(String.self) == value, decoder, "not \(value)")
    default: try expect(container.decodeNil(), decoder, "not null")
    }
  }

  private static func check<Key: CodingKey>(
    _ expected: RandomNode?, _ container: KeyedDecodingContainer<Key>, _ key: Key, _ random: RandomSource,
    _ decoder: any Decoder
  ) throws {
    switch expected {
    case nil:
      try expect(!container.contains(key), decoder, "\(key) is there")
      try expect(try container.decodeIfPresent(Int.self, forKey: key) == nil, decoder, "\(key) has a value")
    case .null?: try expect(try container.decodeNil(forKey: key), decoder, "\(key) is not null")
    case .int(let value)? where random.oneIn(2):
      try expect(try container.decodeIfPresent(Int.self, forKey: key) == value, decoder, "\(key) is not \(value)")
    case .string(let value)?: try expect(try container.decode(String.self, forKey: key) == value, decoder, "\(key)")
    case .list? where random.oneIn(3): _ = try container.nestedUnkeyedContainer(forKey: key)
    case let node?:
      if random.oneIn(2) {
        try check(node, try container.superDecoder(forKey: key), random)
      } else {
        _ = try RandomReader.$expectation.withValue(.init(node: node, random: random)) {
          try container.decode(RandomReader.self, forKey: key)
        }
      }
    }
  }

  private static func check(
    _ expected: RandomNode, _ list: inout any UnkeyedDecodingContainer, _ random: RandomSource
  ) throws {
    if case .null = expected, random.oneIn(2) {
      guard try list.decodeNil() else { throw Difference(description: "\(list.codingPath) is not null") }
    } else if random.oneIn(2) {
      try check(expected, try list.superDecoder(), random)
    } else {
      _ = try RandomReader.$expectation.withValue(.init(node: expected, random: random)) {
        try list.decode(RandomReader.self)
      }
    }
  }

  private static func expect(_ condition: Bool, _ decoder: any Decoder, _ message: String) throws {
    guard condition else { throw Difference(description: "\(PathKey.text(of: decoder.codingPath)): \(message)") }
  }
}

extension RandomKey {
  /// Returns a key that a record does not have, or `key` if it has all of them.
  fileprivate static func unused(in fields: [(key: RandomKey, route: RandomNode.EncodingRoute, node: RandomNode?)])
    -> RandomKey
  {
    let known = Set(fields.filter { $0.node != nil }.map(\.key))
    return allCases.first { !known.contains($0) } ?? .key
  }
}

/// A type that reads the expected value.
struct RandomReader: Decodable {
  struct Expectation: Sendable {
    let node: RandomNode
    let random: RandomSource
  }

  @TaskLocal static var expectation: Expectation?

  init(from decoder: any Decoder) throws {
    guard let expectation = RandomReader.expectation else { return }
    try RandomReading.check(expectation.node, decoder, expectation.random)
  }
}

/// A random number generator for a test on one thread.
final class RandomSource: RandomNumberGenerator, @unchecked Sendable {
  // Sendable: used by one thread.
  private var random: SeededRandom
  init(seed: UInt64) { random = SeededRandom(seed: seed) }
  func next() -> UInt64 { random.next() }
  func oneIn(_ count: Int) -> Bool { random.oneIn(count) }
}

extension Array {
  fileprivate func shuffled(using source: RandomSource) -> [Element] {
    var source = source
    return shuffled(using: &source)
  }
}
