/// Reads every readable record of a log segment, including those past damage.
///
/// Records are at multiples of 8, and their checksum is seeded with the segment's life id and the offset: past a
/// damaged record every multiple of 8 is tried. A record with single wrong bytes is corrected (`LogCorrection`). If the
/// header block is lost, the life id comes from the successor's header or the MANIFEST.
///
/// # What counts as lost
/// Bytes are lost if they are without a record and precede a readable one, or lie before a known end: a durable mark,
/// the successor's header, or a cut of the MANIFEST. Bytes past the last record may be the torn tail of a crash, or
/// meaningless; if there are any, they are reported as doubtful.
enum LogSalvage {
  /// The facts that other files state about a segment.
  struct Hints: Sendable {
    var lifeID: UInt64?
    /// The offset at which the records end, if known.
    var end: UInt64?
    /// A Boolean value that indicates whether records past `end` no longer belong to the database.
    var isCut = false
  }

  struct Outcome {
    var header: LogSegmentHeader?
    /// The life id, or `nil` if no file states one: the segment is empty, or lost.
    var lifeID: UInt64?
    var recordCount = 0
    /// The offset after the last record.
    var end: UInt64 = 0
    var parts: [UnreadablePart] = []
    /// The offset of bytes after the last record that look like the beginning of another one, if there are any.
    var doubtfulTail: UInt64?
    var isHeaderDamaged = false
  }

  /// Visits the records of a segment in order. Throws what `visit` and the file system throw.
  static func read(
    _ file: any File, number: FileNumber, hints: Hints,
    _ visit: (LogReader.Record) throws(EngineError) -> Void
  ) throws(EngineError) -> Outcome {
    let size = min(try file.size(), UInt64(Limits.logSegmentSizeMaximum))
    var content = try FileContents(reading: file, size: Int(size))
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
    try readRecords(&content, lifeID: lifeID, hints, &outcome, visit)
    return outcome
  }

  private static func readRecords(
    _ content: inout FileContents, lifeID: UInt64, _ hints: Hints, _ outcome: inout Outcome,
    _ visit: (LogReader.Record) throws(EngineError) -> Void
  ) throws(EngineError) {
    var position = LogFormat.headerBlockSize
    var good = position
    var durableMark: UInt64 = 0
    let size = content.view.count
    let limit = hints.isCut ? min(size, Int(clamping: hints.end ?? .max)) : size
    // The offset of the first record after damage, once it is known, so that the scan need not find it again.
    var next = 0
    while true {
      guard position + LogFormat.recordHeaderSize <= limit else {
        // Bytes before a known end were records.
        let known = min(Int(clamping: max(hints.end ?? 0, durableMark)), limit)
        guard correct(&content, good, known, lifeID, &outcome) else { break }
        next = known
        position = good
        continue
      }
      guard let record = LogReader.record(in: content.view, at: position, lifeID: lifeID) else {
        if next > good, correct(&content, good, next, lifeID, &outcome) {
          position = good
        } else {
          position = max(position + 8, next)
        }
        continue
      }
      if position > good {
        if correct(&content, good, position, lifeID, &outcome) {
          next = position
          position = good
          continue
        }
        add(good, position, content.view, lifeID, &outcome)
      }
      position += record.header.recordSize
      good = position
      durableMark = max(durableMark, record.header.durableMark)
      if record.header.kind == .end { continue }
      outcome.recordCount += 1
      try visit(record)
    }
    outcome.end = UInt64(good)
    let known = max(hints.end ?? 0, durableMark)
    if known > UInt64(good) {
      add(good, Int(clamping: known), content.view, lifeID, &outcome)
    } else if good + LogFormat.recordHeaderSize <= limit, !hints.isCut, hints.end == nil,
      !content.view.slice(good, good + LogFormat.recordHeaderSize).bytes.allSatisfy({ $0 == 0 })
    {
      outcome.doubtfulTail = UInt64(good)
    }
  }

  /// Corrects the record at `start`, before `end`. Returns false if no record can be read there even then.
  private static func correct(
    _ content: inout FileContents, _ start: Int, _ end: Int, _ lifeID: UInt64, _ outcome: inout Outcome
  ) -> Bool {
    guard start < end, let parts = LogCorrection.correct(&content, from: start, to: end, lifeID: lifeID) else {
      return false
    }
    outcome.parts += parts
    return true
  }

  /// Records a loss, with the commit that it belonged to if the record's header is intact.
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
