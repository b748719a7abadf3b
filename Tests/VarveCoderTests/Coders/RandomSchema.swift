import EngineTestSupport
import Foundation

@testable import Varve

/// A random value, and the API of `Codable` through which each part of it is encoded.
indirect enum RandomNode: Sendable {
  enum EncodingRoute: CaseIterable { case value, nested, superEncoder }

  case null
  case bool(Bool)
  case int(Int)
  case double(Double)
  case string(String)
  case list([(route: EncodingRoute, node: RandomNode)])
  /// A record of fields with keys of an enum; a `nil` node stands for `encodeIfPresent` without a value.
  ///
  /// If `isLate` is true, the containers are filled after all of them were made, from the last to the first.
  case record([(key: RandomKey, route: EncodingRoute, node: RandomNode?)], isLate: Bool)
  case map([(key: String, route: EncodingRoute, node: RandomNode)])
  /// A value whose encoding is that of another value.
  case wrapped(RandomNode)
}

enum RandomKey: String, CodingKey, CaseIterable, Sendable {
  case a, b, c, d, name, aLongNameOfAField, x1, x2
  // Dictionaries use this key too, so that a field may have the name of a dictionary's key.
  case key
}

extension RandomNode {
  static func random(_ random: inout SeededRandom, depth: Int = 4) -> RandomNode {
    switch depth > 0 ? random.below(10) : random.below(5) {
    case 0: .null
    case 1: .bool(random.oneIn(2))
    case 2: .int(randomInt(&random))
    case 3: .double(random.oneIn(2) ? Double(random.below(100)) / 8 : Double.random(in: -1e9...1e9, using: &random))
    case 4: .string(text(&random))
    case 5: .wrapped(self.random(&random, depth: depth - 1))
    case 6: .map(map(&random, depth))
    case 7: .list(uniform(&random, depth))
    case 8: .list((0..<random.below(5)).map { _ in (route(&random), self.random(&random, depth: depth - 1)) })
    default: record(&random, depth)
    }
  }

  private static func route(_ random: inout SeededRandom) -> EncodingRoute {
    EncodingRoute.allCases[random.below(EncodingRoute.allCases.count)]
  }

  private static func randomInt(_ random: inout SeededRandom) -> Int {
    let magnitude = Int(truncatingIfNeeded: random.next() >> UInt64(1 + random.below(62)))
    return random.oneIn(2) ? magnitude : -magnitude
  }

  private static func text(_ random: inout SeededRandom) -> String {
    let letters = ["a", "é", "👋", "\0", "\"", "\n", "z"]
    return (0..<(random.oneIn(5) ? random.below(100) : random.below(8))).map { _ in letters[random.below(7)] }.joined()
  }

  private static func map(_ random: inout SeededRandom, _ depth: Int) -> [(
    key: String, route: EncodingRoute, node: RandomNode
  )] {
    let keys = Set((0..<random.below(6)).map { _ in random.oneIn(3) ? "key" : text(&random) })
    return keys.sorted().map { ($0, route(&random), self.random(&random, depth: depth - 1)) }
  }

  /// Returns many records of the same fields.
  private static func uniform(_ random: inout SeededRandom, _ depth: Int) -> [(route: EncodingRoute, node: RandomNode)]
  {
    let pattern = record(&random, depth)
    return (0..<random.below(20)).map { _ in
      (.value, random.oneIn(15) ? self.random(&random, depth: 1) : pattern.varied(&random))
    }
  }

  private static func record(_ random: inout SeededRandom, _ depth: Int) -> RandomNode {
    var keys = RandomKey.allCases.filter { _ in random.oneIn(2) }
    if random.oneIn(4) { keys.shuffle(using: &random) }
    let fields = keys.map { key -> (key: RandomKey, route: EncodingRoute, node: RandomNode?) in
      (key, route(&random), random.oneIn(6) ? nil : self.random(&random, depth: depth - 1))
    }
    return .record(fields, isLate: random.oneIn(6))
  }

  /// Returns a record with the same fields and other leaves, some of them without a value, some omitted.
  private func varied(_ random: inout SeededRandom) -> RandomNode {
    guard case .record(let fields, let isLate) = self else { return self }
    let varied = fields.filter { _ in !random.oneIn(12) }.map {
      field -> (key: RandomKey, route: EncodingRoute, node: RandomNode?) in
      if random.oneIn(10) { return (field.key, field.route, nil) }
      if case .int? = field.node { return (field.key, field.route, .int(RandomNode.randomInt(&random))) }
      if case .string? = field.node { return (field.key, field.route, .string(RandomNode.text(&random))) }
      return field
    }
    return .record(varied, isLate: isLate)
  }
}

// MARK: - Encoding

extension RandomNode: Encodable {
  func encode(to encoder: any Encoder) throws {
    switch self {
    case .null, .bool, .int, .double, .string, .wrapped:
      var container = encoder.singleValueContainer()
      switch self {
      case .bool(let value): try container.encode(value)
      case .int(let value): try container.encode(value)
      case .double(let value): try container.encode(value)
      case .string(let value): try container.encode(value)
      case .wrapped(let node): try container.encode(node)
      default: try container.encodeNil()
      }
    case .list(let elements):
      var container = encoder.unkeyedContainer()
      for element in elements { try RandomNode.add(element.node, element.route, to: &container) }
    case .record(let fields, let isLate): try RandomNode.encode(fields, isLate, to: encoder)
    case .map(let entries):
      var container = encoder.container(keyedBy: PathKey.self)
      for entry in entries {
        try RandomNode.add(entry.node, entry.route, PathKey(stringValue: entry.key), to: &container)?()
      }
    }
  }

  private static func encode(
    _ fields: [(key: RandomKey, route: EncodingRoute, node: RandomNode?)], _ isLate: Bool, to encoder: any Encoder
  ) throws {
    var container = encoder.container(keyedBy: RandomKey.self)
    var late: [() throws -> Void] = []
    for field in fields {
      guard let node = field.node else {
        try container.encodeIfPresent(Int?.none, forKey: field.key)
        continue
      }
      guard let rest = try add(node, field.route, field.key, to: &container) else { continue }
      if isLate { late.append(rest) } else { try rest() }
    }
    for rest in late.reversed() { try rest() }
  }

  /// Encodes a field, or returns the function that fills the container that was made for it.
  private static func add<Key: CodingKey>(
    _ node: RandomNode, _ route: EncodingRoute, _ key: Key, to container: inout KeyedEncodingContainer<Key>
  ) throws -> (() throws -> Void)? {
    switch (route, node) {
    case (.superEncoder, _):
      let encoder = container.superEncoder(forKey: key)
      return { try node.encode(to: encoder) }
    case (.nested, .list(let elements)):
      var list = container.nestedUnkeyedContainer(forKey: key)
      return { for element in elements { try add(element.node, element.route, to: &list) } }
    case (.nested, .map(let entries)):
      var map = container.nestedContainer(keyedBy: PathKey.self, forKey: key)
      return { for entry in entries { try add(entry.node, entry.route, PathKey(stringValue: entry.key), to: &map)?() } }
    case (.nested, .int(let value)): try container.encode(value, forKey: key)
    case (.nested, .bool(let value)): try container.encode(value, forKey: key)
    case (.nested, .double(let value)): try container.encode(value, forKey: key)
    case (.nested, .string(let value)): try container.encode(value, forKey: key)
    case (.nested, .null): try container.encodeNil(forKey: key)
    default: try container.encode(node, forKey: key)
    }
    return nil
  }

  private static func add(_ node: RandomNode, _ route: EncodingRoute, to list: inout any UnkeyedEncodingContainer)
    throws
  {
    switch (route, node) {
    case (.superEncoder, _): try node.encode(to: list.superEncoder())
    case (.nested, .list(let elements)):
      var inner = list.nestedUnkeyedContainer()
      for element in elements { try add(element.node, element.route, to: &inner) }
    case (.nested, .map(let entries)):
      var inner = list.nestedContainer(keyedBy: PathKey.self)
      for entry in entries { try add(entry.node, entry.route, PathKey(stringValue: entry.key), to: &inner)?() }
    case (.nested, .int(let value)): try list.encode(value)
    case (.nested, .string(let value)): try list.encode(value)
    case (.nested, .null): try list.encodeNil()
    default: try list.encode(node)
    }
  }
}
