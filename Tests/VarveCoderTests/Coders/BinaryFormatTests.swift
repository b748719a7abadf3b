import Foundation
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of the bytes of rows and shapes. They are on disks: a test that fails here means that old rows cannot be
/// read.
struct BinaryFormatTests {
  private func bytes<T: Encodable>(_ value: T) throws -> [UInt8] { try ValueCoder(.binary).encode(value).bytes }

  @Test func `values have the documented bytes`() throws {
    #expect(try bytes(0) == hex("00"))
    #expect(try bytes(63) == hex("3f"))
    #expect(try bytes(64) == hex("8000"))
    #expect(try bytes(1_999) == hex("878f"))
    #expect(try bytes(4_159) == hex("8fff"))
    #expect(try bytes(4_160) == hex("b14010"))
    #expect(try bytes(-1) == hex("9f"))
    #expect(try bytes(-16) == hex("90"))
    #expect(try bytes(-17) == hex("b0ef"))
    #expect(try bytes(-129) == hex("b17fff"))
    #expect(try bytes(32_768) == hex("b2008000"))
    #expect(try bytes(Int.max) == hex("b7ffffffffffffff7f"))
    #expect(try bytes(UInt64.max) == hex("b8ffffffffffffffff"))
    #expect(try bytes(Int128.min) == hex("b900000000 00000000 00000000 00000080"))
    #expect(try bytes(UInt128.max) == hex("baffffffff ffffffff ffffffff ffffffff"))
    #expect(try bytes(UInt128(5)) == hex("05"))
    #expect(try bytes(Int?.none) == hex("c1"))
    #expect(try bytes(false) == hex("c2"))
    #expect(try bytes(true) == hex("c3"))
    #expect(try bytes(Float(1)) == hex("c40000803f"))
    #expect(try bytes(0.1) == hex("c59a9999999999b93f"))
    #expect(try bytes(0.5) == hex("c60000003f"))
    #expect(try bytes("") == hex("40"))
    #expect(try bytes("é") == hex("42c3a9"))
    #expect(try bytes(String(repeating: "a", count: 63)).first == 0x7f)
    #expect(Array(try bytes(String(repeating: "a", count: 64)).prefix(3)) == hex("c74061"))
    #expect(try bytes(Data([1, 2])) == hex("c8020102"))
    #expect(try bytes([1, 2] as [UInt8]) == hex("c8020102"))
    #expect(
      try bytes(UUID(uuid: (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)))
        == hex("c9000102030405060708090a0b0c0d0e0f"))
    #expect(try bytes(Date(timeIntervalSinceReferenceDate: 1)) == hex("ca000000000000f03f"))
    #expect(try bytes(try #require(URL(string: "a:b"))) == hex("cb03613a62"))
    #expect(try bytes(Decimal(string: "-1.5")) == hex("cc042d312e35"))
    #expect(try bytes([Int]()) == hex("a0"))
    #expect(try bytes([1, 2]) == hex("a20102"))
    #expect(Array(try bytes(Array(repeating: 0, count: 16)).prefix(3)) == hex("d01000"))
    #expect(try bytes(["b": 1, "a": 2]) == hex("d302 416102 416201"))
    #expect(try bytes(Zoo.Empty()) == hex("d300"))
  }

  @Test func `a record is encoded as its fields, and the number of its shape is beside the bytes`() throws {
    let shapes = MemoryShapes()
    let coder = ValueCoder(.binary, shapes)
    let row = try coder.encode(Zoo.Point(x: 1, y: 2))
    #expect(row == (1, hex("0102")))
    #expect(try shapes.texts == ["{x, y}"])
    let nested = try coder.encode(Zoo.Wrapper(value: Zoo.Point(x: 3, y: 4)))
    #expect(nested == (2, hex("d2010304")))
    #expect(try shapes.texts == ["{x, y}", "{value}"])
  }

  @Test func `an array of records of one shape stores the shape once, and any other array one per record`() throws {
    let shapes = MemoryShapes()
    let coder = ValueCoder(.binary, shapes)
    let point = Zoo.Point(x: 1, y: 2)
    #expect(try coder.encode([point, point, point]) == (0, hex("d10301 0102 0102 0102")))
    let events = [Zoo.Event.moved(point), .moved(point), .ping, .moved(point)]
    // The shapes: 2 is {_0}, 3 is {moved}, 4 is {ping}.
    #expect(
      try coder.encode(events) == (0, hex("a4 d203d202d2010102 d203d202d2010102 d204d300 d203d202d2010102")))
    #expect(try shapes.texts == ["{x, y}", "{_0}", "{moved}", "{ping}"])
    #expect(try coder.encode([Zoo.Point?.some(point), nil]) == (0, hex("a2 d2010102 c1")))
    #expect(try coder.encode([nil, Zoo.Point?.some(point)]) == (0, hex("a2 c1 d2010102")))
  }

  @Test func `a field without a value keeps its position`() throws {
    let shapes = MemoryShapes()
    let coder = ValueCoder(.binary, shapes)
    let empty = try coder.encode(Zoo.Optionals())
    let full = try coder.encode(Zoo.Optionals.full)
    #expect(empty == (full.shape, Array(repeating: 0xc0, count: 12)))
    #expect(
      try shapes.texts == [
        "{int, string, double, bool, float, int8, uint64, date, uuid, nested, list, twice}", "{x, y}",
      ])
  }

  @Test func `large shape numbers take several bytes before the content`() throws {
    let shapes = try MemoryShapes((0..<20_000).map { ["filler \($0)"] })
    let coder = ValueCoder(.binary, shapes)
    let value = Zoo.Library.sample
    // The first time the shapes are unknown; the second time they are expected.
    for _ in 0..<2 { #expect(try coder.copy(value) == value) }
    let wrapped = try coder.encode(Zoo.Wrapper(value: Zoo.Point(x: 1, y: 2)))
    #expect(wrapped.bytes.count == 1 + 3 + 2)
  }

  @Test func `a shape has the documented bytes`() throws {
    let shape = try Shape(fields: ["id", "é"])
    #expect(shape.bytes == hex("01 02 02 6964 02 c3a9"))
    #expect(try Shape(shape.bytes) == shape)
    #expect(shape.description == "{id, é}")
    for fields in [[], ["a", "a"], [String(repeating: "x", count: 1_025)], (0...1_024).map(String.init)] {
      #expect(throws: DatabaseError.self) { try Shape(fields: fields) }
    }
  }

  @Test func `bytes that are not a shape are refused`() throws {
    let damaged = [
      "", "01", "0100", "010102 61", "010161", "01 02 0161 0161", "01 01 0161 00", "01 01 01 ff", "01 ffff7f",
    ]
    for text in damaged {
      #expect(throws: DatabaseError.self, "\(text)") { try Shape(hex(text)) }
    }
    #expect { try Shape(hex("02 01 0161")) } throws: { ($0 as? DatabaseError)?.code == .unsupportedVersion }
    #expect { try Shape(hex("01 ffffffffffffffffff01")) } throws: { ($0 as? DatabaseError)?.code == .corruption }
  }
}
