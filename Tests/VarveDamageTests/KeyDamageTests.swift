import EngineTestSupport
import Foundation
import Testing
import Varve

@testable import ObjectFixtures

/// Tests that arbitrary bytes are either refused, or are the one encoding of the key that they decode to.
struct KeyDamageTests {
  private func keys(_ seed: UInt64) -> [any KeyCodable] {
    var random = SeededRandom(seed: seed)
    var keys: [any KeyCodable] = [
      true, Int?.none, Int??.some(.none), Shelf.poetry, Language.swedish, Int128.min, UInt128.max,
    ]
    for _ in 0..<4 {
      keys += [
        KeySamples.string(&random), KeySamples.pieces[random.below(KeySamples.pieces.count)],
        KeySamples.integer(&random) as Int, KeySamples.integer(&random) as Int128, KeySamples.uuid(&random),
        KeySamples.double(&random), Date(timeIntervalSinceReferenceDate: KeySamples.double(&random)),
        KeySamples.data(&random), Int??.some(.some(KeySamples.integer(&random))),
        Compound(KeySamples.string(&random), random.below(1000), Int?.none),
        Compound(KeySamples.data(&random), KeySamples.string(&random)),
        Location(country: "x\0y", shelf: .science, number: random.below(100)),
        KeySamples.decimal(&random), KeySamples.duration(&random), Descending(KeySamples.string(&random)),
        Compound(Descending(KeySamples.data(&random)), Descending(Int?.some(random.below(1000))), "x\0y"),
        Descending(KeySamples.decimal(&random)),
      ]
    }
    return keys
  }

  private static let types: [any KeyCodable.Type] = [
    String.self, Int.self, Int8.self, UInt64.self, Int128.self, UInt128.self, UUID.self, Date.self, Bool.self,
    Data.self,
    Double.self, Float.self, Int?.self, Int??.self, String?.self, Shelf.self, Language.self, ISBN.self, Location.self,
    Compound<String, Int, Int?>.self, Compound<Data, String>.self, Compound<Int, Compound<Bool, Double>>.self,
    Decimal.self, Duration.self, URL.self, Descending<String>.self, Descending<Int?>.self, Descending<Decimal>.self,
    Compound<Descending<Data>, Descending<Int?>, String>.self, Descending<Compound<String, Int>>.self,
  ]

  /// Returns a description of the error in how `type` reads `bytes`, or `nil` if there is none.
  private func failure<Key: KeyCodable>(_ type: Key.Type, _ bytes: [UInt8]) -> String? {
    do {
      let key = try Key.decoded(from: bytes)
      return try key.encoded() == bytes ? nil : "\(bytes) is not an encoding of \(key)"
    } catch let error as DatabaseError {
      return error.code == .invalidKey || error.code == .keyTypeDiffers ? nil : "\(bytes): \(error)"
    } catch {
      return "\(bytes): \(error)"
    }
  }

  private func failure(_ bytes: [UInt8], _ types: [any KeyCodable.Type] = types) -> String? {
    for type in types {
      if let failure = failure(type, bytes) { return "\(type): \(failure)" }
    }
    let isKey = (try? KeyPart.parts(of: bytes)) != nil
    let isText = !KeyText.text(of: bytes).hasPrefix("<invalid 0x")
    return isKey == isText ? nil : "\(bytes): the parts and the text disagree"
  }

  @Test(arguments: [1, 2] as [UInt64])
  func `every truncation is refused or canonical`(seed: UInt64) throws {
    for key in keys(seed) {
      let bytes = try key.encoded()
      for count in 0..<min(bytes.count, 60) {
        let failure = failure(Array(bytes[..<count]))
        #expect(failure == nil, "seed \(seed)")
      }
    }
  }

  @Test(arguments: [1, 2] as [UInt64])
  func `every change of a single byte is refused or canonical`(seed: UInt64) throws {
    for key in keys(seed) {
      let original = try key.encoded()
      var bytes = original
      for location in original.indices.prefix(40) {
        // All changes are made within tags and lengths, and changes of single bits after them.
        for change in UInt8(1)...255 where location < 6 || change.nonzeroBitCount == 1 {
          bytes[location] = original[location] ^ change
          guard let failure = failure(bytes, [type(of: key)]) else { continue }
          Issue.record("seed \(seed): \(failure)")
          return
        }
        bytes[location] = original[location]
      }
    }
  }

  @Test(arguments: [1, 2, 3, 4] as [UInt64])
  func `random bytes are refused or canonical`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    // Tags, ends, escapes, and pieces of UTF-8 in composed and decomposed form: bytes that pass the first checks.
    let pieces: [[UInt8]] = [
      [0], [0], [0xff], [0, 0xff], [3], [4], [0x10], [0x11], [0x11], [0x20], [0x2f], [0x30], [0x31], [0x38], [0x40],
      [0x50], [0x51], [0x52], [0x58], [0x59], [0x61], [0x80], [0xc3, 0xa9], [0xcc, 0x81], [0xcc], [0xe1, 0x84, 0x80],
      [0xf0, 0x9f, 0x98, 0x80], [0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], [0x80, 0, 0, 0, 0, 0, 0, 0],
    ]
    for _ in 0..<1_500 {
      var bytes: [UInt8] = []
      for _ in 0..<random.below(12) {
        bytes += random.oneIn(6) ? [UInt8(truncatingIfNeeded: random.next())] : pieces[random.below(pieces.count)]
      }
      guard let failure = failure(bytes) else { continue }
      Issue.record("seed \(seed): \(failure)")
      return
    }
  }

  @Test func `endlessly nested optionals are refused before they are too deep`() throws {
    let deep = [UInt8](repeating: 0x04, count: 1_000_000)
    #expect(throws: DatabaseError.self) { try KeyPart.parts(of: deep + [0x30]) }
    #expect(KeyText.text(of: deep + [0x03]).hasPrefix("<invalid 0x0404"))
    let most = [UInt8](repeating: 0x04, count: 64)
    #expect(try KeyPart.parts(of: most + [0x03]).count == 1)
    #expect(throws: DatabaseError.self) { try KeyPart.parts(of: most + [0x04, 0x03]) }
    #expect(failure([0x04, 0x04]) == nil)
  }

  @Test func `noncanonical forms are refused`() {
    let forms: [[UInt8]] = [
      [0x31, 0x00], [0x32, 0x00, 0x01], [0x2f, 0xff], [0x2e, 0xff, 0x00], [0x40] + [UInt8](repeating: 0, count: 16),
      [0x20, 0x7f] + [UInt8](repeating: 0xff, count: 14) + [0xfe],
      [0x50, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], [0x51, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
      [0x50, 0xff, 0xf8, 0, 0, 0, 0, 0, 0], [0x50, 0, 0x07, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
      [0x51, 0xff, 0xf0, 0, 0, 0, 0, 0, 1], [0x11, 0x65, 0xcc, 0x81, 0], [0x11, 0x80, 0], [0x11, 0x61],
      [0x10, 0, 0xff],
    ]
    for bytes in forms {
      #expect(throws: DatabaseError.self, "\(bytes)") { try KeyPart.parts(of: bytes) }
      #expect(failure(bytes) == nil)
    }
  }
}
