// The format of a MANIFEST file, and how its end is interpreted.
//
// # Format
// A header of 64 bytes, one snapshot, then edits, each at a multiple of 8:
//
//     header                              record at offset o
//      0  8  magic "VarveMan"              0  4  checksum of bytes 4..<16
//      8  4  format of the framing: 1      4  4  checksum of payload and padding
//     12  4  0                             8  4  size of the payload
//     16  8  required features            12  1  kind: 1 snapshot, 2 edit, 3 mark
//     24  8  id of this file, random      13  3  0
//     32  8  database id                  16  n  payload: a VersionEdit; nothing in a mark
//     40  8  the file's own number             p  zeros up to a multiple of 8
//     48 12  0
//     60  4  checksum of bytes 0..<60
//
// Checksums are CRC-32C; those of records are seeded with the file's id and the record's offset, so bytes of another
// file, of another offset or of an earlier life of the disk block don't validate. On disk: never change a number.
//
// The snapshot contains the whole state from which the file begins. A *mark* means that everything before it was
// synced. It is written without a sync after each synced append, and the next append overwrites it.
//
// # Invariants
// 1. A record is written only after every record before it was synced. So at most one record of a
//    file, the last, was not acknowledged.
// 2. After a failed write or sync nothing more is appended to the file.
// 3. CURRENT names a file only after header and snapshot were synced.
//
// # How the end is interpreted
// Reading stops at the first offset where no valid record begins. If a valid record header follows anywhere after it,
// then by 1 the record here was acknowledged: this is *damage*, `.corruption`. If nothing valid follows, it is a *torn
// tail*: by 1 at most the one record that was never acknowledged, and it is cut. A header or a snapshot that does not
// validate is damage by 3.
//
// So a flipped bit is detected everywhere: in the header and the snapshot by 3; in an edit by the records or the mark
// after it. In a mark it does no harm, since a mark contains nothing. The exception is an edit at the very end whose
// mark was not written back before a power loss: if a bit of it flipped, it looks like an edit that was never
// acknowledged, and no format that appends with one sync can distinguish the two. `oldestLog` then names the log
// segments from before that edit, and recovery misses those that were reused since. A truncated file reads as a prefix
// of its edits, never less than its snapshot.

/// The kind of a record. On disk: never change a number.
enum ManifestRecordKind: UInt8, Sendable {
  case snapshot = 1
  case edit = 2
  case mark = 3
}

enum ManifestFormat {
  static let magic: UInt64 = 0x6e61_4d65_7672_6156
  static let framingVersion: UInt32 = 1
  static let headerSize = 64
  static let recordHeaderSize = 16
  static let alignment = 8
  /// Larger than any snapshot: enough for ten million tables with long keys.
  static let payloadSizeMaximum = 1 << 30

  struct Header: Sendable, Equatable {
    var requiredFeatures: UInt64
    /// The random id of the file, which seeds the records' checksums.
    var fileID: UInt64
    var databaseID: UInt64
    var number: FileNumber
  }

  static func encode(_ header: Header, appendingTo writer: inout ByteWriter) {
    let start = writer.count
    writer.append(integer: magic)
    writer.append(integer: framingVersion)
    writer.append(integer: UInt32(0))
    writer.append(integer: header.requiredFeatures)
    writer.append(integer: header.fileID)
    writer.append(integer: header.databaseID)
    writer.append(integer: header.number.value)
    writer.append(repeating: 0, count: 12)
    writer.append(integer: CRC32C.checksum(writer.view.dropFirst(start)))
  }

  /// Reads the header of the file `file`, whose name has the number `number`.
  static func decodeHeader(_ bytes: ByteView, number: FileNumber, file: String) throws(EngineError) -> Header {
    guard bytes.count >= headerSize else {
      throw .corruption("a MANIFEST of \(bytes.count) bytes has no header", file: file, offset: 0)
    }
    guard bytes.load(0, as: UInt64.self) == magic else {
      throw .corruption("not a MANIFEST: wrong magic", file: file, offset: 0)
    }
    guard bytes.load(60, as: UInt32.self) == CRC32C.checksum(bytes.slice(0, 60)) else {
      throw .corruption("the checksum of the MANIFEST's header is wrong", file: file, offset: 0)
    }
    let framing = bytes.load(8, as: UInt32.self)
    guard framing == framingVersion else {
      throw EngineError(.unsupportedFormat, "a MANIFEST of framing \(framing)", file: file, offset: 8)
    }
    let header = Header(
      requiredFeatures: bytes.load(16, as: UInt64.self), fileID: bytes.load(24, as: UInt64.self),
      databaseID: bytes.load(32, as: UInt64.self), number: FileNumber(bytes.load(40, as: UInt64.self)))
    let unknown = header.requiredFeatures & ~ManifestState.knownFeatures
    guard unknown == 0 else {
      throw EngineError(
        .unsupportedFormat, "the MANIFEST needs features 0x\(String(unknown, radix: 16)), unknown to this engine",
        file: file, offset: 16)
    }
    guard header.number == number else {
      throw .corruption("the MANIFEST was written as number \(header.number)", file: file, offset: 40)
    }
    return header
  }

  /// Encodes a record for `offset` of the file, and appends it to the buffer.
  static func encode(
    _ kind: ManifestRecordKind, payload: ByteView, at offset: UInt64, fileID: UInt64,
    appendingTo writer: inout ByteWriter
  ) {
    let start = writer.count
    writer.append(repeating: 0, count: recordHeaderSize)
    writer.append(payload)
    writer.append(repeating: 0, count: paddedSize(payload.count) - payload.count)
    let seed = CRC32C.seed(fileID, offset)
    writer.patch(integer: CRC32C.extend(seed, writer.view.dropFirst(start + recordHeaderSize)), at: start + 4)
    writer.patch(integer: UInt32(payload.count), at: start + 8)
    writer.patch(integer: kind.rawValue, at: start + 12)
    let head = writer.view.slice(start + 4, start + recordHeaderSize)
    writer.patch(integer: CRC32C.extend(seed, head), at: start)
  }

  static func paddedSize(_ size: Int) -> Int { (size + alignment - 1) / alignment * alignment }
}
