import EngineTestSupport
import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of keys of a program's own types, the names of types, and the errors.
struct KeyCodableTests {
  @Test func `a type with a raw value is a key like its raw value`() throws {
    for shelf in Shelf.allCases {
      #expect(try shelf.encoded() == shelf.rawValue.encoded())
      #expect(try Shelf.decoded(from: shelf.encoded()) == shelf)
    }
    for language in Language.allCases { #expect(try Language.decoded(from: language.rawValue.encoded()) == language) }
    let isbn = ISBN(rawValue: "978-e\u{301}")
    #expect(try ISBN.decoded(from: isbn.encoded()) == isbn)
    let misorder = try KeyCheck.firstMisorder(Shelf.allCases) { $0.rawValue < $1.rawValue }
    #expect(misorder == nil)
  }

  @Test func `a raw value that the type does not have is not a key`() throws {
    let error = #expect(throws: DatabaseError.self) { try Shelf.decoded(from: 7.encoded()) }
    #expect(error?.code == .invalidKey && error?.key == "7")
    let other = #expect(throws: DatabaseError.self) { try Language.decoded(from: "de".encoded()) }
    #expect(other?.code == .invalidKey && other?.key == "\"de\"")
  }

  /// A type whose initializer changes its argument.
  private struct Folded: RawRepresentable, KeyCodable {
    let rawValue: String
    init(rawValue: String) { self.rawValue = rawValue.lowercased() }
  }

  @Test func `a raw value that its initialiser would change is refused while decoding`() throws {
    #expect(try Folded.decoded(from: Folded(rawValue: "ABC").encoded()) == Folded(rawValue: "abc"))
    #expect(throws: DatabaseError.self) { try Folded.decoded(from: "ABC".encoded()) }
  }

  @Test(arguments: [1, 2] as [UInt64])
  func `keys that a program's type composes from parts sort by the parts`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let keys = (0..<300).map { _ in
      Location(
        country: ["", "a", "a\0", "ab"][random.below(4)],
        shelf: KeySamples.optional(&random) { Shelf.allCases[$0.below(3)] }, number: random.below(5) - 2)
    }
    #expect(try KeyCheck.firstMisorder(keys) == nil, "seed \(seed)")
    let pairs = keys.map { Compound($0, 1) }
    #expect(try KeyCheck.firstMisorder(pairs) == nil, "seed \(seed)")
  }

  /// All kinds of parts, by the methods of the encoder and the decoder.
  @Test func `the decoder reads every part that the encoder appends`() throws {
    var encoder = KeyEncoder()
    encoder.append(bool: true)
    try encoder.append(integer: UInt16(300))
    try encoder.append(double: -2.5)
    try encoder.append(date: Date(timeIntervalSinceReferenceDate: 0.1))
    let uuid = UUID()
    encoder.append(uuid: uuid)
    encoder.append(data: Data([0, 1]))
    encoder.append(string: "é\0")
    encoder.appendNil()
    encoder.appendSome()
    try encoder.encode(Language.swedish)

    let bytes = encoder.bytes
    // A decoder is not escapable, so it cannot be used inside an expectation.
    var decoder = KeyDecoder(unsafe bytes.span.bytes)
    let bool = try decoder.decodeBool()
    let integer = try decoder.decodeInteger(as: Int32.self)
    let double = try decoder.decodeDouble()
    let date = try decoder.decodeDate()
    #expect(bool && integer == 300 && double == -2.5 && date == Date(timeIntervalSinceReferenceDate: 0.1))
    let other = try decoder.decodeUUID()
    let data = try decoder.decodeData()
    let string = try decoder.decodeString()
    #expect(other == uuid && data == Data([0, 1]) && string == "é\0")
    let layers = [try decoder.decodeIsSome(), try decoder.decodeIsSome(), decoder.isAtEnd]
    #expect(layers == [false, true, false])
    let language = try decoder.decode(Language.self)
    let (isAtEnd, offset) = (decoder.isAtEnd, decoder.offset)
    #expect(language == .swedish && isAtEnd && offset == bytes.count)
    #expect(throws: DatabaseError.self) { try Bool.decoded(from: []) }
  }

  @Test func `each type of keys has its name`() {
    let names: [(any KeyCodable.Type, String)] = [
      (String.self, "string"), (Int.self, "int"), (UInt8.self, "int"), (Int128.self, "int"), (UUID.self, "uuid"),
      (Date.self, "date"), (Double.self, "double"), (Float.self, "double"), (Bool.self, "bool"), (Data.self, "data"),
      (Int?.self, "optional(int)"), (Int??.self, "optional(optional(int))"), (ISBN.self, "string"),
      (Shelf.self, "int"), (Compound<Int, String>.self, "compound(int,string)"),
      (Compound<Int, Compound<UUID?, Bool>>.self, "compound(int,compound(optional(uuid),bool))"),
      (Location.self, "compound(string,optional(int),int)"),
    ]
    for (type, name) in names { #expect(type.keyType.name == name && type.keyType == KeyType(name)) }
    #expect("\(KeyType.optional(.date))" == "optional(date)")
  }

  @Test func `the error for a key of another type names the types and the offset`() throws {
    let bytes = try Compound(1, "a").encoded()
    let error = #expect(throws: DatabaseError.self) { try Compound<Int, UUID>.decoded(from: bytes) }
    #expect(error?.code == .keyTypeDiffers && error?.key == #"(1, "a")"#)
    #expect(error?.message == "a string instead of a UUID, at byte 2 of the key")

    let kinds: [any KeyCodable] = [
      "a", 1, UUID(), Date(timeIntervalSinceReferenceDate: 0), 1.5, true, Data([1]), Int?.some(1),
    ]
    for (index, kind) in kinds.enumerated() {
      for (other, key) in kinds.enumerated() where other != index {
        let error = #expect(throws: DatabaseError.self) { try type(of: kind).decoded(from: key.encoded()) }
        #expect(error?.code == .keyTypeDiffers, "\(kind) from \(key)")
      }
    }
  }

  @Test func `the error for bytes that are not a key names the cause and the offset`() throws {
    func failure(_ bytes: [UInt8]) -> String {
      let error = #expect(throws: DatabaseError.self) { try Compound<Int, String>.decoded(from: bytes) }
      #expect(error?.code == .invalidKey)
      return error.map { "\($0.message) \($0.key ?? "")" } ?? ""
    }
    #expect(failure([]) == "the bytes end before an integer, at byte 0 of the key ()")
    #expect(failure([0x31]) == "the bytes end inside an integer, at byte 1 of the key <invalid 0x31>")
    #expect(failure([0x31, 0x00]).hasPrefix("an integer with a leading zero byte, at byte 1"))
    #expect(failure([0x30, 0x11, 0x61]).hasPrefix("the bytes end inside a string, at byte 2"))
    #expect(failure([0x30, 0x07]).hasPrefix("tag 7, which is none, instead of a string, at byte 1"))
    #expect(failure([0x30, 0x11, 0x00, 0x30]) == #"bytes follow the key, at byte 3 of the key (0, "", 0)"#)
    let tooLow: [UInt8] = [0x20, 0x7f] + [UInt8](repeating: 0xff, count: 14) + [0xfe]
    #expect(failure(tooLow).hasPrefix("an integer below 128 bits, at byte 0"))
  }
}
