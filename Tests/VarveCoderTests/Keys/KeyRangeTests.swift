import EngineTestSupport
import Testing

@testable import ObjectFixtures
@testable import UnicodeNormalForm
@testable import Varve

/// Tests of the bounds of ranges: exactly the keys that begin with a prefix lie between them.
struct KeyRangeTests {
  private func contains(_ bytes: [UInt8], _ lower: [UInt8], _ upper: [UInt8]?) -> Bool {
    KeyCheck.compare(bytes, lower) >= 0 && (upper.map { KeyCheck.compare(bytes, $0) < 0 } ?? true)
  }

  @Test func `the successor of a prefix is the smallest key after all keys with it`() {
    #expect(KeyRange.successor(ofPrefix: []) == nil)
    #expect(KeyRange.successor(ofPrefix: [0xff, 0xff]) == nil)
    #expect(KeyRange.successor(ofPrefix: [1, 2]) == [1, 3])
    #expect(KeyRange.successor(ofPrefix: [1, 0xff, 0xff]) == [2])
    #expect(KeyRange.successor(ofPrefix: [0]) == [1])
  }

  @Test func `a range of parts contains keys that begin with those parts, not keys that begin with their bytes`()
    throws
  {
    func keys(_ range: StorageRange, _ keys: [Compound<String, Int>]) throws -> [String] {
      try keys.filter { contains(try $0.encoded(), range.lower, range.upper) }.map { "\($0)" }
    }
    let all = [("a", 1), ("a", -7), ("a\0b", 1), ("ab", 2), ("", 3), ("b", 4)].map { Compound($0.0, $0.1) }
    #expect(try keys(StorageRange(beginningWith: "a"), all) == [all[0], all[1]].map { "\($0)" })
    #expect(try keys(StorageRange(beginningWith: all[2]), all) == ["\(all[2])"])
    let numbers = [-3, 0, 1, 2, 3, 4]
    func inside(_ range: StorageRange) throws -> [Int] {
      try numbers.filter { contains(try $0.encoded(), range.lower, range.upper) }
    }
    #expect(try inside(StorageRange(1...3)) == [1, 2, 3])
    #expect(try inside(StorageRange(1..<3)) == [1, 2])
    #expect(try inside(StorageRange(2...)) == [2, 3, 4])
    #expect(try inside(StorageRange(..<1)) == [-3, 0])
  }

  @Test(arguments: [1, 2] as [UInt64])
  func `bytes are between a prefix and its successor if they begin with it`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    func bytes() -> [UInt8] { (0..<random.below(5)).map { _ in [0, 1, 0xfe, 0xff][random.below(4)] } }
    for _ in 0..<20_000 {
      let prefix = bytes()
      let other = bytes()
      let isInside = contains(other, prefix, KeyRange.successor(ofPrefix: prefix))
      guard isInside == other.starts(with: prefix) else {
        Issue.record("seed \(seed): \(prefix), \(other)")
        return
      }
    }
  }

  @Test(arguments: [1, 2] as [UInt64])
  func `keys are between parts and their end if they begin with those parts`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let strings = ["", "a", "a\0", "a\0a", "ab", "\0", "\u{10ffff}"]
    for _ in 0..<5_000 {
      let first = Compound(random.below(3), strings[random.below(strings.count)])
      let key = Compound(random.below(3), strings[random.below(strings.count)], KeySamples.string(&random))
      let parts = try first.encoded()
      let isInside = contains(try key.encoded(), parts, KeyRange.end(ofParts: parts))
      guard isInside == (key.values.0 == first.values.0 && key.values.1 == first.values.1) else {
        Issue.record("seed \(seed): \(parts), \(key)")
        return
      }
    }
    // The successor of the bytes would include a string that continues with a zero.
    let parts = try Compound("a").encoded()
    let other = try Compound("a\0", 1).encoded()
    #expect(contains(other, parts, KeyRange.successor(ofPrefix: parts)))
    #expect(!contains(other, parts, KeyRange.end(ofParts: parts)))
  }

  @Test(arguments: [1, 2] as [UInt64])
  func `a string matches a prefix if its normal form begins with the normal form of the prefix`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    func form(_ string: String) -> [UInt8] { NormalForm.composed(Array(string.utf8).rawSpan) }
    for _ in 0..<5_000 {
      let prefix = (0..<random.below(3)).map { _ in KeySamples.pieces[random.below(KeySamples.pieces.count)] }.joined()
      let string = random.oneIn(2) ? KeySamples.string(&random) : prefix + KeySamples.string(&random)
      let parts = try Compound(7).encoded()
      let lower = KeyRange.prefix(ofStrings: prefix, after: parts)
      let bytes = try Compound(7, string).encoded()
      let isInside = contains(bytes, lower, KeyRange.successor(ofPrefix: lower))
      guard isInside == form(string).starts(with: form(prefix)) else {
        Issue.record("seed \(seed): \(prefix) \(string)")
        return
      }
    }
  }

  @Test func `a prefix matches composed scalars, not characters`() throws {
    func finds(_ prefix: String, _ string: String) throws -> Bool {
      let lower = KeyRange.prefix(ofStrings: prefix)
      return contains(try string.encoded(), lower, KeyRange.successor(ofPrefix: lower))
    }
    #expect(try finds("The", "The Hobbit") && finds("", "") && finds("e\u{301}", "\u{e9}t\u{e9}"))
    #expect(try !finds("The", "Th") && !finds("The", "Tie"))
    #expect(try !finds("e", "e\u{301}") && !finds("e", "\u{e9}"))
    #expect(try !finds("하", "한"))
    #expect(try finds("x", "x\u{301}"))
    #expect(!"x\u{301}".hasPrefix("x"))
  }
}
