internal import Synchronization

/// One segment of the log that is open for appending.
///
/// # Two ways to write
/// If the file system overwrites blocks without copying, records are stored through a mapping of the file: without a
/// system call, and every stored byte survives the death of the process at once. Elsewhere the same bytes are written
/// by `write`. Readers see no difference.
///
/// A large record is written piece by piece directly from the bytes of the caller, with its header last, and by `write`
/// even if the file is mapped: a store would make the pages of the mapping resident, which is a copy in memory.
///
/// # Invariants
/// 1. Bytes below `tail` are whole records; nothing valid of this life lies above it.
/// 2. `durable` ≤ `published` ≤ `tail`; all three only grow.
/// 3. The durable mark of a record is at most the offset of the record.
///
/// # Concurrency
/// `append` is called by the commit leader alone. `published` and `durable` may be read by any thread;
/// `durable` is raised by the one thread that syncs.
///
/// # Safety
/// `recordTarget` points into `mapping`, which lives as long as this.
@safe
final class LogSegment: @unchecked Sendable {
  // Sendable: `tail` and `scratch` belong to the commit leader, the rest is immutable or atomic.
  let number: FileNumber
  let lifeID: UInt64
  let capacity: Int
  let file: any File
  /// The log position of the segment's first byte: the sum of the sizes of the log before it.
  let logBase: LogPosition
  /// The mapping through which records are stored, or `nil` if they are written by `File.write`.
  let mapping: MappedFile?
  /// The first byte of `mapping`, if records may be encoded directly in it.
  private let recordTarget: UnsafeMutableRawPointer?
  private let charge: MemoryCharge?

  /// The offset of the next record. Belongs to the commit leader.
  private(set) var tail: Int = LogFormat.headerBlockSize
  private var scratch: ByteWriter
  private let publishedTail: Atomic<Int>
  private let durableTail: Atomic<Int>

  init(number: FileNumber, lifeID: UInt64, logBase: LogPosition, prepared: PreparedSegment) {
    self.number = number
    self.lifeID = lifeID
    self.logBase = logBase
    capacity = prepared.capacity
    file = prepared.file
    mapping = prepared.mapping
    unsafe recordTarget = prepared.mapping.flatMap { unsafe $0.isObserved ? nil : $0.base }
    charge = prepared.charge
    scratch = ByteWriter(capacity: mapping == nil ? 4096 : 256)
    publishedTail = Atomic(LogFormat.headerBlockSize)
    durableTail = Atomic(0)
  }

  /// The end of the records that a sync started now would cover.
  var published: Int { publishedTail.load(ordering: .acquiring) }  // with the releasing store in `publish`
  /// All bytes before this offset survive a loss of power.
  var durable: Int { durableTail.load(ordering: .acquiring) }  // with the releasing store in `raiseDurable`

  func raiseDurable(to offset: Int) {
    if offset > durableTail.load(ordering: .relaxed) { durableTail.store(offset, ordering: .releasing) }
  }

  /// Returns an offset of this life of the segment in the form that the header of the next segment stores.
  func location(at offset: Int) -> LogSegmentHeader.Predecessor {
    LogSegmentHeader.Predecessor(number: number, lifeID: lifeID, end: UInt64(offset))
  }

  /// The log position at which the published records end.
  var publishedInLog: LogPosition { logBase + published }

  /// Returns whether a record with this payload, and the end record that seals the segment, still fit.
  @inline(__always)
  func hasRoom(payloadSize: Int) -> Bool {
    capacity &- tail >= LogFormat.recordSize(payloadSize: payloadSize) &+ LogFormat.recordHeaderSize
  }

  /// Writes the header block. Called once, before the first append.
  func writeHeader(_ header: LogSegmentHeader) throws(EngineError) {
    scratch.removeAll()
    header.encode(into: &scratch)
    try store(scratch.view, at: 0)
  }

  /// Appends one record, which must have room. A failure leaves `tail` where it was.
  @inline(__always)
  func append(_ kind: LogFormat.RecordKind, sequence: SequenceNumber, payload: ByteView) throws(EngineError) {
    if payload.count > Limits.largeSize {
      return try append(kind, sequence: sequence, head: ByteView(), body: payload)
    }
    let size = LogFormat.recordSize(payloadSize: payload.count)
    precondition(size <= capacity &- tail, "log record exceeds the segment: call hasRoom first")
    let durableMark = UInt64(durableTail.load(ordering: .relaxed))
    let seed = CRC32C.seed(lifeID, UInt64(tail))
    let payloadChecksum = CRC32C.extend(seed, payload)
    if let target = unsafe recordTarget {
      unsafe Self.encode(
        kind, sequence, durableMark, payloadChecksum, seed: seed, payload: payload, at: target + tail, size: size)
    } else {
      try appendByCopy(kind, sequence, durableMark, payloadChecksum, seed: seed, payload: payload, size: size)
    }
    tail &+= size
    publishedTail.store(tail, ordering: .releasing)  // partner: `published`
  }

  /// Appends one record whose payload is `head`, which is small, followed by `body`, which is not copied.
  ///
  /// There must be room. A failure leaves `tail` where it was: without the header, which is written last, the pieces
  /// are not a record.
  @inline(never)
  func append(
    _ kind: LogFormat.RecordKind, sequence: SequenceNumber, head: ByteView, body: ByteView
  ) throws(EngineError) {
    let payloadSize = head.count + body.count
    let size = LogFormat.recordSize(payloadSize: payloadSize)
    precondition(size <= capacity - tail, "log record exceeds the segment: call hasRoom first")
    let durableMark = UInt64(durableTail.load(ordering: .relaxed))
    let seed = CRC32C.seed(lifeID, UInt64(tail))
    let payloadChecksum = CRC32C.extend(CRC32C.extend(seed, head), body)
    let bodyStart = LogFormat.recordHeaderSize + head.count
    try storePiece(body, at: tail + bodyStart)
    let padding = size - bodyStart - body.count
    if padding > 0 {
      scratch.removeAll()
      scratch.append(repeating: 0, count: padding)
      try storePiece(scratch.view, at: tail + size - padding)
    }
    scratch.removeAll()
    unsafe scratch.appendUninitialized(LogFormat.recordHeaderSize) { target in
      guard let base = target.baseAddress else { return 0 }
      unsafe Self.encodeHeader(
        kind, sequence, durableMark, payloadChecksum, payloadSize: payloadSize, seed: seed, at: base)
      return LogFormat.recordHeaderSize
    }
    scratch.append(head)
    try storePiece(scratch.view, at: tail)
    tail += size
    publishedTail.store(tail, ordering: .releasing)  // partner: `published`
  }

  /// Encodes a record in memory, then passes it as a whole to the mapping's observer or to the file.
  @inline(never)
  private func appendByCopy(
    _ kind: LogFormat.RecordKind, _ sequence: SequenceNumber, _ durableMark: UInt64, _ payloadChecksum: UInt32,
    seed: UInt32, payload: ByteView, size: Int
  ) throws(EngineError) {
    scratch.removeAll()
    try scratch.reserveOrThrow(size)
    unsafe scratch.appendUninitialized(size) { target in
      guard let base = target.baseAddress else { return 0 }
      unsafe Self.encode(
        kind, sequence, durableMark, payloadChecksum, seed: seed, payload: payload, at: base, size: size)
      return size
    }
    try store(scratch.view, at: tail)
  }

  /// Writes bytes to the file, through the mapping if there is one.
  private func store(_ bytes: ByteView, at offset: Int) throws(EngineError) {
    if let mapping {
      mapping.store(at: offset, bytes: bytes)
    } else {
      try unsafe file.write(bytes.buffer, at: UInt64(offset))
    }
  }

  /// Writes a piece of a large record to the file, past the mapping if that shows what is written.
  private func storePiece(_ bytes: ByteView, at offset: Int) throws(EngineError) {
    if let mapping, mapping.showsWrites {
      try unsafe file.write(bytes.buffer, at: UInt64(offset))
    } else {
      try store(bytes, at: offset)
    }
  }

  /// Writes a record at `target`: the payload first and the checksum of the header last, so that a reader of the
  /// mapping never takes a half-written record for a complete one.
  ///
  /// Safety: `target` has room for `size` bytes.
  @inline(__always)
  @unsafe
  private static func encode(
    _ kind: LogFormat.RecordKind, _ sequence: SequenceNumber, _ durableMark: UInt64, _ payloadChecksum: UInt32,
    seed: UInt32, payload: ByteView, at target: UnsafeMutableRawPointer, size: Int
  ) {
    // The last eight bytes are zeroed first: those that the payload does not cover are padding.
    if size > LogFormat.recordHeaderSize {
      unsafe target.storeBytes(of: UInt64(0), toByteOffset: size &- 8, as: UInt64.self)
    }
    unsafe (target + LogFormat.recordHeaderSize).copyMemory(from: payload.base, byteCount: payload.count)
    unsafe encodeHeader(
      kind, sequence, durableMark, payloadChecksum, payloadSize: payload.count, seed: seed, at: target)
  }

  /// Writes the header of a record at `target`, its checksum last.
  ///
  /// Safety: `target` has room for the header.
  @inline(__always)
  @unsafe
  private static func encodeHeader(
    _ kind: LogFormat.RecordKind, _ sequence: SequenceNumber, _ durableMark: UInt64, _ payloadChecksum: UInt32,
    payloadSize: Int, seed: UInt32, at target: UnsafeMutableRawPointer
  ) {
    unsafe target.storeBytes(of: UInt32(payloadSize).littleEndian, toByteOffset: 4, as: UInt32.self)
    unsafe target.storeBytes(of: sequence.value.littleEndian, toByteOffset: 8, as: UInt64.self)
    unsafe target.storeBytes(of: durableMark.littleEndian, toByteOffset: 16, as: UInt64.self)
    unsafe target.storeBytes(of: payloadChecksum.littleEndian, toByteOffset: 24, as: UInt32.self)
    unsafe target.storeBytes(of: UInt32(kind.rawValue).littleEndian, toByteOffset: 28, as: UInt32.self)
    let header = unsafe ByteView(base: UnsafeRawPointer(target) + 4, count: LogFormat.recordHeaderSize - 4)
    unsafe target.storeBytes(of: CRC32C.extend(seed, header).littleEndian, as: UInt32.self)
  }
}
