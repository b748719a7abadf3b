import EngineTestSupport
import Foundation
import Testing

@testable import ObjectFixtures
@testable import UnicodeNormalForm
@testable import Varve

/// Tests of strings as keys: they have the order and the equality of Swift, however a string is composed.
struct KeyStringTests {
  /// The strings are in normal form C, because the standard library's operator does not order others (Swift 6.3 finds
  /// neither of "e\u{301}" and "\u{e9}z" less than the other).
  @Test(arguments: [1, 2, 3, 4] as [UInt64])
  func `strings in normal form C sort as the standard library's operator sorts them`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let strings = KeySamples.pieces + [""] + (0..<500).map { _ in KeySamples.string(&random) }
    let keys = strings.map { String(decoding: NormalForm.composed(Array($0.utf8).rawSpan), as: UTF8.self) }
    let misorder = try KeyCheck.firstMisorder(keys)
    #expect(misorder == nil, "seed \(seed)")
  }

  @Test(arguments: [1, 2, 3, 4] as [UInt64])
  func `strings are equal if their bytes are equal, sort by their normal forms, and are read back`(seed: UInt64) throws
  {
    var random = SeededRandom(seed: seed)
    for _ in 0..<20_000 {
      let strings = (0..<2).map { _ in KeySamples.string(&random) }
      let encoded = try strings.map { try $0.encoded() }
      let decoded = try encoded.map { try String.decoded(from: $0) }
      let isLess = KeyCheck.compare(encoded[0], encoded[1]) < 0
      guard decoded == strings, (encoded[0] == encoded[1]) == (strings[0] == strings[1]),
        isLess == (decoded[0] < decoded[1])
      else {
        Issue.record("seed \(seed): \(strings.map { $0.unicodeScalars.map { String($0.value, radix: 16) } })")
        return
      }
    }
    #expect(try "Α".encoded().lexicographicallyPrecedes("Β".encoded()))
    // The composed character has the lower scalar: it sorts before its base in either form.
    #expect(try "\u{391}\u{301}".encoded().lexicographicallyPrecedes("\u{391}".encoded()))
    #expect(try "\u{386}".encoded().lexicographicallyPrecedes("\u{391}".encoded()))
  }

  @Test(arguments: [1, 2, 3, 4] as [UInt64])
  func `a string and its decomposition are one key`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    for _ in 0..<2_000 {
      let string = KeySamples.string(&random)
      // Foundation knows fewer decompositions than the keys: it leaves characters that it does not know unchanged.
      let other =
        random.oneIn(2) ? string.decomposedStringWithCanonicalMapping : string.precomposedStringWithCanonicalMapping
      try #require(string == other, "seed \(seed)")
      #expect(try string.encoded() == other.encoded(), "seed \(seed): \(string)")
    }
  }

  @Test func `long strings keep their order at every position where they differ`() throws {
    var keys: [String] = []
    for count in [7, 8, 9, 15, 16, 17, 1_000, 100_000] {
      let base = String(repeating: "x", count: count)
      for ending in ["", "\0", "a", "y", "é", "e\u{301}", "😀"] { keys.append(base + ending) }
    }
    #expect(try KeyCheck.firstMisorder(keys) == nil)
  }

  @Test func `zeros are escaped wherever they are`() throws {
    for count in 0..<20 {
      for location in 0..<count {
        var bytes = [UInt8](repeating: UInt8(ascii: "x"), count: count)
        bytes[location] = 0
        let string = String(decoding: bytes, as: UTF8.self)
        let encoded = try string.encoded()
        var expected = [0x11] + bytes + [0]
        expected.insert(0xff, at: location + 2)
        #expect(encoded == expected)
        #expect(try String.decoded(from: encoded) == string)
        #expect(try Data.decoded(from: Data(bytes).encoded()) == Data(bytes))
      }
    }
  }

  @Test func `a string that is not contiguous is encoded like a contiguous one`() throws {
    let array = NSArray(array: ["été", "a\0b", "e\u{301}"])
    for case let string as String in array {
      #expect(try string.encoded() == String(Array(string.unicodeScalars).map(Character.init)).encoded())
    }
    let part = "xx été xx".dropFirst(3).dropLast(3)
    #expect(try String(part).encoded() == "e\u{301}te\u{301}".encoded())
  }

  @Test func `bytes that are not UTF-8 or not in normal form C are not a string`() {
    let contents: [[UInt8]] = [
      [0x80], [0xc3], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xff], [0x61, 0xf0, 0x9f, 0x98],
      Array("e\u{301}".utf8), Array("\u{212b}".utf8), Array("\u{1100}\u{1161}".utf8), Array("\u{302}\u{323}".utf8),
    ]
    for content in contents {
      let error = #expect(throws: DatabaseError.self) { try String.decoded(from: [0x11] + content + [0]) }
      #expect(error?.code == .invalidKey, "\(content)")
    }
  }
}
