/// Finds the log of a database that was closed or crashed, and hands out its records in order.
///
/// # Algorithm
/// 1. Segments are the files `NNNNNN.log` from the oldest that the MANIFEST names. That one must be
///    there: it was durable before it was named.
/// 2. Each is read to where its valid records end, or to where an earlier recovery cut it.
/// 3. The next in the chain is the one whose header names this one, its life id and just that end.
///    Where the MANIFEST cuts this one and a *restart* names that cut, it is the restart: between the two
///    are the dead segments of a failed sync. A restart without its cut is the leftover of one that
///    never counted.
///    One that names an earlier end of this one was given up when its header could not be written, and
///    the log went on here: it is skipped.
/// 4. Where the chain stops, everything behind is what a crash left of writes that nobody was promised.
///    It is dropped, unless a record there promises that something before it was durable: then bytes
///    were damaged after they were written, and that is an error, never a cut.
///
/// Nothing is written here. The caller makes the verdict durable before the first new write.
struct LogRecovery {
  let directory: String
  let fileSystem: any FileSystem
  /// Numbers of all `.log` files in the directory.
  let numbers: [FileNumber]
  let oldest: FileNumber
  /// Where earlier recoveries cut: by segment number.
  let cuts: [FileNumber: Cut]

  /// An earlier recovery's verdict: this life of the segment ends there, and all before is durable.
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
    /// All bytes before are known to be durable.
    let durableEnd: Int

    var place: LogSegmentHeader.Predecessor { .init(number: number, lifeID: lifeID, end: UInt64(end)) }
  }

  /// What was found.
  struct Outcome: Equatable, Sendable {
    var chain: [Link] = []
    /// Files from the oldest on that are not in the chain: empty, or behind the cut.
    var dropped: [FileNumber] = []
    /// How many records were handed out.
    var recordCount = 0
  }

  func path(_ number: FileNumber) -> String { directory + "/" + FileName.log(number).name }

  /// Reads the chain and calls `visit` for each record with entries in order. The views live during the call.
  func replay(_ visit: (LogReader.Record, FileNumber) throws(EngineError) -> Void) throws(EngineError) -> Outcome {
    var outcome = Outcome()
    let candidates = numbers.filter { $0 >= oldest }.sorted()
    guard candidates.first == oldest else {
      throw .corruption("oldest log segment is missing", file: path(oldest))
    }
    // What was cut is durable up to there, for as long as the segment lives.
    for number in cuts.keys.sorted() where number >= oldest && !candidates.contains(number) {
      throw .corruption("log segment is missing", file: path(number))
    }
    var index = 0
    while index < candidates.count {
      let number = candidates[index]
      switch try readSegment(number, after: outcome.chain.last, &outcome, visit) {
      case .continues(let link):
        outcome.chain.append(link)
        let next = try findRestart(behind: link, in: candidates[(index + 1)...]) ?? index + 1
        outcome.dropped += candidates[(index + 1)..<next]
        index = next
      case .isEmpty:
        outcome.dropped.append(number)
        index += 1
      case .endsBefore:
        try requireNoPromises(candidates[index...], behind: outcome.chain.last)
        outcome.dropped += candidates[index...]
        return outcome
      }
    }
    return outcome
  }

  /// The segment that the log went on in after a failed sync, where `link` is cut for one.
  private func findRestart(behind link: Link, in rest: ArraySlice<FileNumber>) throws(EngineError) -> Int? {
    guard cuts[link.number] != nil else { return nil }
    for index in rest.indices {
      let name = path(rest[index])
      let file = try fileSystem.openFile(name, writable: false)
      defer { file.close() }
      let block = try BlockOfBytes(reading: file, size: LogFormat.headerBlockSize)
      let reading = try LogSegmentHeader.decode(block.view, number: rest[index], file: name)
      guard case .valid(let header, _) = reading, header.isRestart else { continue }
      if header.predecessor == link.place { return index }
    }
    return nil
  }

  /// What a file is to the chain.
  private enum Place {
    case continues(Link)
    /// Prepared and never used: it has no header of its own, or one that was given up.
    case isEmpty
    /// It names another predecessor, or another end of it.
    case endsBefore
  }

  private func readSegment(
    _ number: FileNumber, after previous: Link?, _ outcome: inout Outcome,
    _ visit: (LogReader.Record, FileNumber) throws(EngineError) -> Void
  ) throws(EngineError) -> Place {
    let file = try fileSystem.openFile(path(number), writable: false)
    defer { file.close() }
    guard var reader = try LogReader.open(file, number: number, name: path(number)) else {
      guard previous != nil, cuts[number] == nil else {
        throw .corruption("log segment has no valid header, although it held records", file: path(number), offset: 0)
      }
      return .isEmpty
    }
    if let previous {
      if reader.header.isAbandoned(for: previous.place), cuts[number] == nil { return .isEmpty }
      guard reader.header.predecessor == previous.place else { return .endsBefore }
      if reader.header.isRestart && cuts[previous.number] == nil { return .endsBefore }
    }
    let end = try readRecords(&reader, cut: cuts[number], &outcome, visit)
    // `readRecords` has compared the promise with the end.
    return .continues(
      Link(
        number: number, lifeID: reader.header.lifeID, capacity: reader.fileSize, end: end,
        durableEnd: cuts[number] == nil ? Int(reader.promise) : end))
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
    if cut == nil, let witness = reader.findPromise(above: UInt64(reader.offset)) {
      throw .corruption(
        "log record is not readable, although the record at offset \(witness.offset) states that it was durable",
        file: name, offset: UInt64(reader.offset))
    }
    // A restart was durable before the cut that makes it count.
    let wasDurable = reader.promise > 0 || reader.header.number == oldest || reader.header.isRestart
    if !reader.isHeaderIntact, wasDurable {
      throw .corruption("header block of the log segment is damaged", file: name, offset: 0)
    }
    if reader.promise > UInt64(reader.offset) {
      throw .corruption(
        "durable offset \(reader.promise) is past the end of the records at \(reader.offset)", file: name,
        offset: UInt64(reader.offset))
    }
    return reader.offset
  }

  /// Throws where a segment behind the end of the chain says that something in it was durable: then
  /// all before it was, too.
  private func requireNoPromises(_ rest: ArraySlice<FileNumber>, behind last: Link?) throws(EngineError) {
    for number in rest {
      let file = try fileSystem.openFile(path(number), writable: false)
      defer { file.close() }
      guard var reader = try LogReader.open(file, number: number, name: path(number)) else {
        guard cuts[number] == nil else {
          throw .corruption("log segment has no valid header, although it held records", file: path(number), offset: 0)
        }
        continue
      }
      while reader.next() != nil {}
      let behind = cuts[number] != nil || reader.promise > 0 || reader.findPromise(above: 0) != nil
      if behind {
        let place = last.map { "segment \($0.number) ends at offset \($0.end)" } ?? "no record before it is readable"
        throw .corruption(
          "log continues here with durable records, but \(place)", file: path(number), offset: 32)
      }
    }
  }
}

extension LogSegmentHeader {
  /// Whether it names an end of `place`'s segment behind which that went on. A segment is sealed before the
  /// header of the next is written, so only a header whose writing failed does.
  fileprivate func isAbandoned(for place: Predecessor) -> Bool {
    guard let predecessor, !isRestart else { return false }
    return predecessor.number == place.number && predecessor.lifeID == place.lifeID && predecessor.end < place.end
  }
}
