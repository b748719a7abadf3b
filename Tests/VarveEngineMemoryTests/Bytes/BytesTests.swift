import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Returns random bytes over a small alphabet, so that prefixes are shared and comparisons tie.
private func randomBytes(_ random: inout SeededRandom, upTo count: Int) -> [UInt8] {
  (0..<random.below(count + 1)).map { _ in [0, 1, 0x7f, 0x80, 0xff][random.below(5)] }
}

@Suite struct ByteOrderTests {
  private func trivialOrder(_ left: [UInt8], _ right: [UInt8]) -> Int {
    for (one, other) in zip(left, right) where one != other { return one < other ? -1 : 1 }
    return (left.count - right.count).signum()
  }

  @Test func `order, equality and prefixes agree with a loop over bytes`() {
    for seed in UInt64(0)..<4_000 {
      var random = SeededRandom(seed: seed)
      let left = randomBytes(&random, upTo: 20)
      let right = random.oneIn(3) ? Array(left.prefix(random.below(21))) : randomBytes(&random, upTo: 20)
      left.withByteView { one in
        right.withByteView { other in
          let order = trivialOrder(left, right)
          #expect(one.compare(other).signum() == order, "seed \(seed)")
          #expect(one.equals(other) == (order == 0) && (one == other) == (order == 0), "seed \(seed)")
          #expect((one < other) == (order < 0), "seed \(seed)")
          #expect(one.starts(with: other) == left.starts(with: right), "seed \(seed)")
          let shared = zip(left, right).prefix { $0 == $1 }.count
          #expect(one.sharedPrefixCount(other) == shared, "seed \(seed)")
        }
      }
    }
  }

  @Test func `heads are the next eight bytes, with zeros after the end`() {
    for seed in UInt64(0)..<2_000 {
      var random = SeededRandom(seed: seed)
      let bytes = (0..<random.below(18)).map { _ in UInt8.random(in: 0...255, using: &random) }
      bytes.withByteView { view in
        for offset in 0...bytes.count {
          let padded = Array(bytes.dropFirst(offset).prefix(8)) + [UInt8](repeating: 0, count: 8)
          let expected = padded.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
          #expect(view.head(from: offset) == expected, "seed \(seed) offset \(offset)")
        }
      }
    }
  }

  @Test func `different heads order as the bytes do`() {
    for seed in UInt64(0)..<2_000 {
      var random = SeededRandom(seed: seed)
      let left = randomBytes(&random, upTo: 12)
      let right = randomBytes(&random, upTo: 12)
      left.withByteView { one in
        right.withByteView { other in
          guard one.head() != other.head() else { return }
          #expect((one.head() < other.head()) == (one < other), "seed \(seed)")
        }
      }
    }
  }

  @Test func `views slice, load and copy`() {
    let bytes: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    bytes.withByteView { view in
      #expect(view.slice(2, 5).bytes == [3, 4, 5])
      #expect(view.dropFirst(9).isEmpty)
      #expect(view.load(1, as: UInt32.self) == 0x0504_0302)
      #expect(view.load(8, as: UInt8.self) == 9)
      #expect(view[3] == 4)
    }
    #expect(ByteView().bytes == [] && ByteView().head() == 0)
    #expect([UInt8]().withByteView { $0.compare(ByteView()) } == 0)
  }
}

@Suite struct VarintTests {
  private func encode(_ value: UInt64) -> [UInt8] {
    var writer = ByteWriter()
    writer.append(varint: value)
    return writer.bytes
  }

  private func decode(_ bytes: [UInt8]) throws(EngineError) -> (UInt64, Int) {
    try bytes.withByteView { (view) throws(EngineError) in
      var reader = ByteReader(view)
      return (try reader.varint(), reader.position)
    }
  }

  @Test func `a varint of every width is read back, and has the predicted size`() throws {
    var random = SeededRandom(seed: 1)
    var values: [UInt64] = [0, 1, 127, 128, 16_383, 16_384, .max, .max - 1]
    for shift in 0..<64 { values += [1 << shift, (1 << shift) - 1, random.next() >> shift] }
    for value in values {
      let bytes = encode(value)
      #expect(bytes.count == Varint.size(value) && bytes.count <= Varint.maximumSize, "\(value)")
      let (decoded, size) = try decode(bytes + [0xff])
      #expect(decoded == value && size == bytes.count, "\(value)")
      for cut in 0..<bytes.count { #expect(throws: EngineError.self) { try decode(Array(bytes[..<cut])) } }
    }
  }
}

@Suite struct ByteReaderTests {
  @Test func `a reader returns every value that a writer appended`() throws {
    for seed in UInt64(0)..<300 {
      var random = SeededRandom(seed: seed)
      var writer = ByteWriter(capacity: 1)
      let values = (0..<20).map { _ in (random.below(5), random.next() >> UInt64(random.below(64))) }
      let texts = values.map { _ in randomBytes(&random, upTo: 40) }
      for ((kind, value), text) in zip(values, texts) {
        switch kind {
        case 0: writer.append(integer: UInt8(truncatingIfNeeded: value))
        case 1: writer.append(integer: UInt32(truncatingIfNeeded: value))
        case 2: writer.append(integer: value)
        case 3: writer.append(varint: value)
        default: text.withByteView { writer.append(lengthPrefixed: $0) }
        }
      }
      var reader = ByteReader(writer.view)
      for ((kind, value), text) in zip(values, texts) {
        switch kind {
        case 0: #expect(try reader.integer(UInt8.self) == UInt8(truncatingIfNeeded: value), "seed \(seed)")
        case 1: #expect(try reader.integer(UInt32.self) == UInt32(truncatingIfNeeded: value), "seed \(seed)")
        case 2: #expect(try reader.integer(UInt64.self) == value, "seed \(seed)")
        case 3: #expect(try reader.varint() == value, "seed \(seed)")
        default: #expect(try reader.lengthPrefixed().bytes == text, "seed \(seed)")
        }
      }
      #expect(reader.isAtEnd && reader.remaining == 0, "seed \(seed)")
    }
  }

  @Test func `every read past the end throws with the location, and consumes no byte`() {
    [1, 2, 3].withByteView { view in
      var reader = ByteReader(view, file: "000007.sst", fileOffset: 4_096)
      #expect(errorCode { () throws(EngineError) in _ = try reader.integer(UInt8.self) } == nil)
      do throws(EngineError) {
        _ = try reader.integer(UInt32.self)
        Issue.record("four bytes were read of two")
      } catch {
        #expect(error.code == .corruption && error.file == "000007.sst" && error.offset == 4_097)
      }
      #expect(errorCode { () throws(EngineError) in _ = try reader.bytes(3) } == .corruption)
      #expect(errorCode { () throws(EngineError) in _ = try reader.bytes(-1) } == .corruption)
      #expect(reader.remaining == 2)
    }
  }

  @Test func `a count above its limit or beyond the remaining bytes is corruption`() {
    let code = [0xff, 0xff, 0x03].withByteView { view in
      errorCode { () throws(EngineError) in
        var reader = ByteReader(view)
        _ = try reader.count(limit: 1_000)
      }
    }
    #expect(code == .corruption)
    [200, 1, 7].withByteView { view in
      var reader = ByteReader(view)
      #expect(errorCode { () throws(EngineError) in _ = try reader.lengthPrefixed() } == .corruption)
    }
  }

  @Test func `random bytes never trap`() {
    for seed in UInt64(0)..<3_000 {
      var random = SeededRandom(seed: seed)
      let bytes = (0..<random.below(30)).map { _ in UInt8.random(in: 0...255, using: &random) }
      bytes.withByteView { view in
        var reader = ByteReader(view)
        while true {
          let before = reader.position
          let code = errorCode { () throws(EngineError) in
            switch random.below(4) {
            case 0: _ = try reader.integer(UInt64.self)
            case 1: _ = try reader.varint()
            case 2: _ = try reader.lengthPrefixed()
            default: _ = try reader.bytes(Int(try reader.varint() & 0xff))
            }
          }
          if code != nil || reader.isAtEnd { break }
          if reader.position <= before { Issue.record("no progress, seed \(seed)") }
        }
        #expect(reader.position <= view.count, "seed \(seed)")
      }
    }
  }
}

@Suite struct ByteWriterTests {
  @Test func `a writer grows, pads, patches, cuts and starts again`() {
    var writer = ByteWriter(capacity: 1)
    writer.append([1, 2, 3])
    writer.pad(to: 8)
    #expect(writer.bytes == [1, 2, 3, 0, 0, 0, 0, 0])
    writer.append(integer: UInt16(0x0201))
    writer.patch(integer: UInt16(0xbeef), at: 1)
    writer.append(repeating: 7, count: 100)
    #expect(writer.count == 110 && writer.bytes[..<10] == [1, 0xef, 0xbe, 0, 0, 0, 0, 0, 1, 2])
    writer.truncate(to: 2)
    unsafe writer.appendUninitialized(4) { buffer in
      unsafe buffer[0] = 9
      return 1
    }
    #expect(writer.bytes == [1, 0xef, 9])
    writer.removeAll()
    #expect(writer.bytes == [])
  }
}
