import Foundation

/// The types that rows are decoded as. Their fields have the names of `FuzzField`, so that random shapes fit.
enum ValueTypes {
  static let all: [any (Codable & Sendable).Type] = [
    Loose.self, [Loose].self, Strict.self, Choice.self, [String: Loose].self, [Int: String].self, [[Int]].self,
    UUID.self, URL.self, Decimal.self, Date.self, Data.self, [UInt8].self, String.self, Float.self, Int8.self,
    UInt128.self, Bool?.self,
  ]

  /// A type that accepts nearly all fields, in any order.
  struct Loose: Codable, Sendable {
    var a: Int?
    var b: String?
    var c: [Loose]?
    var d: Double?
    var name: [String: Int]?
    var x1: Data?
    var x2: Date?
  }

  struct Strict: Codable, Sendable {
    var b: String
    var a: Int
    var d: Inner

    struct Inner: Codable, Sendable {
      var x1: UUID
      var x2: URL?
      var name: Bool
    }
  }

  indirect enum Choice: Codable, Sendable {
    case a(Int)
    case b(name: String, c: [Choice])
    case d
  }
}

/// The names of fields that records have.
enum FuzzField: String, CodingKey, CaseIterable { case a, b, c, d, name, x1, x2 }

/// A key of a map.
struct FuzzName: CodingKey {
  let stringValue: String
  var intValue: Int? { nil }
  init(stringValue: String) { self.stringValue = stringValue }
  init?(intValue: Int) { nil }
}

/// A random value with the kinds, names and forms that rows have.
indirect enum FuzzNode: Sendable {
  case null
  case bool(Bool)
  case integer(Int)
  case double(Double)
  case string(String)
  case data(Data)
  case uuid(UUID)
  case date(Date)
  case list([FuzzNode])
  case record([(FuzzField, FuzzNode)])
  case map([(String, FuzzNode)])

  static func random(_ random: inout SeededRandom, depth: Int = 4) -> FuzzNode {
    switch random.below(depth > 0 ? 13 : 8) {
    case 0: .null
    case 1: .bool(random.oneIn(2))
    case 2: .integer(Int(truncatingIfNeeded: random.next()) >> random.below(64))
    case 3: .double(random.oneIn(2) ? Double(random.below(100)) / 8 : Double(random.next() >> 11))
    case 4: .string(text(&random))
    case 5: .data(Data(FuzzCorpus.bytes(random.below(40), &random)))
    case 6: .uuid(randomUUID(&random))
    case 7: .date(Date(timeIntervalSinceReferenceDate: Double(random.below(1 << 30))))
    case 8: .map((0..<random.below(4)).map { ("\($0)" + text(&random), self.random(&random, depth: depth - 1)) })
    case 9: .list((0..<random.below(5)).map { _ in self.random(&random, depth: depth - 1) })
    case 10:
      // A list of records with one shape.
      .list((0..<random.below(8)).map { .record([(.a, .integer($0)), (.b, .string(text(&random)))]) })
    default:
      .record(
        FuzzField.allCases.filter { _ in random.oneIn(2) }.map { ($0, self.random(&random, depth: depth - 1)) })
    }
  }

  private static func text(_ random: inout SeededRandom) -> String {
    let letters = ["a", "é", "👋", "\0", "\"", "\n", "z"]
    return (0..<random.below(random.oneIn(5) ? 90 : 7)).map { _ in letters[random.below(7)] }.joined()
  }

  static func randomUUID(_ random: inout SeededRandom) -> UUID {
    let (a, b) = (random.next(), random.next())
    func byte(_ word: UInt64, _ index: UInt64) -> UInt8 { UInt8(truncatingIfNeeded: word >> (8 * index)) }
    return UUID(
      uuid: (
        byte(a, 0), byte(a, 1), byte(a, 2), byte(a, 3), byte(a, 4), byte(a, 5), byte(a, 6), byte(a, 7), byte(b, 0),
        byte(b, 1), byte(b, 2), byte(b, 3), byte(b, 4), byte(b, 5), byte(b, 6), byte(b, 7)
      ))
  }

}

extension FuzzNode: Encodable {
  func encode(to encoder: any Encoder) throws {
    switch self {
    case .list(let nodes):
      var container = encoder.unkeyedContainer()
      for node in nodes { try container.encode(node) }
    case .record(let fields):
      var container = encoder.container(keyedBy: FuzzField.self)
      for (field, node) in fields { try container.encode(node, forKey: field) }
    case .map(let entries):
      var container = encoder.container(keyedBy: FuzzName.self)
      for (name, node) in entries { try container.encode(node, forKey: FuzzName(stringValue: name)) }
    default:
      var container = encoder.singleValueContainer()
      try encodeLeaf(to: &container)
    }
  }

  private func encodeLeaf(to container: inout any SingleValueEncodingContainer) throws {
    switch self {
    case .bool(let value): try container.encode(value)
    case .integer(let value): try container.encode(value)
    case .double(let value): try container.encode(value)
    case .string(let value): try container.encode(value)
    case .data(let value): try container.encode(value)
    case .uuid(let value): try container.encode(value)
    case .date(let value): try container.encode(value)
    default: try container.encodeNil()
    }
  }
}
