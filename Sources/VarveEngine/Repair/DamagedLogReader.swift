/// Reads the log of a damaged database, segment by segment, and determines which parts of it are lost.
struct DamagedLogReader {
  /// A function that is called for each entry, with family, trailer, key and value. The views are valid during the
  /// call.
  typealias Visit = (FamilyID, Trailer, ByteView, ByteView) throws(EngineError) -> Void

  let survey: DatabaseSurvey
  private(set) var losses: [DamagedPart] = []
  private(set) var entryCount: UInt64 = 0
  private(set) var lastSequence = SequenceNumber.zero
  /// The segments with records or damage, which a repair moves aside.
  private(set) var segmentsRead: [FileNumber] = []
  private var lastBefore: UInt64 = 0

  init(_ survey: DatabaseSurvey) { self.survey = survey }

  /// Visits every readable entry of the segments that may have entries which no table has.
  ///
  /// Throws what `visit` throws. A file that can't be opened or read is a loss.
  mutating func run(_ visit: Visit) throws(EngineError) {
    let hints = try survey.logHints()
    for number in survey.missingLogs(hints) {
      losses.append(DamagedPart("a segment of the log is missing", file: survey.path(.log(number))))
    }
    for number in survey.candidateLogs { try read(number, hints[number] ?? .init(), visit) }
  }

  /// A record, and the sequences of its entries.
  private struct Span {
    let offset: UInt64
    let first: UInt64
    let last: UInt64
  }

  private mutating func read(
    _ number: FileNumber, _ hints: LogSalvage.Hints, _ visit: Visit
  ) throws(EngineError) {
    let path = survey.path(.log(number))
    let file: any File
    do throws(EngineError) { file = try survey.fileSystem.openFile(path, writable: false) } catch {
      losses.append(
        DamagedPart("a segment of the log can't be opened: \(try error.requireDamage().message)", file: path))
      return
    }
    defer { file.close() }
    var spans: [Span] = []
    var broken: [UnreadablePart] = []
    var counts = (entries: UInt64(0), last: lastSequence)
    var failure: EngineError?
    let outcome: LogSalvage.Outcome
    do throws(EngineError) {
      outcome = try LogSalvage.read(file, number: number, hints: hints) { (record) throws(EngineError) in
        guard let span = Self.check(record, path) else {
          broken.append(
            UnreadablePart(
              start: UInt64(record.offset), end: UInt64(record.offset + record.header.recordSize),
              message: "a log record with entries that this version can't read"))
          return
        }
        spans.append(span)
        do throws(EngineError) { counts.entries += try Self.visit(record, path, visit) } catch {
          failure = error
          throw error
        }
        counts.last = max(counts.last, SequenceNumber(span.last))
      }
    } catch {
      if let failure { throw failure }
      losses.append(DamagedPart("a segment of the log can't be read: \(try error.requireDamage().message)", file: path))
      segmentsRead.append(number)
      return
    }
    entryCount += counts.entries
    lastSequence = counts.last
    addLosses(outcome, broken, spans, number, hints)
    if let last = spans.last { lastBefore = max(lastBefore, last.last) }
  }

  private mutating func addLosses(
    _ outcome: LogSalvage.Outcome, _ broken: [UnreadablePart], _ spans: [Span], _ number: FileNumber,
    _ hints: LogSalvage.Hints
  ) {
    let path = survey.path(.log(number))
    if outcome.recordCount > 0 || !outcome.parts.isEmpty || outcome.isHeaderDamaged { segmentsRead.append(number) }
    if outcome.lifeID == nil {
      guard number == survey.evidence.oldestLog else { return }
      segmentsRead.append(number)
      losses.append(DamagedPart("the header of the segment is lost, and with it what seeds its checksums", file: path))
      return
    }
    if outcome.isHeaderDamaged {
      var lost = DamagedPart("header block of the log segment is damaged", file: path)
      lost.offsets = 0..<UInt64(LogFormat.headerBlockSize)
      lost.holdsEntries = false
      losses.append(lost)
    }
    for part in outcome.parts + broken {
      var lost = DamagedPart(part, file: path)
      guard part.holdsEntries else {
        losses.append(lost)
        continue
      }
      let before = spans.last { $0.offset < part.start }?.last ?? lastBefore
      if let later = spans.first(where: { $0.offset >= part.end })?.first, later > before + 1 {
        lost.sequences = SequenceNumber(before + 1)...SequenceNumber(later - 1)
      }
      // Between two records with consecutive sequences there was at most an end record.
      if let later = spans.first(where: { $0.offset >= part.end })?.first, later == before + 1 {
        lost.holdsEntries = false
      }
      losses.append(lost)
    }
    if let tail = outcome.doubtfulTail {
      var lost = DamagedPart(
        "no log record can be read; it may be what a crash cut", file: path,
        offsets: tail..<tail + UInt64(LogFormat.recordHeaderSize))
      lost.message += ", or the last commits are damaged"
      losses.append(lost)
    }
  }

  /// Returns the sequences of a record whose entries can all be read, or `nil` if one of them can't.
  private static func check(_ record: LogReader.Record, _ path: String) -> Span? {
    var reader = LogEntryReader(record, file: path)
    let first = record.header.sequence.value
    var last = first
    do throws(EngineError) {
      while let (sequence, entry) = try reader.next() {
        last = max(last, sequence.value)
        guard entry.kind != .rangeDelete || entry.key < entry.value else { return nil }
      }
    } catch { return nil }
    return Span(offset: UInt64(record.offset), first: first, last: last)
  }

  private static func visit(
    _ record: LogReader.Record, _ path: String, _ visit: Visit
  ) throws(EngineError) -> UInt64 {
    var reader = LogEntryReader(record, file: path)
    var count: UInt64 = 0
    while let (sequence, entry) = try reader.next() {
      try visit(entry.family, Trailer(sequence, entry.kind), entry.key, entry.value)
      count += 1
    }
    return count
  }
}
