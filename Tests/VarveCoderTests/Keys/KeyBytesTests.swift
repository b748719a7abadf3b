import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of the bytes of keys as they are on disk. None of these may ever change.
struct KeyBytesTests {
  private func bytes(_ text: String) -> [UInt8] { text.split(separator: " ").compactMap { UInt8($0, radix: 16) } }

  private func expect<Key: KeyCodable>(_ key: Key, _ text: String) throws {
    let encoded = try key.encoded()
    let decoded = try Key.decoded(from: bytes(text))
    #expect(encoded == bytes(text) && decoded == key, "\(key)")
  }

  @Test func `integers have the documented bytes`() throws {
    try expect(0, "30")
    try expect(1, "31 01")
    try expect(255, "31 ff")
    try expect(256, "32 01 00")
    try expect(-1, "2f fe")
    try expect(-255, "2f 00")
    try expect(-256, "2e fe ff")
    try expect(Int.max, "38 7f ff ff ff ff ff ff ff")
    try expect(Int.min, "28 7f ff ff ff ff ff ff ff")
    try expect(UInt64.max, "38 ff ff ff ff ff ff ff ff")
    try expect(Int128(UInt64.max) + 1, "39 01 00 00 00 00 00 00 00 00")
    try expect(-Int128(UInt64.max), "28 00 00 00 00 00 00 00 00")
    try expect(-Int128(UInt64.max) - 1, "27 fe ff ff ff ff ff ff ff ff")
    try expect(UInt128.max, "40 ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff")
    try expect(Int128.min, "20 7f ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff")
  }

  @Test func `doubles and dates have the documented bytes`() throws {
    try expect(0.0, "50 80 00 00 00 00 00 00 00")
    try expect(1.0, "50 bf f0 00 00 00 00 00 00")
    try expect(Float(1), "50 bf f0 00 00 00 00 00 00")
    try expect(-1.0, "50 40 0f ff ff ff ff ff ff")
    try expect(Double.infinity, "50 ff f0 00 00 00 00 00 00")
    try expect(-Double.infinity, "50 00 0f ff ff ff ff ff ff")
    try expect(Date(timeIntervalSinceReferenceDate: 1), "51 bf f0 00 00 00 00 00 00")
    try expect(Date(timeIntervalSinceReferenceDate: -63_114_076_800), "51 3d d2 9c 37 3a ff ff ff")
  }

  @Test func `strings, data, Booleans, UUIDs, optionals and compounds have the documented bytes`() throws {
    try expect("", "11 00")
    try expect("a", "11 61 00")
    try expect("a\0", "11 61 00 ff 00")
    try expect("\u{e9}", "11 c3 a9 00")
    try expect("\u{65}\u{301}", "11 c3 a9 00")
    try expect(Data(), "10 00")
    try expect(Data([0, 0, 0xff]), "10 00 ff 00 ff ff 00")
    try expect(false, "58")
    try expect(true, "59")
    let uuid: uuid_t = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
    try expect(UUID(uuid: uuid), "52 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f")
    try expect(Int?.none, "03")
    try expect(Int?.some(1), "04 31 01")
    try expect(Int??.some(.none), "04 03")
    try expect(Compound("a", 1, Bool?.none), "11 61 00 31 01 03")
    try expect(Compound<Int, Compound<String, Bool>>(1, Compound("", true)), "31 01 11 00 59")
    try expect(Shelf.science, "31 03")
    try expect(ISBN(rawValue: "x"), "11 78 00")
  }

  @Test func `decimals, durations and URLs have the documented bytes`() throws {
    func decimal(_ text: String) throws -> Decimal { try #require(Decimal(string: text)) }
    try expect(decimal("0"), "53 02")
    try expect(decimal("1"), "53 03 80 01 0b 00")
    try expect(decimal("1.00"), "53 03 80 01 0b 00")
    try expect(decimal("-1"), "53 01 7f fe f4 ff")
    try expect(decimal("12.5"), "53 03 80 02 0d 33 00")
    try expect(decimal("0.0099"), "53 03 7f fe 64 00")
    try expect(decimal("9900"), "53 03 80 04 64 00")
    try expect(decimal("-12.5"), "53 01 7f fd f2 cc ff")
    try expect(
      decimal("12345678901234567890123456789012345678"),
      "53 03 80 26 0d 23 39 4f 5b 0d 23 39 4f 5b 0d 23 39 4f 5b 0d 23 39 4f 00")
    try expect(Duration.zero, "54 80 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00")
    try expect(
      Duration(secondsComponent: 0, attosecondsComponent: 1), "54 80 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01")
    try expect(Duration.seconds(-1), "54 7f ff ff ff ff ff ff ff f2 1f 49 4c 58 9c 00 00")
    try expect(#require(URL(string: "a:b")), "11 61 3a 62 00")
  }

  @Test func `descending parts have the documented bytes`() throws {
    try expect(Descending(0), "cf")
    try expect(Descending(256), "cd fe ff")
    try expect(Descending("a"), "ee 9e ff ff")
    try expect(Descending("a\0"), "ee 9e ff 00 ff ff")
    try expect(Descending(""), "ee ff ff")
    try expect(Descending(Data([0xff])), "ef 00 ff ff")
    try expect(Descending(Int?.none), "fc")
    try expect(Descending(Int?.some(1)), "fb ce fe")
    try expect(Descending(true), "a6")
    try expect(Descending(1.0), "af 40 0f ff ff ff ff ff ff")
    try expect(Descending(Decimal(-1)), "ac fe 80 01 0b 00")
    try expect(Descending(Descending("a")), "11 61 00")
    try expect(Compound("a", Descending("b"), 1), "11 61 00 ee 9d ff ff 31 01")
    try expect(Descending(Compound("a", 1)), "ee 9e ff ff ce fe")
  }

  @Test func `the tags differ from each other, from the terminator of strings and from its escape`() {
    let tags: [UInt8] = [
      KeyTag.null, KeyTag.some, KeyTag.data, KeyTag.string, KeyTag.double, KeyTag.date, KeyTag.uuid, KeyTag.false,
      KeyTag.true, KeyTag.decimal, KeyTag.duration,
    ]
    let ascending = tags + Array(KeyTag.integers)
    let all = ascending + ascending.map { ~$0 }
    #expect(Set(all).count == all.count)
    #expect(!all.contains(KeyTag.terminator) && !all.contains(KeyTag.escape))
    #expect((0...UInt8.max).filter { KeyTag.kind($0) != nil } == all.sorted())
  }

  @Test func `an encoder that is used again keeps its memory`() throws {
    var encoder = KeyEncoder(capacity: 64)
    func address() -> UInt { unsafe encoder.bytes.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) } }
    let first = address()
    for number in 0..<100 {
      encoder.removeAll()
      try encoder.encode(Compound("title \(number)", number, Date(timeIntervalSinceReferenceDate: 1)))
      encoder.append(uuid: UUID())
      #expect(address() == first)
    }
    #expect(encoder.bytes.count == 10 + 2 + 9 + 17)
  }
}
