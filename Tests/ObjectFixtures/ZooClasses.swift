import Foundation

@testable import Varve

/// Classes that encode one container for both classes, or one for each.
extension Zoo {
  class Animal: Codable {
    var name: String
    var legs: Int

    private enum CodingKeys: CodingKey { case name, legs }

    init(name: String, legs: Int) {
      self.name = name
      self.legs = legs
    }

    required init(from decoder: any Decoder) throws {
      let container = try decoder.container(keyedBy: CodingKeys.self)
      name = try container.decode(String.self, forKey: .name)
      legs = try container.decode(Int.self, forKey: .legs)
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(name, forKey: .name)
      try container.encode(legs, forKey: .legs)
    }
  }

  /// A class whose fields are encoded in the container of its superclass, whose fields come between them.
  final class Dog: Animal, Equatable {
    var owner: String?
    var tricks: [String]

    private enum CodingKeys: CodingKey { case owner, tricks }

    init(name: String, owner: String?, tricks: [String]) {
      self.owner = owner
      self.tricks = tricks
      super.init(name: name, legs: 4)
    }

    required init(from decoder: any Decoder) throws {
      let container = try decoder.container(keyedBy: CodingKeys.self)
      tricks = try container.decode([String].self, forKey: .tricks)
      owner = try container.decodeIfPresent(String.self, forKey: .owner)
      try super.init(from: decoder)
    }

    override func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encodeIfPresent(owner, forKey: .owner)
      try super.encode(to: encoder)
      try container.encode(tricks, forKey: .tricks)
    }

    static func == (left: Dog, right: Dog) -> Bool {
      left.name == right.name && left.legs == right.legs && left.owner == right.owner && left.tricks == right.tricks
    }
  }

  /// A class that encodes its superclass in a field.
  final class Cat: Animal, Equatable {
    var lives: Int

    private enum CodingKeys: CodingKey { case lives }

    init(name: String, lives: Int) {
      self.lives = lives
      super.init(name: name, legs: 4)
    }

    required init(from decoder: any Decoder) throws {
      let container = try decoder.container(keyedBy: CodingKeys.self)
      lives = try container.decode(Int.self, forKey: .lives)
      try super.init(from: container.superDecoder())
    }

    override func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(lives, forKey: .lives)
      try super.encode(to: container.superEncoder())
    }

    static func == (left: Cat, right: Cat) -> Bool {
      left.name == right.name && left.legs == right.legs && left.lives == right.lives
    }
  }

  /// A payload of any kind, with keys that are known only at run time.
  indirect enum Payload: Codable, Hashable {
    case null
    case bool(Bool)
    case int(Int)
    case double(Double)
    case string(String)
    case array([Payload])
    case object([String: Payload])

    init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      if container.decodeNil() {
        self = .null
      } else if let value = try? container.decode(Bool.self) {
        self = .bool(value)
      } else if let value = try? container.decode(Int.self) {
        self = .int(value)
      } else if let value = try? container.decode(Double.self) {
        self = .double(value)
      } else if let value = try? container.decode(String.self) {
        self = .string(value)
      } else if let value = try? container.decode([Payload].self) {
        self = .array(value)
      } else {
        self = .object(try container.decode([String: Payload].self))
      }
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.singleValueContainer()
      switch self {
      case .null: try container.encodeNil()
      case .bool(let value): try container.encode(value)
      case .int(let value): try container.encode(value)
      case .double(let value): try container.encode(value)
      case .string(let value): try container.encode(value)
      case .array(let value): try container.encode(value)
      case .object(let value): try container.encode(value)
      }
    }

    static let sample = Payload.object([
      "null": .null, "list": .array([.int(1), .string("x"), .null, .bool(false), .array([]), .object([:])]),
      "deep": .object(["a": .object(["b": .double(0.25)])]), "big": .int(.min),
    ])
  }

  /// A type that encodes elements of several kinds into one array, and containers inside containers.
  struct Mixed: Codable, Hashable {
    var point: Point
    var name: String
    var numbers: [Int]

    private enum Key: CodingKey { case point, list }
    private enum PointKey: CodingKey { case x, y }

    init(point: Point, name: String, numbers: [Int]) {
      self.point = point
      self.name = name
      self.numbers = numbers
    }

    init(from decoder: any Decoder) throws {
      let container = try decoder.container(keyedBy: Key.self)
      let inner = try container.nestedContainer(keyedBy: PointKey.self, forKey: .point)
      point = Point(x: try inner.decode(Int.self, forKey: .x), y: try inner.decode(Int.self, forKey: .y))
      var list = try container.nestedUnkeyedContainer(forKey: .list)
      name = try list.decode(String.self)
      var numberList = try list.nestedUnkeyedContainer()
      numbers = []
      while !numberList.isAtEnd { numbers.append(try numberList.decode(Int.self)) }
      let again = try list.nestedContainer(keyedBy: PointKey.self)
      guard try again.decode(Int.self, forKey: .y) == point.y, try list.decodeNil(), list.isAtEnd else {
        throw DecodingError.dataCorrupted(.init(codingPath: list.codingPath, debugDescription: "another list"))
      }
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: Key.self)
      var inner = container.nestedContainer(keyedBy: PointKey.self, forKey: .point)
      try inner.encode(point.x, forKey: .x)
      try inner.encode(point.y, forKey: .y)
      var list = container.nestedUnkeyedContainer(forKey: .list)
      try list.encode(name)
      var numberList = list.nestedUnkeyedContainer()
      try numberList.encode(contentsOf: numbers)
      var again = list.nestedContainer(keyedBy: PointKey.self)
      try again.encode(point.y, forKey: .y)
      try list.encodeNil()
    }
  }
}
