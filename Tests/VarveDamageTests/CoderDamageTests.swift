import EngineTestSupport
import Foundation
import Synchronization
import Testing

@testable import ObjectFixtures
@testable import Varve

/// Tests of rows and shapes with damaged bytes: they give errors, or other values, but never crash or take much
/// memory.
struct CoderDamageTests {
  private static let shapes = MemoryShapes()
  private static let coder = ValueCoder(.binary, shapes)

  /// A row, and a function that reads it as its type.
  private struct Sample: Sendable {
    let name: String
    let row: (shape: UInt32, bytes: [UInt8])
    let read: @Sendable ((shape: UInt32, bytes: [UInt8])) throws -> Void

    init<T: Codable & Sendable>(_ value: T) throws {
      name = "\(T.self)"
      row = try coder.encode(value)
      read = { _ = try coder.decode(T.self, $0) }
    }
  }

  private static func samples() throws -> [Sample] {
    [
      try Sample(Zoo.Book.sample(8)), try Sample(Zoo.Everything.sample), try Sample(Zoo.Expression.sample),
      try Sample(Zoo.Event.all), try Sample([Zoo.Point(x: 1, y: 70_000), Zoo.Point(x: 2, y: -5)]),
      try Sample(["a": [1, 2], "b": []]), try Sample(Int?.none), try Sample([Zoo.Empty()]),
    ]
  }

  /// Reads damaged bytes in every way. Any error must be one of the database.
  private static func read(_ sample: Sample, _ bytes: [UInt8], _ shape: UInt32, _ location: @autoclosure () -> String) {
    let row = (shape, bytes)
    for read in [sample.read, { _ = try coder.decode(Zoo.Payload.self, $0) }, { _ = try coder.untyped($0).json }] {
      do {
        try read(row)
      } catch {
        if !(error is DatabaseError) { Issue.record("\(sample.name), \(location()): \(error)") }
      }
    }
  }

  @Test func `every truncation of a row is detected by its type and by the untyped reader`() throws {
    for sample in try Self.samples() {
      for count in 0..<sample.row.bytes.count {
        let row = (sample.row.shape, Array(sample.row.bytes[..<count]))
        #expect(throws: DatabaseError.self, "\(sample.name), \(count) bytes") { try sample.read(row) }
        #expect(throws: DatabaseError.self, "\(sample.name), \(count) bytes") { try Self.coder.untyped(row) }
      }
      let longer = (sample.row.shape, sample.row.bytes + [0])
      #expect(throws: DatabaseError.self, "\(sample.name)") { try sample.read(longer) }
      #expect(throws: DatabaseError.self, "\(sample.name)") { try Self.coder.untyped(longer) }
    }
  }

  @Test func `every flipped bit and every tag substituted for a byte of a row is an error or a value`() throws {
    let tags: [UInt8] = [0x00, 0xa1, 0xc0, 0xc1, 0xc8, 0xd0, 0xd1, 0xd2, 0xd3, 0xff]
    for sample in try Self.samples() {
      for index in sample.row.bytes.indices {
        for value in (0..<8).map({ sample.row.bytes[index] ^ 1 << UInt8($0) }) + tags {
          var bytes = sample.row.bytes
          bytes[index] = value
          Self.read(sample, bytes, sample.row.shape, "byte \(index) is \(value)")
        }
      }
    }
  }

  @Test func `damage is an error even for types that try alternatives`() throws {
    struct Careless: Decodable {
      enum CodingKeys: CodingKey { case a, b }
      init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        _ = try? container.decode(String.self, forKey: .a)
        _ = container.contains(.b)
        _ = try? container.decode([String: Int].self, forKey: .b)
      }
    }
    let coder = ValueCoder(.binary, try MemoryShapes([["a", "b"]]))
    _ = try coder.decode(Careless.self, (1, hex("4161 d301416101")))
    // The damages are invalid text, too few bytes, too many bytes, and an undefined tag.
    for bytes in ["41ff 01", "4161", "4161 d301416101 00", "4161 d3014161", "4161 ff", "4161 d301ff01"] {
      #expect(coderFault { _ = try coder.decode(Careless.self, (1, hex(bytes))) }?.kind == .dataCorrupted, "\(bytes)")
    }
  }

  @Test func `a number that is encoded longer than necessary is corrupt, in rows and in shapes`() throws {
    let coder = ValueCoder(.binary, try MemoryShapes([["a", "b"]]))
    // The numbers are the size of a string, the counts of an array and of a map, and the number of a shape.
    for (right, wrong) in [
      ("c70161", "c7810061"), ("d00105", "d0810005"), ("d301416105", "d38100416105"), ("d2010102", "d281000102"),
    ] {
      _ = try coder.untyped((0, hex(right)))
      #expect(coderFault { _ = try coder.untyped((0, hex(wrong))) }?.code == .corruption, "\(wrong)")
      #expect(coderFault { _ = try coder.decode(UntypedValue.self, (0, hex(wrong))) }?.code == .decodingFailed)
    }
    #expect(try Shape(hex("01 01 01 61")).fields == ["a"])
    for wrong in ["01 8100 01 61", "01 01 8100 61"] {
      #expect(coderFault { _ = try Shape(hex(wrong)) }?.code == .corruption, "\(wrong)")
    }
  }

  @Test func `a row with another shape is an error or a value`() throws {
    for sample in try Self.samples() {
      for shape in 0...UInt32(Self.shapes.count + 1) { Self.read(sample, sample.row.bytes, shape, "shape \(shape)") }
    }
  }

  @Test(arguments: [1, 2, 3, 4] as [UInt64])
  func `random bytes are errors or values`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let samples = try Self.samples()
    // Tags of containers and numbers of shapes are drawn more often than others.
    let likely = hex("a1 a2 af c0 c1 c7 c8 d0 d1 d2 d3 01 02 03 04 41 ff 80")
    for round in 0..<TestScale.count(3_000) {
      let bytes = (0..<random.below(60)).map { _ in
        random.oneIn(3) ? UInt8(truncatingIfNeeded: random.next()) : likely[random.below(likely.count)]
      }
      let sample = samples[random.below(samples.count)]
      let shape = UInt32(random.below(Self.shapes.count + 2))
      Self.read(sample, bytes, shape, "seed \(seed), round \(round): \(bytes)")
    }
  }

  @Test func `counts and sizes that exceed the bytes are refused before memory is allocated`() throws {
    let shapes = MemoryShapes()
    let coder = ValueCoder(.binary, shapes)
    _ = try coder.encode([Zoo.Point(x: 1, y: 2)])
    for size in ["ffffffff0f", "ffffffffffffffff7f", "ffffffffffffffffff01", "ffffffffffffffffffff01"] {
      for tag: UInt8 in [0xc7, 0xc8, 0xcb, 0xcc, 0xd0, 0xd1, 0xd2, 0xd3] {
        let bytes = [tag] + hex(size) + [1, 1, 1]
        #expect(throws: DatabaseError.self) { try coder.untyped((0, bytes)) }
        #expect(throws: DatabaseError.self) { try coder.decode([Zoo.Point].self, (0, bytes)) }
        #expect(throws: DatabaseError.self) { try coder.decode(String.self, (0, bytes)) }
        #expect(throws: DatabaseError.self) { try coder.decode(Data.self, (0, bytes)) }
        #expect(throws: DatabaseError.self) { try coder.decode([String: Int].self, (0, bytes)) }
        #expect(throws: DatabaseError.self) { try coder.decode(Decimal.self, (0, bytes)) }
        // The bytes are skipped as a field that the type does not have.
        #expect(throws: DatabaseError.self) { try coder.decode(Zoo.Wrapper<Int?>.self, (1, bytes + [1])) }
      }
    }
    // The count fits the size, but the records do not.
    #expect(throws: DatabaseError.self) { try coder.decode([Zoo.Point].self, (0, hex("d103 01 0102 0102"))) }
    #expect(throws: DatabaseError.self) { try coder.decode([Zoo.Point].self, (0, hex("d104 01 0102 0102"))) }
    #expect(throws: DatabaseError.self) { try coder.untyped((0, hex("d103 01 0102 0102"))) }
  }

  @Test func `text that is not UTF-8 is corrupt`() throws {
    // Some of these are sequences whose repair has the same number of bytes.
    for text in ["41ff", "42c328", "43f09f98", "43eda080", "42c080", "c701ff", "44f4908080"] {
      #expect(coderFault { _ = try Self.coder.decode(String.self, (0, hex(text))) }?.kind == .dataCorrupted, "\(text)")
      #expect(throws: DatabaseError.self) { try Self.coder.untyped((0, hex(text))) }
    }
    #expect(try Self.coder.decode(String.self, (0, hex("43efbfbd"))) == "\u{fffd}")
  }

  /// A type that requests fields, and assumes defaults for missing ones.
  private struct Lenient: Decodable {
    var count = 0
    init(from decoder: any Decoder) throws {
      guard let fields = try? decoder.container(keyedBy: PathKey.self) else { return }
      count = fields.allKeys.count + (fields.contains(PathKey(stringValue: "a")) ? 1 : 0)
    }
  }

  @Test func `damage in keys is found even if they are not read further`() throws {
    // The rows are a map of one entry whose key is not UTF-8, and one of two entries whose first key is valid.
    for row in ["d301 41ff 05", "d302 4161 01 41ff 05"] {
      #expect(throws: DatabaseError.self) { try Self.coder.decode([String: Int].self, (0, hex(row))) }
      #expect(throws: DatabaseError.self) { try Self.coder.decode(Lenient.self, (0, hex(row))) }
      #expect(throws: DatabaseError.self) { try Self.coder.decode([Lenient].self, (0, hex("a1" + row))) }
    }
    #expect(try Self.coder.decode(Lenient.self, (0, hex("d301 4161 05"))).count == 2)
  }

  /// A registry whose reads of shapes fail once.
  private final class Flaky: ShapeRegistry {
    let shapes = MemoryShapes()
    let fails = Mutex(false)
    func number(of shape: Shape) throws -> UInt32 { try shapes.number(of: shape) }
    func shape(_ number: UInt32) throws -> Shape {
      let failsNow = fails.withLock { fails in
        defer { fails = false }
        return fails
      }
      if failsNow { throw DatabaseError(.storage, "the disk does not answer") }
      return try shapes.shape(number)
    }
  }

  @Test func `a shape that could not be read is a storage error, never an empty value`() throws {
    let shapes = Flaky()
    let row = try ValueCoder(.binary, binary: BinaryCoder(shapes: shapes)).encode(["a": Zoo.Point(x: 1, y: 2)])
    func read<T: Decodable>(_ type: T.Type) -> DatabaseError.Code? {
      // A new coder has no shapes yet.
      let other = ValueCoder(.binary, binary: BinaryCoder(shapes: shapes))
      shapes.fails.withLock { $0 = true }
      return errorCode { _ = try other.decode(type, row) }
    }
    #expect(read([String: Zoo.Point].self) == .storage)
    #expect(read(Lenient.self) == .storage)
    #expect(read([String: Int].self) == .storage)
  }

  @Test func `text of which only the beginning is a decimal number is corrupt`() throws {
    let texts = [
      "", "-", ".", "1.", ".5", "00", "-01", "1 apple", "-91.0E", "1e3", "0x10", "+1", "inf", "nan", "1.2.3",
    ]
    for text in texts {
      let row: (shape: UInt32, bytes: [UInt8]) = (0, [ValueTag.decimal, UInt8(text.utf8.count)] + text.utf8)
      #expect(coderFault { _ = try Self.coder.decode(Decimal.self, row) }?.kind == .dataCorrupted, "\(text)")
      #expect(coderFault { _ = try Self.coder.decode(Double.self, row) }?.kind == .dataCorrupted, "\(text)")
      #expect(throws: DatabaseError.self, "\(text)") { try Self.coder.untyped(row) }
    }
  }

  @Test func `every decimal number is read as it was written`() throws {
    var random = SeededRandom(seed: 12)
    for exponent in -128...127 {
      for significand in [0, 1, -1, 10, -910, Int.max, Int.min, Int(truncatingIfNeeded: random.next())] {
        let sign: FloatingPointSign = significand < 0 ? .minus : .plus
        let value = Decimal(sign: sign, exponent: exponent, significand: Decimal(significand.magnitude))
        guard !value.isNaN else { continue }
        let row = try Self.coder.encode(value)
        #expect(try Self.coder.decode(Decimal.self, row) == value)
        #expect(try Self.coder.untyped(row) == .decimal(value.description))
      }
    }
    #expect(try Self.coder.decode(Decimal.self, Self.coder.encode(Decimal.nan)).isNaN)
  }

  @Test func `every truncation and every flipped bit of a shape is an error or a shape`() throws {
    let bytes = try Shape(fields: ["id", "title", "é", ""]).bytes
    for count in 0..<bytes.count {
      #expect(throws: DatabaseError.self) { try Shape(Array(bytes[..<count])) }
    }
    for bit in 0..<bytes.count * 8 {
      var damaged = bytes
      damaged[bit / 8] ^= 1 << UInt8(bit % 8)
      do {
        let shape = try Shape(damaged)
        #expect(!shape.fields.isEmpty && shape.bytes == damaged)
      } catch {
        #expect(error is DatabaseError)
      }
    }
    var random = SeededRandom(seed: 9)
    for _ in 0..<TestScale.count(5_000) {
      let bytes = [1] + (0..<random.below(12)).map { _ in UInt8(random.below(random.oneIn(3) ? 256 : 5)) }
      do { _ = try Shape(bytes) } catch { #expect(error is DatabaseError) }
    }
  }
}
