import Foundation

@testable import Varve

/// Builds valid inputs of the object database's targets with its own writers.
enum ObjectInputs {
  static func key(_ random: inout SeededRandom) -> [UInt8] {
    let key: any KeyCodable =
      switch random.below(12) {
      case 0: string(&random)
      case 1: integer(&random)
      case 2: Int128(integer(&random)) << Int128(random.below(64))
      case 3: FuzzNode.randomUUID(&random)
      case 4: Date(timeIntervalSinceReferenceDate: Double(random.below(1 << 30)))
      case 5: Double(integer(&random)) / 8
      case 6: Data(FuzzCorpus.bytes(random.below(20), &random))
      case 7: random.oneIn(2) ? String??.some(.none) : String??.some(.some(string(&random)))
      case 8: KeyTarget.Shelf.allCases[random.below(3)]
      case 9: KeyTarget.Location(country: string(&random), number: random.oneIn(2) ? nil : integer(&random))
      case 10: Compound(string(&random), integer(&random), random.oneIn(2) ? nil : Date(timeIntervalSince1970: 0.5))
      default: Compound(Data(FuzzCorpus.bytes(random.below(9), &random)), Compound(random.oneIn(2), -0.5))
      }
    return built { try key.encoded() }
  }

  private static func string(_ random: inout SeededRandom) -> String {
    let letters = ["a", "z", "é", "e\u{301}", "👋", "\0", "한", "\u{1100}", "ß"]
    return (0..<random.below(9)).map { _ in letters[random.below(letters.count)] }.joined()
  }

  private static func integer(_ random: inout SeededRandom) -> Int {
    Int(truncatingIfNeeded: random.next()) >> random.below(64)
  }

  static func rowHeader(_ random: inout SeededRandom) -> [UInt8] {
    let version = UInt32(truncatingIfNeeded: random.next() >> UInt64(random.below(64)))
    let shape = UInt32(truncatingIfNeeded: random.next() >> UInt64(random.below(64)))
    let coder = random.oneIn(3) ? UInt8(random.below(256)) : nil
    var row: [UInt8] = [UInt8(random.below(2))]
    if row == [0] {
      let id = RowID(random.next() >> UInt64(random.below(64)))
      RowHeader(hasMetadata: random.oneIn(2), coder: coder, version: version, shape: shape, id: id).append(to: &row)
    } else {
      RowHeader.appendMetadata(coder: coder, version: version, shape: shape, to: &row)
    }
    return row + FuzzCorpus.bytes(random.below(6), &random)
  }

  static func value(_ random: inout SeededRandom) -> [UInt8] {
    while true {
      let shapes = FuzzShapes()
      let coder = ValueCoder(.binary, binary: BinaryCoder(shapes: shapes))
      let (shape, row) = built { try encode(&random, coder) }
      // The input can contain at most this many shapes and bytes.
      guard shapes.all.count < 8, shapes.all.allSatisfy({ $0.count < 256 }) else { continue }
      var input = [UInt8(shapes.all.count)]
      for shape in shapes.all { input += [UInt8(shape.count)] + shape }
      return input + [UInt8(shape)] + row
    }
  }

  private static func encode(
    _ random: inout SeededRandom, _ coder: ValueCoder
  ) throws -> (shape: UInt32, bytes: [UInt8]) {
    let loose = ValueTypes.Loose(
      a: integer(&random), b: string(&random), c: [ValueTypes.Loose(b: "x"), ValueTypes.Loose(d: 0.5)], d: nil,
      name: [string(&random): 7], x1: Data([1, 0, 255]), x2: Date(timeIntervalSinceReferenceDate: 1e8))
    switch random.below(8) {
    case 0: return try coder.encode(loose)
    case 1: return try coder.encode((0..<random.below(6)).map { _ in loose })
    case 2:
      let inner = ValueTypes.Strict.Inner(
        x1: FuzzNode.randomUUID(&random), x2: URL(string: "https://example.org/a?b"), name: true)
      return try coder.encode(ValueTypes.Strict(b: string(&random), a: integer(&random), d: inner))
    case 3:
      return try coder.encode(ValueTypes.Choice.b(name: string(&random), c: [.d, .a(integer(&random)), .d]))
    case 4: return try coder.encode(Decimal(integer(&random)) / 100)
    case 5: return try coder.encode(Dictionary([(1, string(&random)), (integer(&random), "x")]) { first, _ in first })
    default: return try coder.encode(FuzzNode.random(&random))
    }
  }

  static func feed(_ random: inout SeededRandom) -> [UInt8] {
    switch random.below(4) {
    case 0:
      var record = FeedRecord()
      record.isOff = random.oneIn(4)
      record.trimmedThrough = CommitVersion(UInt64(random.below(1_000)))
      for number in 0..<random.below(5) {
        let last = record.closedThrough.number + 1 + UInt64(random.below(1_000))
        record.segments.append(
          FeedRecord.Segment(last: CommitVersion(last), size: random.next() >> 9, time: Int64(number)))
      }
      return [1] + record.bytes
    case 1: return [2] + BigEndian.bytes(random.next() >> 8) + BigEndian.bytes(UInt32(random.below(9)))
    default: return [0] + entry(&random)
    }
  }

  private static func entry(_ random: inout SeededRandom) -> [UInt8] {
    let states: [UInt8] = [2, 3, 4, 8, 12, 13]
    var bytes: [UInt8] = [FeedEntry.format, UInt8(random.below(16))]
    func append(_ content: [UInt8]) {
      Varint.append(UInt64(content.count), to: &bytes)
      bytes += content
    }
    Varint.append(random.next() >> UInt64(random.below(64)), to: &bytes)
    Varint.append(UInt64(random.below(1 << 40)), to: &bytes)
    if bytes[1] & FeedEntry.hasLabel != 0 { append(Array(string(&random).utf8)) }
    if bytes[1] & FeedEntry.hasCustom != 0 { append(FuzzCorpus.bytes(random.below(30), &random)) }
    let count = random.below(4)
    Varint.append(UInt64(count), to: &bytes)
    for _ in 0..<count {
      let rows = random.below(6)
      Varint.append(random.next() >> UInt64(32 + random.below(32)), to: &bytes)
      Varint.append(UInt64(rows) << 1 | UInt64(random.below(2)), to: &bytes)
      for _ in 0..<rows {
        bytes.append(states[random.below(states.count)])
        append(FuzzCorpus.key(&random))
      }
    }
    return bytes
  }

  static func catalog(_ random: inout SeededRandom) -> [UInt8] {
    let kind = random.below(5)
    let number = UInt32(truncatingIfNeeded: random.next())
    let content: [UInt8]
    switch kind {
    case 0:
      let type = ["string", "int", "compound(int,optional(string))"][random.below(3)]
      let writer = random.oneIn(3) ? UInt8(random.below(40)) : nil
      content =
        CollectionRecord(
          id: number, coder: UInt8(random.below(5)), writer: writer, isOwn: random.oneIn(2), keyType: type
        ).bytes
    case 1:
      let position = FeedPosition(version: 1 + random.next() >> 8, part: number & 7, step: number >> 9)
      let states: [ExtensionRecord.State] = [
        .building(watermark: FuzzCorpus.bytes(random.below(20), &random)), .ready, .stale(nil), .stale(position),
        .ingesting(
          ExtensionRecord.IngestionMark(
            position: position, runCount: 1 + number & 0xFF, watermark: FuzzCorpus.bytes(random.below(20), &random))),
      ]
      var record = ExtensionRecord(
        number: number, state: states[random.below(5)], layout: UInt32(random.below(9)),
        versionTag: string(&random), kind: string(&random), scope: string(&random))
      for _ in 0..<random.below(4) {
        var part = ExtensionRecord.Part(PartDefinition(string(&random), random.oneIn(2) ? .values : .counters(.sum)))
        part.isVolatile = random.oneIn(4)
        if random.oneIn(2) { part.watermark = FuzzCorpus.bytes(random.below(20), &random) }
        record.parts.append(part)
      }
      content = record.bytes
    case 2:
      let settings: [ExtensionSetting] = [
        .bool(random.oneIn(2)), .integer(integer(&random)), .double(Double(integer(&random)) / 8),
        .string(string(&random)), .data(FuzzCorpus.bytes(random.below(20), &random)),
      ]
      content = settings[random.below(5)].bytes
    case 3:
      let names = (0...random.below(6)).map { "\($0)" + string(&random) }
      content = built { try Shape(fields: names).bytes }
    default: content = Array(string(&random).utf8)
    }
    return [UInt8(kind)] + content
  }

  static func json(_ random: inout SeededRandom) -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = random.oneIn(2) ? [.prettyPrinted, .sortedKeys] : [.sortedKeys]
    return built { [UInt8](try encoder.encode(FuzzNode.random(&random))) }
  }

  /// Returns a property list. It is not written by Foundation's encoder, which orders the entries of dictionaries
  /// independently of the seed.
  static func propertyList(_ random: inout SeededRandom) -> [UInt8] {
    var writer = PropertyListWriter()
    let top = writer.add(FuzzNode.random(&random))
    return writer.bytes(top: top)
  }

  private static func built<R>(_ body: () throws -> R) -> R {
    do {
      return try body()
    } catch {
      fatalError("an input can't be built: \(error)")
    }
  }
}
