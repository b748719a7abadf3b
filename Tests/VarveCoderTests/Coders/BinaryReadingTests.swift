import Foundation
import Synchronization
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of types that read their containers in every way that `Codable` permits.
struct BinaryReadingTests {
  private let coder = ValueCoder(.binary)

  private enum Key: CodingKey { case a, b, c, d, missing }

  /// A type that decodes with a closure, which is set on the thread for the duration of a test.
  private struct Reader: Decodable {
    /// A separate structure, because the optimizer of Swift 6.3 miscompiles the call of a task-local that is itself a
    /// closure.
    struct Body: Sendable {
      let read: @Sendable (any Decoder) throws -> Void
    }

    @TaskLocal static var body: Body?
    init(from decoder: any Decoder) throws { try Reader.body?.read(decoder) }
  }

  private struct Record: Codable {
    var a = 1
    var b = ["x": [1, 2], "y": []]
    var c = [Zoo.Point(x: 1, y: 2), Zoo.Point(x: 3, y: 4)]
    var d = "text"
    var n: Int?
  }

  /// Reads a record, and the same values as a dictionary, at the top level and inside an array.
  private func read(_ body: @escaping @Sendable (any Decoder) throws -> Void) throws {
    let bare = try coder.encode(Record())
    let inArray = try coder.encode([Record(), Record()])
    let map = try coder.encode(
      Zoo.Payload.object([
        "a": .int(1), "b": .object(["x": .array([.int(1), .int(2)]), "y": .array([])]),
        "c": .array([.object(["x": .int(1), "y": .int(2)]), .object(["x": .int(3), "y": .int(4)])]),
        "d": .string("text"),
      ]))
    let count = Mutex(0)
    let counted = Reader.Body { decoder in
      count.withLock { $0 += 1 }
      try body(decoder)
    }
    try Reader.$body.withValue(counted) {
      _ = try coder.decode(Reader.self, bare)
      _ = try coder.decode([Reader].self, inArray)
      _ = try coder.decode(Reader.self, map)
    }
    #expect(count.withLock { $0 } >= 4)
  }

  private enum Flag: UInt8, Codable { case off = 0, on = 1, high = 200 }

  @Test func `bytes are read as an array of any type that decodes from integers, as in JSON`() throws {
    let row = try coder.encode([UInt8]([0, 1, 200]))
    #expect(try coder.decode([Flag].self, row) == [.off, .on, .high])
    #expect(try coder.decode([UInt8?].self, row) == [0, 1, 200])
    #expect(try coder.decode([Int].self, row) == [0, 1, 200])
    #expect(try coder.decode([Zoo.Payload].self, row) == [.int(0), .int(1), .int(200)])
    let inside = try coder.encode(["flags": [UInt8]([1]), "none": []])
    #expect(try coder.decode([String: [Flag]].self, inside) == ["flags": [.on], "none": []])
    let wrong = coderFault { _ = try coder.decode([Flag].self, try coder.encode([UInt8]([1, 2]))) }
    #expect(wrong == CoderFault(.decodingFailed, .typeMismatch, "[1]"))
    let texts = coderFault { _ = try coder.decode([String].self, row) }
    #expect(texts == CoderFault(.decodingFailed, .typeMismatch, "[0]"))
    #expect(coderFault { _ = try coder.decode([Int8].self, row) }?.kind == .dataCorrupted)
  }

  @Test func `fields may be read in any order, and again`() throws {
    try read { decoder in
      let container = try decoder.container(keyedBy: Key.self)
      for _ in 0..<2 {
        #expect(try container.decode(String.self, forKey: .d) == "text")
        #expect(try container.decode([Zoo.Point].self, forKey: .c).last == Zoo.Point(x: 3, y: 4))
        #expect(try container.decode(Int.self, forKey: .a) == 1)
        #expect(try container.decode([String: [Int]].self, forKey: .b) == ["x": [1, 2], "y": []])
        #expect(try container.decodeIfPresent(Int.self, forKey: .missing) == nil)
        #expect(try container.decodeIfPresent(String.self, forKey: .d) == "text")
        #expect(throws: DecodingError.self) { try container.decode(Int.self, forKey: .d) }
        #expect(throws: DecodingError.self) { try container.decodeNil(forKey: .missing) }
        #expect(try !container.decodeNil(forKey: .a))
        #expect(container.contains(.c) && !container.contains(.missing))
      }
      #expect(container.allKeys.map(\.stringValue).sorted() == ["a", "b", "c", "d"])
    }
  }

  @Test func `several containers of one value may be read in turn`() throws {
    try read { decoder in
      let container = try decoder.container(keyedBy: Key.self)
      var first = try container.nestedUnkeyedContainer(forKey: .c)
      var second = try container.nestedUnkeyedContainer(forKey: .c)
      let map = try container.nestedContainer(keyedBy: PathKey.self, forKey: .b)
      #expect(try first.decode(Zoo.Point.self) == Zoo.Point(x: 1, y: 2))
      var list = try map.nestedUnkeyedContainer(forKey: PathKey(stringValue: "x"))
      #expect(try list.decode(Int.self) == 1)
      #expect(try second.decode(Zoo.Point.self) == Zoo.Point(x: 1, y: 2))
      #expect(try list.decode(Int.self) == 2 && list.isAtEnd && list.count == 2 && list.currentIndex == 2)
      #expect(try first.decode(Zoo.Point.self) == Zoo.Point(x: 3, y: 4) && first.isAtEnd)
      #expect(throws: DecodingError.self) { try first.decode(Zoo.Point.self) }
      #expect(
        try second.nestedContainer(keyedBy: PathKey.self).decode(Int.self, forKey: PathKey(stringValue: "y")) == 4)
      #expect(second.isAtEnd)
      #expect(try decoder.container(keyedBy: PathKey.self).decode(Int.self, forKey: PathKey(stringValue: "a")) == 1)
      #expect(try container.decode(String.self, forKey: .d) == "text")
    }
  }

  @Test func `a copy of an array container advances independently`() throws {
    try read { decoder in
      var list = try decoder.container(keyedBy: Key.self).nestedUnkeyedContainer(forKey: .c)
      var peek = list
      #expect(try peek.nestedContainer(keyedBy: PathKey.self).allKeys.count == 2)
      #expect(try peek.decode(Zoo.Point.self).x == 3)
      #expect(list.currentIndex == 0)
      #expect(try list.decode(Zoo.Point.self).x == 1)
      #expect(try list.decode(Zoo.Point.self).x == 3)
    }
  }

  @Test func `a super decoder reads its field, and null if the default field is missing`() throws {
    try read { decoder in
      let container = try decoder.container(keyedBy: Key.self)
      let list = try container.superDecoder(forKey: .c)
      let nothing = try container.superDecoder()
      #expect(try nothing.singleValueContainer().decodeNil())
      #expect(throws: DecodingError.self) { try nothing.container(keyedBy: Key.self) }
      #expect(try [Zoo.Point](from: list).count == 2)
      #expect(throws: DecodingError.self) { try container.superDecoder(forKey: .missing) }
      var elements = try container.nestedUnkeyedContainer(forKey: .c)
      let element = try elements.superDecoder()
      #expect(try elements.decode(Zoo.Point.self).x == 3)
      #expect(try Zoo.Point(from: element).x == 1)
    }
  }

  @Test func `a value can be decoded as one type after the other until one fits`() throws {
    try read { decoder in
      let single = try decoder.singleValueContainer()
      #expect(throws: DecodingError.self) { try single.decode(Int.self) }
      #expect(throws: DecodingError.self) { try single.decode([Int].self) }
      #expect(throws: DecodingError.self) { try decoder.unkeyedContainer() }
      #expect(throws: DecodingError.self) { try single.decode(Zoo.Book.self) }
      #expect(try single.decode(Record.self).d == "text")
      #expect(!single.decodeNil())
      #expect(try decoder.container(keyedBy: Key.self).decode(Int.self, forKey: .a) == 1)
    }
  }

  /// A type that keeps its decoder, and decodes later.
  private struct Lazy: Decodable {
    let decoder: any Decoder
    let keyed: KeyedDecodingContainer<Key>?
    init(from decoder: any Decoder) throws {
      self.decoder = decoder
      keyed = try? decoder.container(keyedBy: Key.self)
    }
  }

  @Test func `decoders that are kept work as long as the whole value is being decoded`() throws {
    struct Kept: Decodable {
      var record: Record
      var points: [Zoo.Point]
      init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        let whole = try container.decode(Lazy.self, forKey: .a)
        let list = try container.decode([Lazy].self, forKey: .b)
        // Another value is decoded in between.
        _ = try container.decode([Zoo.Point].self, forKey: .c)
        let keyed = try #require(whole.keyed)
        _ = try keyed.decode(String.self, forKey: .d)
        record = try Record(from: whole.decoder)
        points = try list.reversed().map { try Zoo.Point(from: $0.decoder) }
      }
    }
    struct Source: Encodable {
      var a = Record()
      var b = [Zoo.Point(x: 1, y: 2), Zoo.Point(x: 3, y: 4)]
      var c = [Zoo.Point(x: 5, y: 6)]
    }
    for _ in 0..<2 {
      let kept = try coder.decode(Kept.self, try coder.encode(Source()))
      #expect(kept.record.c == Record().c)
      #expect(kept.points == [Zoo.Point(x: 3, y: 4), Zoo.Point(x: 1, y: 2)])
    }
  }

  @Test func `decoders that are kept after the whole value was decoded throw`() throws {
    let row = try coder.encode(Record())
    let kept = try coder.decode(Lazy.self, row)
    let single = try coder.decode(Single.self, try coder.encode([1, 2, 3]))
    for round in 0..<3 {
      #expect(throws: DecodingError.self, "\(round)") { try Record(from: kept.decoder) }
      #expect(throws: DecodingError.self, "\(round)") { try kept.keyed?.decode(Int.self, forKey: .a) }
      #expect(kept.keyed?.allKeys.isEmpty == true)
      #expect(kept.keyed?.contains(.a) == false)
      #expect(throws: DecodingError.self) { try kept.keyed?.superDecoder() }
      var list = single.list
      #expect(list.count == nil && !list.isAtEnd)
      #expect(throws: DecodingError.self) { try list.decode(Int.self) }
      // The decoder is used for other values meanwhile; their frames must not be confused with these.
      #expect(try coder.decode(Record.self, row).a == 1)
    }
  }

  private struct Single: Decodable {
    let list: any UnkeyedDecodingContainer
    init(from decoder: any Decoder) throws { list = try decoder.unkeyedContainer() }
  }

  @Test func `encoders that are kept after their value was encoded throw`() throws {
    final class Thief: Encodable {
      var keyed: KeyedEncodingContainer<Key>?
      var list: (any UnkeyedEncodingContainer)?
      var encoder: (any Encoder)?
      func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(1, forKey: .a)
        list = container.nestedUnkeyedContainer(forKey: .b)
        keyed = container
        self.encoder = container.superEncoder()
      }
    }
    let thief = Thief()
    let expected = #"[{"a":1,"b":[],"super":{}},1]"#
    struct Pair: Encodable {
      let thief: Thief
      func encode(to encoder: any Encoder) throws {
        var list = encoder.unkeyedContainer()
        try list.encode(thief)
        try list.encode(1)
      }
    }
    for _ in 0..<3 {
      #expect(try coder.json(Pair(thief: thief)) == expected)
      #expect(throws: EncodingError.self) { try thief.keyed?.encode(2, forKey: .c) }
      #expect(throws: EncodingError.self) { try thief.list?.encode(2) }
      #expect(throws: EncodingError.self) {
        let encoder = try #require(thief.encoder)
        try Zoo.Point(x: 1, y: 2).encode(to: encoder)
      }
    }
    // Within the same value, it is an error of the value.
    struct Late: Encodable {
      let thief = Thief()
      func encode(to encoder: any Encoder) throws {
        var list = encoder.unkeyedContainer()
        try list.encode(thief)
        try list.encode(1)
        try? thief.keyed?.encode(2, forKey: .c)
      }
    }
    #expect(coderFault { _ = try coder.encode(Late()) }?.kind == .invalidValue)
    #expect(try coder.json(Pair(thief: thief)) == expected)
  }
}
