/// What an engine answers to a request of another process.
package enum RequestAnswer: Sendable {
  /// The request waits for others that are carried out before it.
  case waits
  /// The request is being carried out. The total is 0 if it isn't known.
  case runs(done: UInt64, total: UInt64)
  /// The statistics as JSON, as `EngineStatistics.json`.
  case statistics(String)
  case flushed
  case compacted(CompactionTotals)
  case checkpoint(CheckpointReport)
  /// The request was refused, or carrying it out failed.
  case failed(EngineError)

  /// Whether no other answer follows.
  var isFinal: Bool {
    switch self {
    case .waits, .runs: false
    case .statistics, .flushed, .compacted, .checkpoint, .failed: true
    }
  }
}

/// The cost and the effect of a compaction on request.
package struct CompactionTotals: Sendable, Hashable {
  /// Bytes of tables that were read.
  package var bytesRead: UInt64
  /// Bytes of tables that were written.
  package var bytesWritten: UInt64
  /// Bytes of all tables before.
  package var tableBytesBefore: UInt64
  /// Bytes of all tables after it.
  package var tableBytesAfter: UInt64

  /// Compares the statistics of before and after a compaction.
  package init(from before: EngineStatistics, to after: EngineStatistics) {
    bytesRead = after.bytesCompactionRead - before.bytesCompactionRead
    bytesWritten = after.bytesCompactionWritten - before.bytesCompactionWritten
    tableBytesBefore = before.tableBytes
    tableBytesAfter = after.tableBytes
  }

  fileprivate init(_ numbers: [UInt64]) {
    (bytesRead, bytesWritten, tableBytesBefore, tableBytesAfter) = (numbers[0], numbers[1], numbers[2], numbers[3])
  }
}

/// The content of a file `.answer`.
///
/// # Format
/// Little-endian; a text is a varint with its size, and UTF-8. The file is replaced by a rename, so it is always
/// complete. On disk: never change.
///
///     offset   bytes
///     0        24     header (`InboxHeader`), magic "VARVEANS"
///     24       1      1 waits, 2 runs, 3 statistics, 4 flushed, 5 compacted, 6 checkpoint, 7 failed
///     25       n      runs: bytes done (8) and in all (8)
///                     statistics: JSON as a text
///                     compacted: bytes read (8), written (8), of tables before (8) and after (8)
///                     checkpoint: last commit (8), tables linked (8), copied (8), their bytes (8), segments copied
///                     (8), their bytes (8)
///                     failed: name of the code, message, and file or nothing, each as a text
struct AnswerFile: Sendable {
  /// A larger file is not an answer. Statistics are the largest.
  static let sizeMaximum = 64 << 20

  let id: UInt64
  let answer: RequestAnswer

  init(id: UInt64, answer: RequestAnswer) {
    self.id = id
    self.answer = answer
  }

  func encode() -> [UInt8] {
    InboxHeader.answer.encode(id: id) { writer in
      let (kind, numbers, texts) = parts
      writer.append(integer: kind)
      for number in numbers { writer.append(integer: number) }
      for text in texts { writer.append(text: text) }
    }
  }

  /// The kind of the answer, its numbers and its texts.
  private var parts: (kind: UInt8, numbers: [UInt64], texts: [String]) {
    switch answer {
    case .waits: return (1, [], [])
    case .runs(let done, let total): return (2, [done, total], [])
    case .statistics(let json): return (3, [], [json])
    case .flushed: return (4, [], [])
    case .compacted(let totals):
      return (
        5, [totals.bytesRead, totals.bytesWritten, totals.tableBytesBefore, totals.tableBytesAfter], []
      )
    case .checkpoint(let report):
      return (
        6,
        [
          report.sequence.value, UInt64(report.tablesLinked), UInt64(report.tablesCopied), report.tableBytesCopied,
          UInt64(report.segmentsCopied), report.logBytesCopied,
        ], []
      )
    case .failed(let error):
      var message = error.message
      if let cause = error.cause { message += "; because \(cause)" }
      return (7, [], [error.code.description, message, error.file ?? ""])
    }
  }

  /// Decodes a file. Throws `.corruption` if it is damaged, and `.unsupportedFormat` for a later version.
  init(decoding view: ByteView, file: String) throws(EngineError) {
    let found = try InboxHeader.answer.decode(view, file: file)
    var reader = found.content
    id = found.id
    let kind = try reader.integer(UInt8.self)
    switch kind {
    case 1: answer = .waits
    case 2:
      let numbers = try reader.numbers(2)
      answer = .runs(done: numbers[0], total: numbers[1])
    case 3: answer = .statistics(try reader.text())
    case 4: answer = .flushed
    case 5: answer = .compacted(CompactionTotals(try reader.numbers(4)))
    case 6: answer = .checkpoint(CheckpointReport(try reader.numbers(6)))
    case 7:
      let code = EngineError.Code(named: try reader.text()) ?? .inputOutput
      let (message, location) = (try reader.text(), try reader.text())
      answer = .failed(EngineError(code, message, file: location.isEmpty ? nil : location))
    default: throw reader.corruption("the answer is of kind \(kind), which this version does not know")
    }
  }
}

extension CheckpointReport {
  fileprivate init(_ numbers: [UInt64]) {
    self.init(sequence: SequenceNumber(numbers[0] & SequenceNumber.maximum.value))
    tablesLinked = Int(clamping: numbers[1])
    tablesCopied = Int(clamping: numbers[2])
    tableBytesCopied = numbers[3]
    segmentsCopied = Int(clamping: numbers[4])
    logBytesCopied = numbers[5]
  }
}
