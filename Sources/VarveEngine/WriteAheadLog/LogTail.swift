/// Reads complete records of a log while another engine appends to it, and continues when there are more.
///
/// Bytes at the end that do not form a valid record are not an error, because the record may be half-written. They are
/// read again each time. The segment under the cursor may be freed and its file reused. No record of this life is then
/// found there any more, and `isInPlace` returns false: the segment has lost its name before.
///
/// Reads with `File.read`, never through a mapping: a segment is truncated when its engine closes.
///
/// Belongs to one thread at a time.
struct LogTail: ~Copyable {
  private let directory: String
  private let fileSystem: any FileSystem
  private var file: (any File)?
  private var header: LogSegmentHeader?
  /// The offset of the next record.
  private(set) var offset = LogFormat.headerBlockSize
  private var window = ByteWriter(capacity: 0, mapsLarge: true)
  private let charge: MemoryCharge
  /// The offset of the window in the segment.
  private var windowStart = 0
  /// The size of the next read: small if records arrive rarely, large if many are waiting.
  private var readSize = LogTail.smallestRead

  private static let smallestRead = 4 << 10
  private static let largestRead = 256 << 10
  private static let keptCapacity = 4 * largestRead

  /// Creates a reader that is at no segment, and whose memory is charged to `account`.
  init(directory: String, fileSystem: any FileSystem, account: MemoryAccount? = nil) {
    self.directory = directory
    self.fileSystem = fileSystem
    charge = MemoryCharge(0, to: account)
  }

  deinit { file?.close() }

  private func path(_ number: FileNumber) -> String { directory + "/" + FileName.log(number).name }

  /// The number of the segment under the cursor, or `nil` before `begin`.
  var number: FileNumber? { header?.number }
  var lifeID: UInt64? { header?.lifeID }
  /// The size of the segment under the cursor in bytes.
  var capacity: Int { Int(clamping: min(header?.capacity ?? 0, 1 << 40)) }

  /// The cursor, in the form that the header of the next segment stores.
  var location: LogSegmentHeader.Predecessor? {
    header.map { .init(number: $0.number, lifeID: $0.lifeID, end: UInt64(offset)) }
  }

  // MARK: - Segments

  /// Moves to the beginning of a segment. Returns false if it does not exist or is not in use.
  mutating func begin(at number: FileNumber) throws(EngineError) -> Bool {
    guard let found = try open(number) else { return false }
    move(to: found)
    return true
  }

  /// Continues in the next segment, whose header names the cursor as its predecessor's end. Returns false if there is
  /// none among `numbers`, ascending. A restart follows only if `isCut`: the MANIFEST cuts the log here.
  mutating func moveOn(_ numbers: [FileNumber], isCut: Bool) throws(EngineError) -> Bool {
    guard let location else { return false }
    for number in numbers where number > location.number {
      guard let found = try open(number) else { continue }
      guard found.header.predecessor == location, !found.header.isRestart || isCut else {
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
      let block = try FileContents(reading: file, size: LogFormat.headerBlockSize)
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

  /// Returns whether the segment under the cursor has its name.
  ///
  /// Then what was read of it before is what was written to it: a segment loses its name before its file is used again.
  func isInPlace() throws(EngineError) -> Bool {
    guard let header, let found = try open(header.number) else { return false }
    found.file.close()
    return found.header.lifeID == header.lifeID
  }

  // MARK: - Records

  /// Returns the record at the cursor, which is valid until the next call.
  ///
  /// Returns `nil` if there is none yet, and at `end`, where the MANIFEST cuts the segment.
  mutating func record(before end: UInt64?) throws(EngineError) -> LogReader.Record? {
    guard let header, end.map({ UInt64(offset) < $0 }) ?? true else { return nil }
    if let record = decode(header) { return record }
    // The window's content was read earlier; the bytes may have arrived since.
    try fill(readSize)
    if let size = sizeOfRecord(header), size > window.count { try fill(size) }
    guard let record = decode(header) else {
      readSize = Self.smallestRead
      return nil
    }
    readSize = min(readSize * 2, Self.largestRead)
    return record
  }

  /// Moves the cursor past a record that `record` returned.
  mutating func advance(over record: LogReader.Record) { offset += record.header.recordSize }

  private mutating func fill(_ size: Int) throws(EngineError) {
    guard let file else { return }
    let start = UInt64(offset)
    var failure: EngineError?
    window.removeAll()
    // One large record must not keep its memory for the rest of the log.
    if window.capacity > Self.keptCapacity, window.capacity / 2 > size {
      window = ByteWriter(capacity: 0, mapsLarge: true)
    }
    do throws(EngineError) { try window.reserveOrThrow(size) } catch { failure = error }
    charge.resize(to: window.capacity)
    if let failure { throw failure }
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

  /// The size in bytes of the record at the cursor, from its header, which is in the window.
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

  /// Searches shortly past the cursor, where there is no record, for one whose durable mark covers the bytes at the
  /// cursor.
  ///
  /// Two reads must agree, because the first may have met a record that was just being written.
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
        if let record = decode(header, at: position), record.header.durableMark > UInt64(offset) { witness = record }
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
