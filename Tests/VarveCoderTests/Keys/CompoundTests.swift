import EngineTestSupport
import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests of keys of several parts: they sort by the first part that differs, whatever the parts are.
struct CompoundTests {
  private func compounds<each Value: KeyCodable>(
    _ seed: UInt64, _ count: Int, _ value: (inout SeededRandom) -> Compound<repeat each Value>
  ) -> [Compound<repeat each Value>] {
    var random = SeededRandom(seed: seed)
    return (0..<count).map { _ in value(&random) }
  }

  /// Returns strings of which many are prefixes of others, also up to a zero.
  private func string(_ random: inout SeededRandom) -> String {
    ["", "a", "a\0", "a\0a", "a\0\u{1}", "ab", "\u{e9}", "e", "ex", "\0", "\u{7f}", "\u{10ffff}"][random.below(12)]
  }

  @Test(arguments: [1, 2, 3] as [UInt64])
  func `parts of mixed types sort from the left`(seed: UInt64) throws {
    let mixed = compounds(seed, 500) { random in
      Compound(
        string(&random), random.below(4) - 2, string(&random), Double(random.below(3) - 1), random.oneIn(2) ? 1 : 0)
    }
    #expect(try KeyCheck.firstMisorder(mixed) == nil, "seed \(seed)")
    let dates = compounds(seed, 300) { random in
      Compound(
        Date(timeIntervalSinceReferenceDate: Double(random.below(3)) / 3), KeySamples.uuid(&random),
        KeySamples.integer(&random) as Int8)
    }
    #expect(try KeyCheck.firstMisorder(dates) == nil, "seed \(seed)")
  }

  @Test(arguments: [1, 2, 3] as [UInt64])
  func `optionals, data and Booleans sort inside a compound as they do alone`(seed: UInt64) throws {
    let keys = compounds(seed, 400) { random in
      Compound(
        KeySamples.optional(&random) { self.string(&$0) }, KeySamples.data(&random).prefix(2), random.oneIn(2),
        KeySamples.optional(&random) { $0.below(3) })
    }
    let misorder = try KeyCheck.firstMisorder(keys) { left, right in
      let (first, second) = (left.values, right.values)
      if first.0 != second.0 { return first.0 == nil || (second.0 != nil && (first.0 ?? "") < (second.0 ?? "")) }
      if first.1 != second.1 { return first.1.lexicographicallyPrecedes(second.1) }
      if first.2 != second.2 { return second.2 }
      return (first.3 ?? -1) < (second.3 ?? -1)
    }
    #expect(misorder == nil, "seed \(seed)")
  }

  @Test func `compounds inside of compounds and optionals are read back`() throws {
    let key = Compound(
      Compound("a", 1), Compound<String, Int>?.none, Compound<String, Int?>?.some(Compound("", nil)), Compound(true))
    let bytes = try key.encoded()
    #expect(try type(of: key).decoded(from: bytes) == key)
    #expect(bytes == [0x11, 0x61, 0, 0x31, 1, 0x03, 0x04, 0x11, 0, 0x03, 0x59])
  }

  @Test func `the bytes of a compound begin with those of its leading parts`() throws {
    let long = try Compound(1999, "A", 3).encoded()
    #expect(long.starts(with: try Compound(1999, "A").encoded()))
    #expect(long.starts(with: try 1999.encoded()))
    #expect(try Compound(1999).encoded() == 1999.encoded())
    #expect(throws: DatabaseError.self) { try Compound<Int, String>.decoded(from: long) }
    #expect(throws: DatabaseError.self) { try Compound<Int, String, Int, Int>.decoded(from: long) }
  }

  @Test func `equality, hashing and order go by the parts`() {
    let keys: Set = [Compound("\u{e9}", 1), Compound("e\u{301}", 1), Compound("\u{e9}", 2)]
    #expect(keys.count == 2)
    #expect(Compound(1, "b") < Compound(2, "a") && Compound(1, "a") < Compound(1, "b"))
    #expect(!(Compound(1, "a") < Compound(1, "a")) && !(Compound(2, "a") < Compound(1, "b")))
    #expect((Compound(1, "a")..<Compound(2, "a")).contains(Compound(1, "zz")))
    #expect(Compound(1, "a").values.1 == "a")
  }

  @Test func `a compound is coded as an array`() throws {
    let key = Compound("a", 1, Int?.none)
    let data = try JSONEncoder().encode(key)
    #expect(String(decoding: data, as: UTF8.self) == #"["a",1,null]"#)
    #expect(try JSONDecoder().decode(Compound<String, Int, Int?>.self, from: data) == key)
    #expect(throws: (any Error).self) { try JSONDecoder().decode(Compound<String, String>.self, from: data) }
  }
}
