@testable import VarveEngine

/// Builds valid inputs of the log: one or two segments of a chain.
enum LogInputs {
  static func build(_ random: inout SeededRandom) -> [UInt8] {
    let lifeID = random.next()
    var sequence: UInt64 = 1
    let first = segment(
      LogTarget.first, lifeID: lifeID, predecessor: nil, isRestart: false, sequence: &sequence, &random)
    let end = UInt64(first.count)
    let hasRestart = random.oneIn(4)
    let isCut = hasRestart || random.oneIn(4)
    var input = ByteWriter()
    input.append(integer: UInt32(first.count))
    input.append(integer: UInt32(isCut ? end : 0))
    input.append(first)
    if !random.oneIn(4) {
      input.append(
        segment(
          LogTarget.second, lifeID: random.next(),
          predecessor: LogSegmentHeader.Predecessor(number: LogTarget.first, lifeID: lifeID, end: end),
          isRestart: hasRestart, sequence: &sequence, &random))
    }
    return input.bytes
  }

  private static func segment(
    _ number: FileNumber, lifeID: UInt64, predecessor: LogSegmentHeader.Predecessor?, isRestart: Bool,
    sequence: inout UInt64, _ random: inout SeededRandom
  ) -> [UInt8] {
    var writer = ByteWriter()
    LogSegmentHeader(
      number: number, lifeID: lifeID, predecessor: predecessor, capacity: 64 << 10, databaseID: 42,
      isRestart: isRestart
    ).encode(into: &writer)
    for _ in 0..<random.below(8) {
      let durableMark = random.oneIn(3) ? UInt64(writer.count) : 0
      let (kind, payload, next) = payload(sequence, &random)
      append(kind, payload, sequence: sequence, durableMark: durableMark, lifeID: lifeID, to: &writer)
      sequence = next
    }
    append(.end, [], sequence: sequence, durableMark: UInt64(writer.count), lifeID: lifeID, to: &writer)
    return writer.bytes
  }

  /// Returns the kind and the payload of a record, and the sequence number after it.
  private static func payload(
    _ sequence: UInt64, _ random: inout SeededRandom
  ) -> (LogFormat.RecordKind, [UInt8], UInt64) {
    let count = random.below(6)
    guard random.oneIn(3) else {
      var writer = ByteWriter()
      FuzzCorpus.appendEntries(count, to: &writer, &random)
      return (.batch, writer.bytes, sequence + UInt64(max(count, 1)))
    }
    var builder = LogEntriesBuilder(capacity: 64)
    var next = sequence
    for _ in 0..<count {
      FuzzCorpus.key(&random).withByteView {
        builder.append(SequenceNumber(next), .put, FamilyID(UInt32(1)), $0, $0)
      }
      next += UInt64(1 + random.below(300))
    }
    return (.entries, builder.payload.bytes, next)
  }

  private static func append(
    _ kind: LogFormat.RecordKind, _ payload: [UInt8], sequence: UInt64, durableMark: UInt64, lifeID: UInt64,
    to writer: inout ByteWriter
  ) {
    let start = writer.count
    let seed = CRC32C.seed(lifeID, UInt64(start))
    writer.append(integer: UInt32(0))
    writer.append(integer: UInt32(payload.count))
    writer.append(integer: sequence)
    writer.append(integer: durableMark)
    writer.append(integer: payload.withByteView { CRC32C.extend(seed, $0) })
    writer.append(integer: UInt32(kind.rawValue))
    writer.patch(integer: CRC32C.extend(seed, writer.view.dropFirst(start + 4)), at: start)
    writer.append(payload)
    writer.pad(to: 8)
  }
}
