import Foundation

@testable import Varve

/// Types of every kind that `Codable` supports.
enum Zoo {
  struct Book: Codable, Hashable {
    var id: UUID
    var title: String
    var author: String
    var summary: String
    var year: Int
    var price: Double
    var added: Date
    var isRead: Bool

    static func sample(_ number: Int) -> Book {
      Book(
        id: UUID(uuid: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, UInt8(truncatingIfNeeded: number))),
        title: "Book \(number)", author: "Author \(number % 7)",
        summary: String(repeating: "something that continues ", count: number % 9), year: 1900 + number,
        price: Double(number) * 1.01, added: Date(timeIntervalSinceReferenceDate: Double(number) * 1e5 + 0.125),
        isRead: number % 2 == 0)
    }
  }

  struct Integers: Codable, Hashable {
    var int: Int
    var int8: Int8
    var int16: Int16
    var int32: Int32
    var int64: Int64
    var uint: UInt
    var uint8: UInt8
    var uint16: UInt16
    var uint32: UInt32
    var uint64: UInt64

    static let least = Integers(
      int: .min, int8: .min, int16: .min, int32: .min, int64: .min, uint: 0, uint8: 0, uint16: 0, uint32: 0, uint64: 0)
    static let largest = Integers(
      int: .max, int8: .max, int16: .max, int32: .max, int64: .max, uint: .max, uint8: .max, uint16: .max,
      uint32: .max, uint64: .max)
  }

  struct Wide: Codable, Hashable {
    var signed: Int128
    var unsigned: UInt128
    var list: [Int128]
    var maybe: UInt128?
  }

  struct Scalars: Codable, Hashable {
    var bool: Bool
    var float: Float
    var double: Double
    var string: String
    var data: Data
    var bytes: [UInt8]
    var date: Date
    var uuid: UUID
    var url: URL
    var decimal: Decimal

    static let sample = Scalars(
      bool: true, float: 0.1, double: 0.1, string: "Grüße 👋🏽", data: Data([0, 255, 1]), bytes: [9, 8, 7],
      date: Date(timeIntervalSinceReferenceDate: -1.5),
      uuid: UUID(uuid: (9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9)),
      url: URL(filePath: "/a b/c"), decimal: Decimal(sign: .minus, exponent: -20, significand: 123_456_789))
  }

  struct Optionals: Codable, Hashable {
    var int: Int?
    var string: String?
    var double: Double?
    var bool: Bool?
    var float: Float?
    var int8: Int8?
    var uint64: UInt64?
    var date: Date?
    var uuid: UUID?
    var nested: Point?
    var list: [Int?]?
    var twice: Int??

    static let full = Optionals(
      int: 1, string: "s", double: 1.5, bool: false, float: 2.5, int8: -3, uint64: .max,
      date: Date(timeIntervalSinceReferenceDate: 7), uuid: UUID(uuid: (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)),
      nested: Point(x: 1, y: 2), list: [1, nil, 3], twice: .some(4))
  }

  struct Point: Codable, Hashable, Sendable {
    var x: Int
    var y: Int
  }

  struct Empty: Codable, Hashable {}

  struct Library: Codable, Hashable {
    var name: String
    var books: [Book]
    var points: [[Point]]
    var empties: [Empty]
    var byName: [String: Point]
    var byNumber: [Int: String]
    var byPoint: [Point: String]
    var tags: Set<String>

    static let sample = Library(
      name: "L", books: (0..<5).map(Book.sample),
      points: [[], [Point(x: 1, y: 2)], [Point(x: 3, y: 4), Point(x: 5, y: 6)]],
      empties: [Empty(), Empty()],
      byName: ["b": Point(x: 0, y: -1), "a": Point(x: 7, y: 70_000), "": Point(x: 1, y: 1)],
      byNumber: [3: "three", -1: "minus", 200: "two hundred"], byPoint: [Point(x: 1, y: 1): "one"], tags: ["t"])
  }

  enum Color: String, Codable, Hashable, CaseIterable, Sendable { case red, green, blue }
  enum Level: Int, Codable, Hashable, Sendable { case low = 1, high = 1_000 }

  enum Event: Codable, Hashable, Sendable {
    case ping
    case moved(Point)
    case renamed(from: String, to: String?)
    case several(Int, Double, [Event])

    static let all: [Event] = [
      .ping, .moved(Point(x: 1, y: 2)), .renamed(from: "a", to: nil), .renamed(from: "a", to: "b"),
      .several(1, 2.5, [.ping, .moved(Point(x: 0, y: 0)), .several(0, 0, [])]),
    ]
  }

  indirect enum Expression: Codable, Hashable, Sendable {
    case number(Double)
    case sum(Expression, Expression)
    case negative(Expression)

    static let sample = Expression.sum(.negative(.sum(.number(1), .number(2.25))), .negative(.number(3)))

    static func nested(_ depth: Int) -> Expression {
      (0..<depth).reduce(.number(1)) { inner, _ in .negative(inner) }
    }
  }

  struct Tree: Codable, Hashable {
    var name: String
    var children: [Tree]

    static let sample = Tree(
      name: "root",
      children: [Tree(name: "a", children: [Tree(name: "b", children: [])]), Tree(name: "c", children: [])])

    static func chain(_ depth: Int) -> Tree {
      (1..<depth).reduce(Tree(name: "leaf", children: [])) { Tree(name: "\($1)", children: [$0]) }
    }
  }

  /// A type with one field, whose keys therefore take no bytes.
  struct Wrapper<Value: Codable & Hashable>: Codable, Hashable { var value: Value }

  /// A type that is encoded as another type.
  struct Celsius: Codable, Hashable, RawRepresentable, Sendable { var rawValue: Double }

  struct Everything: Codable, Hashable, Sendable {
    var colors: [Color]
    var level: Level
    var events: [Event]
    var wrapped: Wrapper<Wrapper<Int>>
    var celsius: Celsius
    var celsiuses: [Celsius?]
    var byColor: [Color: Int]
    var range: Range<Int>
    var closed: ClosedRange<String>

    static let sample = Everything(
      colors: [.blue, .red], level: .high, events: Event.all, wrapped: Wrapper(value: Wrapper(value: 5)),
      celsius: Celsius(rawValue: 36.6), celsiuses: [nil, Celsius(rawValue: -1)], byColor: [.green: 2], range: 1..<5,
      closed: "a"..."z")
  }

  /// A type with more fields than keys of one byte can distinguish, and than most types have.
  struct ManyFields: Codable, Hashable {
    var values: [String: Int]

    struct Key: CodingKey {
      let stringValue: String
      var intValue: Int? { nil }
      init(stringValue: String) { self.stringValue = stringValue }
      init?(intValue: Int) { nil }
    }

    init(_ count: Int) { values = Dictionary(uniqueKeysWithValues: (0..<count).map { ("field \($0)", $0 * $0) }) }

    init(from decoder: any Decoder) throws {
      let container = try decoder.container(keyedBy: Key.self)
      values = [:]
      for key in container.allKeys { values[key.stringValue] = try container.decode(Int.self, forKey: key) }
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: Key.self)
      for (key, value) in values { try container.encode(value, forKey: Key(stringValue: key)) }
    }
  }
}

extension Zoo.Wrapper: Sendable where Value: Sendable {}
