/// Finds the log of a database that was closed or crashed, and delivers its records in order.
///
/// # Algorithm
/// 1. Segments are the files `NNNNNN.log` from the oldest that the MANIFEST names. That one must exist: it was
///    durable before it was named.
/// 2. Each is read to where its valid records end, or to where an earlier recovery cut it.
/// 3. The next in the chain is the one whose header names this segment, its life id and exactly that end. If the
///    MANIFEST cuts this segment and a *restart* names that cut, the restart is next: the segments between the two
///    are the dead ones of a failed sync. A restart without its cut never counted and is ignored. A segment that
///    names an earlier end of this one was given up when its header could not be written, and the log continued here:
///    it is skipped.
/// 4. Everything past the end of the chain is left over from a crash and was never acknowledged as durable. It is
///    dropped, unless a durable mark there shows that something before it was durable: then bytes were damaged after
///    they were written, which is an error, never a cut.
///
/// Recovery does not write. The caller makes the outcome durable before the first new write.
struct LogRecovery {
  let directory: String
  let fileSystem: any FileSystem
  /// Numbers of all `.log` files in the directory.
  let numbers: [FileNumber]
  let oldest: FileNumber
  /// The cuts of earlier recoveries, by segment number.
  let cuts: [FileNumber: Cut]

  /// The account to which the segment that is being read is charged.
  var account: MemoryAccount?

  /// A decision of an earlier recovery: this life of the segment ends there, and everything before is durable.
  struct Cut: Equatable, Sendable {
    let lifeID: UInt64
    let end: UInt64
  }

  /// One segment of the chain, and where it ends.
  struct Link: Equatable, Sendable {
    let number: FileNumber
    let lifeID: UInt64
    let capacity: Int
    let end: Int
    /// All bytes before this offset are known to be durable.
    let durableEnd: Int

    var location: LogSegmentHeader.Predecessor { .init(number: number, lifeID: lifeID, end: UInt64(end)) }
  }

  /// The result of a recovery.
  struct Outcome: Equatable, Sendable {
    var chain: [Link] = []
    /// Files from the oldest on that are not in the chain: empty, or past the cut.
    var dropped: [FileNumber] = []
    /// The number of records delivered.
    var recordCount = 0
  }

  func path(_ number: FileNumber) -> String { directory + "/" + FileName.log(number).name }

  /// Reads the chain and calls `visit` for each record with entries in order. The views are valid during the call.
  func replay(_ visit: (LogReader.Record, FileNumber) throws(EngineError) -> Void) throws(EngineError) -> Outcome {
    var outcome = Outcome()
    let candidates = numbers.filter { $0 >= oldest }.sorted()
    guard candidates.first == oldest else {
      throw .corruption("oldest log segment is missing", file: path(oldest))
    }
    // A cut segment is durable up to the cut, for as long as the segment lives.
    for number in cuts.keys.sorted() where number >= oldest && !candidates.contains(number) {
      throw .corruption("log segment is missing", file: path(number))
    }
    var index = 0
    while index < candidates.count {
      let number = candidates[index]
      switch try readSegment(number, after: outcome.chain.last, &outcome, visit) {
      case .continues(let link):
        outcome.chain.append(link)
        let next = try findRestart(after: link, in: candidates[(index + 1)...]) ?? index + 1
        outcome.dropped += candidates[(index + 1)..<next]
        index = next
      case .isEmpty:
        outcome.dropped.append(number)
        index += 1
      case .endsBefore:
        try requireNoDurableMarks(candidates[index...], after: outcome.chain.last)
        outcome.dropped += candidates[index...]
        return outcome
      }
    }
    return outcome
  }

  /// Returns the index of the segment in which the log continued after a failed sync, if `link` is cut for one.
  private func findRestart(after link: Link, in rest: ArraySlice<FileNumber>) throws(EngineError) -> Int? {
    guard cuts[link.number] != nil else { return nil }
    for index in rest.indices {
      let name = path(rest[index])
      let file = try fileSystem.openFile(name, writable: false)
      defer { file.close() }
      let block = try FileContents(reading: file, size: LogFormat.headerBlockSize)
      let reading = try LogSegmentHeader.decode(block.view, number: rest[index], file: name)
      guard case .valid(let header, _) = reading, header.isRestart else { continue }
      if header.predecessor == link.location { return index }
    }
    return nil
  }

  /// The relation of a file to the chain.
  private enum Location {
    case continues(Link)
    /// The segment was prepared and never used: it has no header of its own, or an abandoned one.
    case isEmpty
    /// The segment names another predecessor, or another end of it.
    case endsBefore
  }

  private func readSegment(
    _ number: FileNumber, after previous: Link?, _ outcome: inout Outcome,
    _ visit: (LogReader.Record, FileNumber) throws(EngineError) -> Void
  ) throws(EngineError) -> Location {
    let file = try fileSystem.openFile(path(number), writable: false)
    defer { file.close() }
    guard var reader = try LogReader.open(file, number: number, name: path(number), account: account) else {
      guard previous != nil, cuts[number] == nil else {
        throw .corruption("log segment has no valid header, although it held records", file: path(number), offset: 0)
      }
      return .isEmpty
    }
    if let previous {
      if reader.header.isAbandoned(for: previous.location), cuts[number] == nil { return .isEmpty }
      guard reader.header.predecessor == previous.location else { return .endsBefore }
      if reader.header.isRestart && cuts[previous.number] == nil { return .endsBefore }
    }
    let end = try readRecords(&reader, cut: cuts[number], &outcome, visit)
    // `readRecords` has compared the durable mark with the end.
    return .continues(
      Link(
        number: number, lifeID: reader.header.lifeID, capacity: reader.fileSize, end: end,
        durableEnd: cuts[number] == nil ? Int(reader.durableMark) : end))
  }

  private func readRecords(
    _ reader: inout LogReader, cut: Cut?, _ outcome: inout Outcome,
    _ visit: (LogReader.Record, FileNumber) throws(EngineError) -> Void
  ) throws(EngineError) -> Int {
    let name = reader.fileName
    if let cut, cut.lifeID != reader.header.lifeID {
      throw .corruption(
        "log segment has life id \(String(reader.header.lifeID, radix: 16)); the MANIFEST expects \(String(cut.lifeID, radix: 16))",
        file: name, offset: 24)
    }
    while cut == nil || UInt64(reader.offset) < cut?.end ?? 0 {
      guard let record = reader.next() else {
        if cut != nil {
          throw .corruption("durable log record is not readable", file: name, offset: UInt64(reader.offset))
        }
        break
      }
      if record.header.kind != .end {
        try visit(record, reader.header.number)
        outcome.recordCount += 1
      }
    }
    if cut == nil, let witness = reader.findDurableMark(above: UInt64(reader.offset)) {
      throw .corruption(
        "log record is not readable, although the record at offset \(witness.offset) states that it was durable",
        file: name, offset: UInt64(reader.offset))
    }
    // A restart was durable before the cut that makes it count.
    let wasDurable = reader.durableMark > 0 || reader.header.number == oldest || reader.header.isRestart
    if !reader.isHeaderIntact, wasDurable {
      throw .corruption("header block of the log segment is damaged", file: name, offset: 0)
    }
    if reader.durableMark > UInt64(reader.offset) {
      throw .corruption(
        "durable offset \(reader.durableMark) is past the end of the records at \(reader.offset)", file: name,
        offset: UInt64(reader.offset))
    }
    return reader.offset
  }

  /// Throws if a segment past the end of the chain shows that a record in it was durable, because all before it was
  /// then, too.
  private func requireNoDurableMarks(_ rest: ArraySlice<FileNumber>, after last: Link?) throws(EngineError) {
    for number in rest {
      let file = try fileSystem.openFile(path(number), writable: false)
      defer { file.close() }
      guard var reader = try LogReader.open(file, number: number, name: path(number), account: account) else {
        guard cuts[number] == nil else {
          throw .corruption("log segment has no valid header, although it held records", file: path(number), offset: 0)
        }
        continue
      }
      while reader.next() != nil {}
      let later = cuts[number] != nil || reader.durableMark > 0 || reader.findDurableMark(above: 0) != nil
      if later {
        let location = last.map { "segment \($0.number) ends at offset \($0.end)" } ?? "no record before it is readable"
        throw .corruption(
          "log continues here with durable records, but \(location)", file: path(number), offset: 32)
      }
    }
  }
}

extension LogSegmentHeader {
  /// Returns whether this header names an end of `location`'s segment past which that segment continued. A segment is
  /// sealed before the header of the next is written, so only a header whose writing failed names such an end.
  fileprivate func isAbandoned(for location: Predecessor) -> Bool {
    guard let predecessor, !isRestart else { return false }
    return predecessor.number == location.number && predecessor.lifeID == location.lifeID
      && predecessor.end < location.end
  }
}
