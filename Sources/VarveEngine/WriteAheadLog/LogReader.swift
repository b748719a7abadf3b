/// Reads the records of one segment, and distinguishes a torn tail from damage.
///
/// The whole segment is read into memory first: at most a few are read in the life of a process, each bounded by the
/// log's size limit. That memory is charged to an account while the reader lives.
///
/// # Where a segment ends
/// A segment ends at the first offset without a valid record of this life. The bytes that follow decide the cause: a
/// valid record whose durable mark is above that offset shows that the bytes there were durable and have been damaged
/// since. Without such a record they are the torn tail of a crash, which is cut silently.
///
/// Belongs to one thread.
struct LogReader: ~Copyable {
  let header: LogSegmentHeader
  /// A Boolean value that is false if the header block was cut by a crash, or damaged. A durable mark in the segment
  /// decides which.
  let isHeaderIntact: Bool
  let fileName: String
  private let content: FileContents
  private(set) var offset: Int = LogFormat.headerBlockSize
  /// The highest durable mark of the records read so far.
  private(set) var durableMark: UInt64 = 0

  /// The size of the file in bytes: less than the header's capacity after a clean close.
  var fileSize: Int { content.view.count }

  /// Opens a segment. Returns nil if it is empty (see `LogFormat`).
  static func open(
    _ file: any File, number: FileNumber, name: String, account: MemoryAccount? = nil
  ) throws(EngineError) -> LogReader? {
    let size = try file.size()
    guard size >= UInt64(LogFormat.headerBlockSize) else { return nil }
    guard size <= UInt64(Limits.logSegmentSizeMaximum) else {
      throw .corruption(
        "log segment has \(size) bytes; at most \(Limits.logSegmentSizeMaximum) are allowed", file: name)
    }
    let content = try FileContents(reading: file, size: Int(size), account: account)
    let reading = try LogSegmentHeader.decode(content.view, number: number, file: name)
    guard case .valid(let header, let isIntact) = reading else { return nil }
    return LogReader(header: header, isHeaderIntact: isIntact, fileName: name, content: content)
  }

  private init(
    header: LogSegmentHeader, isHeaderIntact: Bool, fileName: String, content: consuming FileContents
  ) {
    self.header = header
    self.isHeaderIntact = isHeaderIntact
    self.fileName = fileName
    self.content = content
  }

  /// A record that was read. `payload` is valid as long as the reader lives.
  struct Record {
    let offset: Int
    let header: LogRecordHeader
    let payload: ByteView
  }

  /// Returns the next record, or `nil` at the end of the valid ones, which is then `offset`.
  mutating func next() -> Record? {
    guard let record = record(at: offset) else { return nil }
    offset += record.header.recordSize
    if record.header.durableMark > durableMark { durableMark = record.header.durableMark }
    return record
  }

  private func record(at position: Int) -> Record? {
    Self.record(in: content.view, at: position, lifeID: header.lifeID)
  }

  /// Returns the record at `position` of a segment's bytes, or nil if no whole record of this life begins there.
  static func record(in view: ByteView, at position: Int, lifeID: UInt64) -> Record? {
    let seed = CRC32C.seed(lifeID, UInt64(position))
    guard let found = LogRecordHeader.decode(view, at: position, seed: seed) else { return nil }
    let start = position + LogFormat.recordHeaderSize
    let payload = view.slice(start, start + found.payloadSize)
    guard CRC32C.extend(seed, payload) == found.payloadChecksum else { return nil }
    let end = position + found.recordSize
    guard end <= view.count else { return nil }
    for padding in (start + found.payloadSize)..<end where view[padding] != 0 { return nil }
    return Record(offset: position, header: found, payload: payload)
  }

  /// Finds a record past `offset`, where the valid ones ended, whose durable mark is above `end`.
  ///
  /// Complexity: O(capacity), a few nanoseconds for each multiple of 8.
  func findDurableMark(above end: UInt64) -> Record? {
    var position = offset + 8
    while position + LogFormat.recordHeaderSize <= content.view.count {
      if let record = record(at: position), record.header.durableMark > end { return record }
      position += 8
    }
    return nil
  }
}

/// The bytes of a file, read completely into memory.
///
/// # Safety
/// The value is the sole owner of the memory; `view` is valid while it lives.
@safe
struct FileContents: ~Copyable {
  private let base: UnsafeMutableRawPointer
  private let capacity: Int
  private let count: Int
  private let charge: MemoryCharge?

  /// Reads the first `size` bytes, or the whole file if it is shorter. The memory is charged to `account`.
  init(reading file: any File, size: Int, account: MemoryAccount? = nil) throws(EngineError) {
    let capacity = max(size, 8)
    let memory = try unsafe LargeMemory.reserve(capacity)
    do throws(EngineError) {
      count = try unsafe file.read(into: UnsafeMutableRawBufferPointer(start: memory, count: size), at: 0)
    } catch {
      unsafe LargeMemory.release(memory, capacity)
      throw error
    }
    unsafe base = memory
    self.capacity = capacity
    charge = account.map { MemoryCharge(capacity, to: $0) }
  }

  deinit { unsafe LargeMemory.release(base, capacity) }

  /// Flips bits of one byte.
  mutating func flip(_ bits: UInt8, at offset: Int) {
    precondition(offset >= 0 && offset < count, "an offset past the end of a file's bytes")
    let byte = unsafe base.load(fromByteOffset: offset, as: UInt8.self)
    unsafe base.storeBytes(of: byte ^ bits, toByteOffset: offset, as: UInt8.self)
  }

  var view: ByteView { unsafe ByteView(base: UnsafeRawPointer(base), count: count) }
}
