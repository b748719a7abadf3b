@testable import VarveEngine

/// The target for the log.
///
/// The input is: size of the first segment (4), the position at which an earlier recovery cut it, or 0 for none (4),
/// then two segments with the numbers 7 and 8, one after the other. The second may be missing.
enum LogTarget {
  static let headerSize = 8
  static let first = FileNumber(7)
  static let second = FileNumber(8)

  static func read(_ input: ByteView) throws {
    var reader = ByteReader(input)
    let size = Int(try reader.integer(UInt32.self))
    let cut = UInt64(try reader.integer(UInt32.self))
    let segments = try reader.bytes(reader.remaining)
    let middle = min(size, segments.count)
    let files = [
      BytesFile(segments.slice(0, middle), path: "db/000007.log"),
      BytesFile(segments.dropFirst(middle), path: "db/000008.log"),
    ]
    for (file, number) in zip(files, [first, second]) { try dump(file, number) }
    // The life id is the one that the header names, so that the cut belongs to this life.
    let lifeID = middle >= 32 ? segments.load(24, as: UInt64.self) : 0
    try recover(files, cut: cut == 0 ? nil : LogRecovery.Cut(lifeID: lifeID, end: cut))
  }

  /// Dumps everything that can be shown of a segment. Damage is an error, as for every read.
  private static func dump(_ file: BytesFile, _ number: FileNumber) throws {
    var lineCount = 0
    do throws(EngineError) {
      try LogDump.render(file, number: number, name: file.path, verify: true) { _ in lineCount += 1 }
    } catch {
      try require(
        error.code == .corruption || error.code == .unsupportedFormat, "a dump throws \(error)")
      return
    }
    try require(lineCount > 0, "a dump without a line")
  }

  private static func recover(_ files: [BytesFile], cut: LogRecovery.Cut?) throws {
    let recovery = LogRecovery(
      directory: "db", fileSystem: BytesFileSystem(files), numbers: [first, second], oldest: first,
      cuts: cut.map { [first: $0] } ?? [:])
    var recordCount = 0
    var failure: (any Error)?
    let outcome = try recovery.replay { (record, number) throws(EngineError) in
      recordCount += 1
      var entries: [BatchReader.Entry] = []
      var sequences: [SequenceNumber] = []
      var reader = LogEntryReader(record, file: "log")
      while let (sequence, entry) = try reader.next() {
        sequences.append(sequence)
        entries.append(entry)
      }
      do {
        try check(sequences, entries, record)
      } catch {
        failure = failure ?? error
      }
    }
    if let failure { throw failure }
    try require(outcome.recordCount == recordCount, "\(recordCount) records of \(outcome.recordCount) were handed out")
    for link in outcome.chain {
      try require(
        link.durableEnd <= link.end && link.end <= link.capacity,
        "segment \(link.number) ends at \(link.end), durable to \(link.durableEnd), of \(link.capacity)")
    }
  }

  private static func check(
    _ sequences: [SequenceNumber], _ entries: [BatchReader.Entry], _ record: LogReader.Record
  ) throws {
    for (index, sequence) in sequences.enumerated() {
      try require(sequence <= .maximum, "a sequence above 56 bits")
      if index > 0 { try require(sequences[index - 1] < sequence, "sequences that don't ascend") }
    }
    if record.header.kind == .batch {
      try BatchTarget.rewrite(entries)
    } else {
      try rewrite(sequences, entries)
    }
  }

  /// Checks that entries that are logged again are read as the same entries with the same sequence numbers.
  private static func rewrite(_ sequences: [SequenceNumber], _ entries: [BatchReader.Entry]) throws {
    var builder = LogEntriesBuilder(capacity: 64)
    for (sequence, entry) in zip(sequences, entries) {
      builder.append(sequence, entry.kind, entry.family, entry.key, entry.value)
    }
    guard let firstSequence = builder.first else { return }
    let header = LogRecordHeader(
      payloadSize: builder.payload.count, sequence: firstSequence, durableMark: 0, payloadChecksum: 0, kind: .entries)
    let record = LogReader.Record(offset: 0, header: header, payload: builder.payload.view)
    var reader = LogEntryReader(record, file: "log")
    for (index, entry) in entries.enumerated() {
      guard let (sequence, copy) = try again({ () throws(EngineError) in try reader.next() }) else {
        throw FuzzFailure("the entries end before entry \(index)")
      }
      try require(
        sequence == sequences[index] && BatchTarget.isSame(copy, entry),
        "entry \(index) changed when it was logged again")
    }
  }
}
