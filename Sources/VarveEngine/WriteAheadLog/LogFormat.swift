/// The bytes of a log segment.
///
/// # Format
/// A segment is a file `NNNNNN.log` of fixed capacity: a header block of 4,096 bytes, then records at
/// multiples of 8. All integers are little-endian.
///
/// ```
/// header block                                   record
///  0  8  magic "VARVELOG"                         0  4  header checksum
///  8  4  format version, 2                        4  4  payload size
/// 12  4  required features                        8  8  sequence of the first entry
/// 16  8  number of the segment                   16  8  durable mark
/// 24  8  life id, random                         24  4  payload checksum
/// 32  8  number of the predecessor, 0 for none   28  1  record kind
/// 40  8  life id of the predecessor              29  3  zero
/// 48  8  where the predecessor ended             32     payload, then zeros to a multiple of 8, which are checked
/// 56  8  capacity of the file
/// 64  8  database id
/// 72  8  transform id, 0 for none
/// 80  4  CRC-32C of bytes 0 to 79
/// 84     zero to 2,047, then the same 2,048 bytes again
/// ```
///
/// - The header is stored twice, so that damage of one copy neither hides the segment nor goes unseen: the
///   copies may differ only where a crash cut the store of the block, and then nothing in the segment
///   was durable.
/// - The *header checksum* is the CRC-32C of bytes 4 to 31 of the record, the *payload checksum* that
///   of the payload. Both begin from a seed of the segment's life id and the record's offset, so a
///   record of an earlier life of the file, or one at another offset, does not validate.
/// - The *durable mark* is an offset of the segment: all bytes before it were known to be durable when the
///   record was written. An unreadable record below a durable mark is damage; one above is the torn
///   tail of a crash.
/// - A record of kind *end* has no payload: it exists for its durable mark, and its sequence is that of
///   the next entry. More records may follow it.
/// - The payload of a record of kind *batch* is the batch itself (`BatchFormat`): entry i has the sequence
///   of the record plus i. Entries of volatile families are left out; a batch gives them the sequences before
///   the record's, which are in no record then, as are those of a batch that has no other entries.
/// - A record of kind *entries* holds what was logged before and is logged again. Its payload is
///   entries that each carry their own sequence, ascending:
///
///   ```
///   sequence above the entry before, of the first one above the record's (varint)
///   kind (1)  family id (varint)  key size (varint)  key  [ value size (varint)  value ]
///   ```
///
///   The other copy may be in the log, too: a reader takes an entry once, by family and sequence.
/// - *Required features*: bit 0 marks a *restart*, the segment in which a log continued after a failed sync.
///   It continues the chain only where the MANIFEST cuts its predecessor, at the end that it names; the
///   segments between the two are dead. All other bits are zero.
///
/// If the header is not valid, or its number is not that of the file, the segment is empty: it waits to be used, or to
/// be used again.
enum LogFormat {
  static let headerBlockSize = 4096
  static let headerSize = 84
  /// The offset of the second copy of the header.
  static let headerCopyOffset = 2048
  static let recordHeaderSize = 32
  /// "VARVELOG". On disk: never change.
  static let magic: UInt64 = 0x474f_4c45_5652_4156
  static let version: UInt32 = 2
  /// The oldest version that can be read. Version 1 has neither records of kind *entries* nor restarts.
  static let oldestVersion: UInt32 = 1
  /// The required-feature bit of a restart. On disk: never change.
  static let restartFeature: UInt32 = 1

  /// The kind of a record. On disk: never change a number. 0 is invalid, so that zeros never decode as a record.
  enum RecordKind: UInt8, Sendable {
    /// A batch as committed.
    case batch = 1
    /// A record without payload that carries only a durable mark.
    case end = 2
    /// Entries that are logged again, each with its own sequence.
    case entries = 3
  }

  /// The size in bytes of a record with this payload, padding included.
  @inline(__always)
  static func recordSize(payloadSize: Int) -> Int {
    (recordHeaderSize &+ payloadSize &+ 7) & ~7
  }
}

/// The content of a segment's header block.
struct LogSegmentHeader: Equatable, Sendable {
  var number: FileNumber
  var lifeID: UInt64
  var predecessor: Predecessor?
  var capacity: UInt64
  var databaseID: UInt64
  /// A Boolean value that indicates whether the segment counts only if the MANIFEST cuts its predecessor.
  var isRestart = false

  /// The preceding segment, and where its last record ended when this segment began.
  struct Predecessor: Equatable, Sendable {
    var number: FileNumber
    var lifeID: UInt64
    var end: UInt64
  }

  /// Appends the whole header block.
  func encode(into writer: inout ByteWriter) {
    let start = writer.count
    encodeCopy(into: &writer)
    writer.append(repeating: 0, count: LogFormat.headerCopyOffset - LogFormat.headerSize)
    encodeCopy(into: &writer)
    writer.append(repeating: 0, count: LogFormat.headerBlockSize - (writer.count - start))
  }

  private func encodeCopy(into writer: inout ByteWriter) {
    let start = writer.count
    writer.append(integer: LogFormat.magic)
    writer.append(integer: LogFormat.version)
    writer.append(integer: isRestart ? LogFormat.restartFeature : 0)
    writer.append(integer: number.value)
    writer.append(integer: lifeID)
    writer.append(integer: predecessor?.number.value ?? 0)
    writer.append(integer: predecessor?.lifeID ?? 0)
    writer.append(integer: predecessor?.end ?? 0)
    writer.append(integer: capacity)
    writer.append(integer: databaseID)
    writer.append(integer: UInt64(0))
    writer.append(integer: CRC32C.checksum(writer.view.dropFirst(start)))
  }

  /// The result of reading a header block.
  enum Reading: Equatable, Sendable {
    /// There is no header of this number: the segment was prepared but not used in this life.
    case none
    /// There is a header. `isIntact` is true if both copies and the zeros around them are as written.
    case valid(LogSegmentHeader, isIntact: Bool)
  }

  /// Reads the header block of segment `number`. Throws `.unsupportedFormat` if it is valid but written by an
  /// unsupported version.
  static func decode(_ block: ByteView, number: FileNumber, file: String) throws(EngineError) -> Reading {
    guard block.count >= LogFormat.headerBlockSize else { return .none }
    let middle = LogFormat.headerCopyOffset
    var copies: [LogSegmentHeader] = []
    for start in [0, middle] {
      let copy = try decodeCopy(block.slice(start, start + middle), file: file)
      if let copy, copy.number == number { copies.append(copy) }
    }
    guard let header = copies.first else { return .none }
    let isSame = block.slice(0, middle) == block.slice(middle, LogFormat.headerBlockSize)
    let hasZeros = (LogFormat.headerSize..<middle).allSatisfy { block[$0] == 0 }
    return .valid(header, isIntact: copies.count == 2 && isSame && hasZeros)
  }

  private static func decodeCopy(_ block: ByteView, file: String) throws(EngineError) -> LogSegmentHeader? {
    guard block.load(0, as: UInt64.self) == LogFormat.magic else { return nil }
    guard block.load(80, as: UInt32.self) == CRC32C.checksum(block.slice(0, 80)) else { return nil }
    let version = block.load(8, as: UInt32.self)
    guard version >= LogFormat.oldestVersion, version <= LogFormat.version else {
      throw EngineError(
        .unsupportedFormat,
        "log segment has format version \(version); this version reads \(LogFormat.oldestVersion) to \(LogFormat.version)",
        file: file,
        offset: 8)
    }
    let features = block.load(12, as: UInt32.self)
    let transform = block.load(72, as: UInt64.self)
    guard features & ~LogFormat.restartFeature == 0, transform == 0 else {
      throw EngineError(
        .unsupportedFormat,
        "log segment requires features \(features) and transform \(transform), which this version does not know",
        file: file,
        offset: 12)
    }
    let predecessorNumber = block.load(32, as: UInt64.self)
    let predecessor = Predecessor(
      number: FileNumber(predecessorNumber), lifeID: block.load(40, as: UInt64.self),
      end: block.load(48, as: UInt64.self))
    return LogSegmentHeader(
      number: FileNumber(block.load(16, as: UInt64.self)), lifeID: block.load(24, as: UInt64.self),
      predecessor: predecessorNumber == 0 ? nil : predecessor, capacity: block.load(56, as: UInt64.self),
      databaseID: block.load(64, as: UInt64.self), isRestart: features & LogFormat.restartFeature != 0)
  }
}

/// The header of one record, without its payload.
struct LogRecordHeader: Equatable, Sendable {
  var payloadSize: Int
  var sequence: SequenceNumber
  var durableMark: UInt64
  var payloadChecksum: UInt32
  var kind: LogFormat.RecordKind

  @inline(__always)
  var recordSize: Int { LogFormat.recordSize(payloadSize: payloadSize) }

  /// Reads the header at `offset`; returns nil if no header of this life was written there.
  ///
  /// The cheap plausibility checks come first, because a search for records past damage calls this at every multiple of
  /// 8.
  @inline(__always)
  static func decode(_ segment: ByteView, at offset: Int, seed: UInt32) -> LogRecordHeader? {
    decode(segment, at: offset, offset: offset, capacity: segment.count, seed: seed)
  }

  /// Reads a header from a piece of a segment of `capacity` bytes: the header at `index` of the piece is at `offset` of
  /// the segment. The payload need not be in the piece.
  @inline(__always)
  static func decode(
    _ piece: ByteView, at index: Int, offset: Int, capacity: Int, seed: UInt32
  ) -> LogRecordHeader? {
    guard offset >= LogFormat.headerBlockSize, piece.count &- index >= LogFormat.recordHeaderSize else { return nil }
    let kindWord = piece.load(index &+ 28, as: UInt32.self)
    guard kindWord <= UInt32(UInt8.max), let kind = LogFormat.RecordKind(rawValue: UInt8(kindWord)) else { return nil }
    let payloadSize = Int(piece.load(index &+ 4, as: UInt32.self))
    guard payloadSize <= capacity &- offset &- LogFormat.recordHeaderSize else { return nil }
    let durableMark = piece.load(index &+ 16, as: UInt64.self)
    guard durableMark <= UInt64(offset) else { return nil }
    let stored = piece.load(index, as: UInt32.self)
    let computed = CRC32C.extend(seed, piece.slice(index &+ 4, index &+ LogFormat.recordHeaderSize))
    guard stored == computed else { return nil }
    return LogRecordHeader(
      payloadSize: payloadSize, sequence: SequenceNumber(piece.load(index &+ 8, as: UInt64.self)),
      durableMark: durableMark,
      payloadChecksum: piece.load(index &+ 24, as: UInt32.self), kind: kind)
  }
}
