/// Reads the records of a log to which another engine appends, as far as they are whole, and goes on when there
/// are more.
///
/// Bytes at the end that are no valid record are "not yet": the record may be half-written. They are read
/// anew each time. The segment under the cursor may be freed, and its file used again for another: then no
/// record of this life is found there any more, and `isOverwritten` says why.
///
/// Reads by `File.read`, never by a mapping: a segment is cut when its engine closes.
///
/// Belongs to one thread at a time.
struct LogTail: ~Copyable {
  private let directory: String
  private let fileSystem: any FileSystem
  private var file: (any File)?
  private var header: LogSegmentHeader?
  /// Where the next record begins.
  private(set) var offset = LogFormat.headerBlockSize
  private var window = ByteWriter(capacity: 0)
  /// Where the window begins in the segment.
  private var windowStart = 0
  /// How much is read next: small where a record comes now and then, large where many wait.
  private var readSize = LogTail.smallestRead

  private static let smallestRead = 4 << 10
  private static let largestRead = 256 << 10

  init(directory: String, fileSystem: any FileSystem) {
    self.directory = directory
    self.fileSystem = fileSystem
  }

  deinit { file?.close() }

  private func path(_ number: FileNumber) -> String { directory + "/" + FileName.log(number).name }

  /// The segment under the cursor; nil before `begin`.
  var number: FileNumber? { header?.number }
  var lifeID: UInt64? { header?.lifeID }
  /// Bytes of the segment under the cursor.
  var capacity: Int { Int(clamping: min(header?.capacity ?? 0, 1 << 40)) }

  /// The cursor, as the header of a segment behind it names it.
  var place: LogSegmentHeader.Predecessor? {
    header.map { .init(number: $0.number, lifeID: $0.lifeID, end: UInt64(offset)) }
  }

  // MARK: - Segments

  /// Goes to the beginning of a segment. False where it is not there, or not in use.
  mutating func begin(at number: FileNumber) throws(EngineError) -> Bool {
    guard let found = try open(number) else { return false }
    move(to: found)
    return true
  }

  /// Goes on in the segment behind the cursor, which ends at it; false where there is none among `numbers`,
  /// ascending. A restart follows only where `isCut` says that the MANIFEST cuts the log here.
  mutating func moveOn(_ numbers: [FileNumber], isCut: Bool) throws(EngineError) -> Bool {
    guard let place else { return false }
    for number in numbers where number > place.number {
      guard let found = try open(number) else { continue }
      guard found.header.predecessor == place, !found.header.isRestart || isCut else {
        found.file.close()
        continue
      }
      move(to: found)
      return true
    }
    return false
  }

  private struct Opened {
    let file: any File
    let header: LogSegmentHeader
  }

  private func open(_ number: FileNumber) throws(EngineError) -> Opened? {
    let name = path(number)
    let file: any File
    do throws(EngineError) { file = try fileSystem.openFile(name, writable: false) } catch {
      guard error.code == .notFound else { throw error }
      return nil
    }
    do throws(EngineError) {
      let block = try BlockOfBytes(reading: file, size: LogFormat.headerBlockSize)
      let reading = try LogSegmentHeader.decode(block.view, number: number, file: name)
      if case .valid(let header, _) = reading { return Opened(file: file, header: header) }
    } catch {
      file.close()
      throw error
    }
    file.close()
    return nil
  }

  private mutating func move(to opened: Opened) {
    file?.close()
    file = opened.file
    header = opened.header
    offset = LogFormat.headerBlockSize
    window.removeAll()
    windowStart = 0
  }

  /// Whether the file of the segment under the cursor is another segment by now.
  func isOverwritten() throws(EngineError) -> Bool {
    guard let file, let header else { return false }
    let block = try BlockOfBytes(reading: file, size: LogFormat.headerBlockSize)
    let reading = try LogSegmentHeader.decode(block.view, number: header.number, file: file.path)
    guard case .valid(let now, _) = reading else { return true }
    return now.lifeID != header.lifeID
  }

  // MARK: - Records

  /// The record at the cursor; nil where there is none yet, and at `end`, where the MANIFEST cuts the
  /// segment. It lives until the next call.
  mutating func record(before end: UInt64?) throws(EngineError) -> LogReader.Record? {
    guard let header, end.map({ UInt64(offset) < $0 }) ?? true else { return nil }
    if let record = decode(header) { return record }
    // What the window has was read before; the bytes may have come since.
    try fill(readSize)
    if let size = sizeOfRecord(header), size > window.count { try fill(size) }
    guard let record = decode(header) else {
      readSize = Self.smallestRead
      return nil
    }
    readSize = min(readSize * 2, Self.largestRead)
    return record
  }

  /// Puts the cursor behind a record, which `record` gave.
  mutating func advance(over record: LogReader.Record) { offset += record.header.recordSize }

  private mutating func fill(_ size: Int) throws(EngineError) {
    guard let file else { return }
    let start = UInt64(offset)
    var failure: EngineError?
    window.removeAll()
    windowStart = offset
    unsafe window.appendUninitialized(size) { buffer in
      do throws(EngineError) { return try unsafe file.read(into: buffer, at: start) } catch {
        failure = error
        return 0
      }
    }
    if let failure { throw failure }
  }

  private func seed(_ header: LogSegmentHeader, _ offset: Int) -> UInt32 {
    CRC32C.seed(header.lifeID, UInt64(offset))
  }

  /// The bytes that the record at the cursor takes, by its header, which is in the window.
  private func sizeOfRecord(_ header: LogSegmentHeader) -> Int? {
    LogRecordHeader.decode(
      window.view, at: offset - windowStart, offset: offset, capacity: Int(clamping: header.capacity),
      seed: seed(header, offset))?.recordSize
  }

  private func decode(_ header: LogSegmentHeader) -> LogReader.Record? { decode(header, at: offset) }

  private func decode(_ header: LogSegmentHeader, at offset: Int) -> LogReader.Record? {
    let view = window.view
    let index = offset - windowStart
    guard index >= 0, index < view.count else { return nil }
    let seed = seed(header, offset)
    guard
      let found = LogRecordHeader.decode(
        view, at: index, offset: offset, capacity: Int(clamping: header.capacity), seed: seed)
    else { return nil }
    let start = index + LogFormat.recordHeaderSize
    guard index + found.recordSize <= view.count else { return nil }
    let payload = view.slice(start, start + found.payloadSize)
    guard CRC32C.extend(seed, payload) == found.payloadChecksum else { return nil }
    for padding in (start + found.payloadSize)..<(index + found.recordSize) where view[padding] != 0 { return nil }
    return LogReader.Record(offset: offset, header: found, payload: payload)
  }

  // MARK: - Damage

  /// Looks near behind the cursor, where no record is, for one that promises that the bytes at the cursor were
  /// durable. Two looks must agree: the first may have met a record that was just being written.
  ///
  /// Complexity: O(`largestRead`).
  mutating func findDamage() throws(EngineError) -> EngineError? {
    guard let header, let file else { return nil }
    var witness: LogReader.Record?
    for _ in 0..<2 {
      try fill(Self.largestRead)
      if decode(header) != nil { return nil }
      witness = nil
      var position = offset + 8
      while witness == nil, position + LogFormat.recordHeaderSize <= windowStart + window.count {
        if let record = decode(header, at: position), record.header.promise > UInt64(offset) { witness = record }
        position += 8
      }
      if witness == nil { return nil }
    }
    guard let witness else { return nil }
    return .corruption(
      "log record is not readable, although the record at offset \(witness.offset) states that it was durable",
      file: file.path, offset: UInt64(offset))
  }
}
