/// Reads of a segment of the log every record that can be read, also behind damage.
///
/// Records stand at multiples of 8, and a checksum that is seeded with the segment's life and the place
/// tells one from anything else: behind a damaged record every multiple of 8 is tried. Where the header
/// block is lost, others know the life id: the successor's header, or the MANIFEST.
///
/// # What is a loss
/// Bytes without a record in front of one that can be read, and those before an end that is known: by a
/// promise, by the successor's header, or by a cut of the MANIFEST. What lies behind the last record can
/// as well be the torn tail of a crash, or nothing; where there are bytes, it is called doubtful.
enum LogRescue {
  /// What others know of a segment.
  struct Hints: Sendable {
    var lifeID: UInt64?
    /// The records end here.
    var end: UInt64?
    /// Whether records behind `end` are not of the database any more.
    var isCut = false
  }

  struct Outcome {
    var header: LogSegmentHeader?
    /// Nil where nothing of the segment is known: it holds nothing, or is lost.
    var lifeID: UInt64?
    var recordCount = 0
    /// Behind the last record.
    var end: UInt64 = 0
    var parts: [UnreadablePart] = []
    /// Bytes behind the last record that look like the begin of one.
    var doubtfulTail: UInt64?
    var isHeaderDamaged = false
  }

  /// Visits the records of a segment in their order. Throws what `visit` and the file system throw.
  static func read(
    _ file: any File, number: FileNumber, hints: Hints,
    _ visit: (LogReader.Record) throws(EngineError) -> Void
  ) throws(EngineError) -> Outcome {
    let size = min(try file.size(), UInt64(Limits.logSegmentSizeMaximum))
    let content = try BlockOfBytes(reading: file, size: Int(size))
    var outcome = Outcome()
    do throws(EngineError) {
      if case .valid(let header, let isIntact) = try LogSegmentHeader.decode(
        content.view, number: number, file: file.path)
      {
        outcome.header = header
        outcome.isHeaderDamaged = !isIntact
      }
    } catch { outcome.isHeaderDamaged = true }
    outcome.lifeID = outcome.header?.lifeID ?? hints.lifeID
    if outcome.header == nil && hints.lifeID != nil { outcome.isHeaderDamaged = true }
    guard let lifeID = outcome.lifeID else { return outcome }
    try readRecords(content.view, lifeID: lifeID, hints, &outcome, visit)
    return outcome
  }

  private static func readRecords(
    _ view: ByteView, lifeID: UInt64, _ hints: Hints, _ outcome: inout Outcome,
    _ visit: (LogReader.Record) throws(EngineError) -> Void
  ) throws(EngineError) {
    var position = LogFormat.headerBlockSize
    var good = position
    var promise: UInt64 = 0
    let limit = hints.isCut ? min(view.count, Int(clamping: hints.end ?? .max)) : view.count
    while position + LogFormat.recordHeaderSize <= limit {
      guard let record = LogReader.record(in: view, at: position, lifeID: lifeID) else {
        position += 8
        continue
      }
      if position > good { add(good, position, view, lifeID, &outcome) }
      position += record.header.recordSize
      good = position
      promise = max(promise, record.header.promise)
      if record.header.kind == .end { continue }
      outcome.recordCount += 1
      try visit(record)
    }
    outcome.end = UInt64(good)
    let known = max(hints.end ?? 0, promise)
    if known > UInt64(good) {
      add(good, Int(clamping: known), view, lifeID, &outcome)
    } else if good + LogFormat.recordHeaderSize <= limit, !hints.isCut, hints.end == nil,
      !view.slice(good, good + LogFormat.recordHeaderSize).bytes.allSatisfy({ $0 == 0 })
    {
      outcome.doubtfulTail = UInt64(good)
    }
  }

  /// Adds a loss; says which commit it was where the record's header is whole.
  private static func add(_ start: Int, _ end: Int, _ view: ByteView, _ lifeID: UInt64, _ outcome: inout Outcome) {
    let seed = CRC32C.seed(lifeID, UInt64(start))
    var message = "no log record can be read"
    if start + LogFormat.recordHeaderSize <= view.count,
      let header = LogRecordHeader.decode(view, at: start, seed: seed)
    {
      message = "the log record of commit \(header.sequence) is damaged"
    }
    outcome.parts.append(UnreadablePart(start: UInt64(start), end: UInt64(end), message: message))
  }
}
