import EngineTestSupport
import Foundation

@testable import ObjectFixtures
@testable import Varve

/// The collections of the model suite: one for each type of keys, including the type's edge values.
struct KeyPools {
  let all: [KeyPool]
  /// The pools of strings, for iterations by prefix.
  let strings: [StringPool]
  /// The names of the collections with their own families.
  static let own = ["own.strings", "own.numbers"]

  /// Creates the pools. The same seed produces the same keys.
  init(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let texts = Self.drawStrings(&random)
    strings = [StringPool("strings", unsorted: texts), StringPool("own.strings", unsorted: texts)]
    let numbers: [Int] = [.min, .min + 1, -65_536, -256, -255, -1, 0, 1, 255, 256, 65_535, .max - 1, .max]
    let drawn = (0..<30).map { _ in
      Int(truncatingIfNeeded: random.next() >> random.below(60)) &* (random.oneIn(2) ? 1 : -1)
    }
    let doubles: [Double] = [
      -.infinity, -.greatestFiniteMagnitude, -1.5, -.leastNonzeroMagnitude, 0, .leastNonzeroMagnitude, 0.1, 0.5, 1,
      .pi, .greatestFiniteMagnitude, .infinity,
    ]
    let bytes: [[UInt8]] = [[], [0], [0, 0], [0, 0xFF], [0, 1], [1], [0xFE], [0xFF], [0xFF, 0], [0xFF, 0xFF]]
    let zero = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    let uuids = [zero] + (0..<40).map { _ in Self.uuid(&random) }
    all =
      strings + [
        OrderedPool("numbers", unsorted: numbers + drawn),
        OrderedPool("own.numbers", unsorted: numbers.map { UInt64(bitPattern: Int64($0)) } + [0, 1, .max]),
        OrderedPool("uuids", unsorted: uuids),
        OrderedPool("dates", unsorted: doubles.map { Date(timeIntervalSinceReferenceDate: $0) } + [.distantPast]),
        OrderedPool("doubles", unsorted: doubles + drawn.map { Double($0) / 7 }),
        TypedPool("bools", [false, true]),
        TypedPool("bytes", bytes.sorted { $0.lexicographicallyPrecedes($1) }.map { Data($0) }),
        TypedPool("optionals", [nil] + Set(numbers).sorted().map { Optional($0) }),
        OrderedPool(
          "pairs",
          unsorted: (0..<40).map { _ in Compound(Int16(random.below(5)) - 2, texts[random.below(texts.count)]) }),
      ]
  }

  private static func drawStrings(_ random: inout SeededRandom) -> [String] {
    let edges = [
      "", "\0", "\0\0", "a", "a\0", "a\0b", "ab", "b", "é", "éa", "e", "ez", "z", "日本", "한글", "😀", "\u{10FFFF}",
      String(repeating: "x", count: 200), "A", "Ä", "ß",
    ]
    let letters: [Character] = ["a", "b", "é", "\0", "z", "語"]
    let drawn = (0..<90).map { _ in
      String((0..<(1 + random.below(4))).map { _ in letters[random.below(letters.count)] })
    }
    return edges + drawn
  }

  private static func uuid(_ random: inout SeededRandom) -> UUID {
    func byte(_ word: UInt64, _ index: Int) -> UInt8 { UInt8(truncatingIfNeeded: word >> UInt64(8 * index)) }
    let (one, two) = (random.next(), random.next())
    return UUID(
      uuid: (
        byte(one, 0), byte(one, 1), byte(one, 2), byte(one, 3), byte(one, 4), byte(one, 5), byte(one, 6), byte(one, 7),
        byte(two, 0), byte(two, 1), byte(two, 2), byte(two, 3), byte(two, 4), byte(two, 5), byte(two, 6), byte(two, 7)
      ))
  }

  private static let coders: [CoderKind] = [.binary, .own(MaskedCoder.self), .json, .own(SecondCoder.self)]

  /// Returns the program's definition when it opens the database.
  ///
  /// Each start may write with another coder, so rows of all coders occur together.
  static func definition(start: Int = 0) throws -> DatabaseDefinition {
    let definition = DatabaseDefinition {
      CollectionDefinition(
        "own.strings", ModelObject.self, key: String.self, coder: coders[start % coders.count], formerCoders: coders,
        storage: .own())
      CollectionDefinition(
        "own.numbers", ModelObject.self, key: UInt64.self, coder: coders[(start + 2) % coders.count],
        formerCoders: coders, storage: .own())
    }
    return definition
  }
}
