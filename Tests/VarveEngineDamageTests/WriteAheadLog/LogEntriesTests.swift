import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of records of the kind *entries*, byte by byte.
struct LogEntriesTests {
  private static func record(_ payload: ByteView, first: UInt64, kind: LogFormat.RecordKind = .entries)
    -> LogReader.Record
  {
    LogReader.Record(
      offset: 4096,
      header: LogRecordHeader(
        payloadSize: payload.count, sequence: SequenceNumber(first), durableMark: 0, payloadChecksum: 0, kind: kind),
      payload: payload)
  }

  private static func read(_ bytes: [UInt8], first: UInt64) throws(EngineError) -> [UInt64] {
    try bytes.withByteView { (view) throws(EngineError) in
      var reader = LogEntryReader(record(view, first: first), file: "log")
      var found: [UInt64] = []
      while let (sequence, _) = try reader.next() { found.append(sequence.value) }
      return found
    }
  }

  @Test func `a payload has the documented bytes`() throws {
    var builder = LogEntriesBuilder(capacity: 64)
    [UInt8]("k".utf8).withByteView { key in
      builder.append(SequenceNumber(7), .put, 300, key, key)
      builder.append(SequenceNumber(207), .delete, 0, key, ByteView())
    }
    let bytes = builder.payload.bytes
    #expect(bytes == [0, 1, 0xac, 2, 1, 0x6b, 1, 0x6b, 0xc8, 1, 0, 0, 1, 0x6b])
    #expect(builder.first == SequenceNumber(7))
    #expect(try Self.read(bytes, first: 7) == [7, 207])
  }

  @Test func `entries that do not ascend, and sequences that do not exist, are corruption`() {
    // The second entry has the sequence of the first.
    let twice: [UInt8] = [0, 0, 0, 1, 0x6b, 0, 0, 0, 1, 0x6b]
    #expect(throws: EngineError.self) { try Self.read(twice, first: 7) }
    #expect(throws: EngineError.self) { try Self.read([1, 0, 0, 1, 0x6b], first: SequenceNumber.maximum.value) }
    #expect(throws: EngineError.self) { try Self.read([0, 0, 0, 1, 0x6b], first: .max) }
  }

  @Test func `any bytes are decoded as ascending entries or fail with an error`() {
    let seed: UInt64 = 11
    var random = SeededRandom(seed: seed)
    var (read, refused) = (0, 0)
    for _ in 0..<20_000 {
      let bytes = (0..<random.below(24)).map { _ in UInt8(random.below(random.oneIn(2) ? 4 : 256)) }
      do throws(EngineError) {
        let found = try Self.read(bytes, first: 5)
        #expect(zip(found, found.dropFirst()).allSatisfy { $0 < $1 }, "seed \(seed), \(bytes)")
        read += 1
      } catch {
        #expect(error.code == .corruption || error.code == .unsupportedFormat, "seed \(seed), \(bytes)")
        refused += 1
      }
    }
    #expect(read > 100 && refused > 1_000)
  }

  @Test func `a segment header with a restart is read back, and a header of version 1 is read`() throws {
    var header = LogSegmentHeader(
      number: FileNumber(9), lifeID: 5, predecessor: .init(number: FileNumber(4), lifeID: 6, end: 8_200),
      capacity: 1 << 16, databaseID: 3)
    for isRestart in [false, true] {
      header.isRestart = isRestart
      var writer = ByteWriter(capacity: 4096)
      header.encode(into: &writer)
      #expect(
        try LogSegmentHeader.decode(writer.view, number: FileNumber(9), file: "log") == .valid(header, isIntact: true))
    }
    header.isRestart = false
    var writer = ByteWriter(capacity: 4096)
    header.encode(into: &writer)
    for start in [0, LogFormat.headerCopyOffset] {
      writer.patch(integer: UInt32(1), at: start + 8)
      writer.patch(integer: CRC32C.checksum(writer.view.slice(start, start + 80)), at: start + 80)
    }
    #expect(
      try LogSegmentHeader.decode(writer.view, number: FileNumber(9), file: "log") == .valid(header, isIntact: true))
  }
}
