import EngineTestSupport
import Foundation
import Testing
import Varve
import VarveInspection

@testable import ObjectFixtures

/// Tests of keys that are entered as text: a key that `KeyText` prints is parsed to the same key.
struct KeyTextReaderTests {
  /// Prints a key, and parses the text.
  private func read<Key: KeyCodable>(_ key: Key) throws -> (text: String, isSame: Bool) {
    let bytes = try key.encoded()
    let text = KeyText.text(of: bytes)
    return (text, try KeyText.key(text, as: Key.keyType) == bytes)
  }

  private func expect<Key: KeyCodable>(_ keys: [Key]) throws {
    for key in keys {
      let found = try read(key)
      #expect(found.isSame, "\(Key.keyType): \(found.text)")
    }
  }

  @Test(arguments: [1, 2, 3] as [UInt64])
  func `every key of every type is read from its text`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    func several<Key>(_ make: (inout SeededRandom) -> Key) -> [Key] { (0..<200).map { _ in make(&random) } }
    try expect(several(KeySamples.string) + KeySamples.pieces)
    try expect(several { KeySamples.integer(&$0) as Int128 } + KeySamples.integerEdges(Int128.self))
    try expect(KeySamples.integerEdges(UInt128.self))
    try expect(several(KeySamples.double) + KeySamples.doubleEdges)
    try expect((several(KeySamples.double) + KeySamples.doubleEdges).map { Date(timeIntervalSinceReferenceDate: $0) })
    try expect(several(KeySamples.uuid))
    try expect(several(KeySamples.data))
    try expect([true, false])
    try expect(several { KeySamples.optional(&$0, KeySamples.string) } + ["nil"])
    try expect([nil, .some(nil), .some(.some(nil)), .some(.some(.some("some(nil)")))] as [String???])
    try expect(several { Compound(KeySamples.string(&$0), KeySamples.integer(&$0) as Int, KeySamples.double(&$0)) })
    try expect(several { Compound(Compound(KeySamples.optional(&$0, KeySamples.data), true), KeySamples.uuid(&$0)) })
    try expect([nil, Compound("a", 1)] as [Compound<String, Int>?])
    try expect(several(KeySamples.decimal) + KeySamples.decimalEdges)
    try expect(several(KeySamples.duration) + [.seconds(Int64.max), .seconds(Int64.min), .nanoseconds(-1)])
    try expect(several { Descending(KeySamples.optional(&$0, KeySamples.string)) })
    try expect(several { Compound("a", Descending(KeySamples.integer(&$0) as Int), Descending(KeySamples.data(&$0))) })
    try expect(several { Descending(Compound(KeySamples.string(&$0), Descending(KeySamples.decimal(&$0)), true)) })
    try expect([Compound("one part")])
  }

  @Test(arguments: [1, 2, 3] as [UInt64])
  func `dates of everyday size keep every bit`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    for _ in 0..<2_000 {
      let seconds = Double.random(in: -64e9...253e9, using: &random) / Double(1 << random.below(40))
      let found = try read(Date(timeIntervalSinceReferenceDate: seconds))
      #expect(found.isSame, "\(found.text)")
    }
  }

  @Test func `strings need no quotation marks, and nil is read as nil only for optional types`() throws {
    func expect(_ text: String, _ type: KeyType, _ key: some KeyCodable) throws {
      #expect(try KeyText.key(text, as: type) == key.encoded(), "\(text)")
    }
    try expect("Moby (1851), a", .string, "Moby (1851), a")
    try expect("nil", .string, "nil")
    try expect("nil", .optional(.string), String?.none)
    try expect("\"nil\"", .optional(.string), String?.some("nil"))
    try expect("e\u{301}", .string, "é")
    try expect("", .string, "")
    try expect("\"\\u{301}\\0\\n\"", .string, "\u{301}\0\n")
    try expect("(1,  \"a\")", .compound(.integer, .string), Compound(1, "a"))
    try expect("(1, \"a\")", KeyType("a type of its own"), Compound(1, "a"))
    try expect("2001-01-01T00:00:00Z", KeyType("a type of its own"), Date(timeIntervalSinceReferenceDate: 0))
  }

  @Test(arguments: [
    ("", KeyType.integer), ("1.5", .integer), ("340282366920938463463374607431768211456", .integer), ("x", .double),
    ("nan", .double), ("yes", .bool), ("0x0", .data), ("00", .data), ("0xzz", .data), ("0x+1", .data), ("zz", .uuid),
    ("2001-02-29T00:00:00Z", .date), ("2001-01-01 00:00:00Z", .date), ("2001-01-01T24:00:00Z", .date),
    ("2001-01-01T00:00:00.Z", .date), ("2001-01-01T00:00:00.-1Z", .date), ("date(nan)", .date), ("\"a", .string),
    ("\"a\"b", .string), ("\"\\q\"", .string), ("\"\\u{d800}\"", .string), ("(1)", .compound(.integer, .string)),
    ("(1, \"a\", 2)", .compound(.integer, .string)), ("1, \"a\"", .compound(.integer)), ("(1", .compound(.integer)),
    ("(a)", .compound(.string)), ("7", .optional(.optional(.integer))), ("some(7", .optional(.optional(.integer))),
    ("(what)", KeyType("own")), ("1,5", .decimal), ("12abc", .decimal), ("nan", .decimal), ("1.5", .duration),
    ("1.s", .duration), ("1.-5s", .duration), ("9223372036854775808s", .duration), ("x", .descending(.integer)),
  ])
  func `text that is not a key of the type is refused`(text: String, type: KeyType) throws {
    let error = #expect(throws: DatabaseError.self) { try KeyText.key(text, as: type) }
    #expect(error?.code == .invalidKey)
    #expect(error?.key == text || error?.key == nil)
  }

  @Test(arguments: [1, 2] as [UInt64])
  func `text of any kind never traps`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let types: [KeyType] = [
      .string, .integer, .double, .bool, .data, .date, .uuid, .optional(.string), .optional(.optional(.date)),
      .compound(.string, .optional(.integer)), .compound(), KeyType("own"), KeyType("compound("), KeyType("optional()"),
      .decimal, .duration, .descending(.string), .descending(.compound(.integer, .optional(.string))),
      KeyType("descending()"),
    ]
    let pieces = [
      "(", ")", ",", " ", "\"", "\\", "u{", "}", "nil", "some(", "date(", "0x", "2001-01-01T00:00:00", ".", "Z", "-",
      "9", "s", "e", "é", "true", "1e9",
    ]
    for _ in 0..<5_000 {
      let text = (0..<random.below(8)).map { _ in pieces[random.below(pieces.count)] }.joined()
      for type in types {
        guard let key = try? KeyText.key(text, as: type) else { continue }
        #expect((try? KeyPart.parts(of: key)) != nil, "\(type) \(text): \(key)")
      }
    }
  }
}
