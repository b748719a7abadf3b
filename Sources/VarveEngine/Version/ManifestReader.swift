/// Reads the records of a MANIFEST in order and interprets its end (see `ManifestFormat`).
///
/// The reader uses the bytes of the whole file, which the caller keeps alive.
struct ManifestReader {
  /// One snapshot or edit and its offset.
  struct Record: Sendable {
    let kind: ManifestRecordKind
    let offset: UInt64
    let size: Int
    var edit: VersionEdit
  }

  /// How a file ends.
  enum Ending: Sendable, Equatable {
    /// The file ends with a mark at the offset: everything before it was synced, and an append may overwrite it.
    case marked(at: UInt64)
    /// The file ends without a mark, or with an incomplete record, at the offset. Nothing may be appended, because it
    /// is unknown whether the last record survives a power loss.
    case torn(at: UInt64)
  }

  let header: ManifestFormat.Header
  /// The end of the file, set once `next` returned nil.
  private(set) var ending: Ending?
  private let bytes: ByteView
  private let file: String
  private var position = ManifestFormat.headerSize

  init(_ bytes: ByteView, number: FileNumber, file: String) throws(EngineError) {
    header = try ManifestFormat.decodeHeader(bytes, number: number, file: file)
    self.bytes = bytes
    self.file = file
  }

  /// Creates a reader of the records after a header that the caller has verified.
  init(_ bytes: ByteView, header: ManifestFormat.Header, file: String) {
    self.header = header
    self.bytes = bytes
    self.file = file
  }

  enum Frame {
    /// A record with correct checksums.
    case valid(ManifestRecordKind, ByteView)
    /// A record header with a correct checksum and an unknown kind.
    case unknownKind(UInt8)
    /// Any other bytes, or the end.
    case invalid
  }

  /// Returns the next record, or nil at the end. Throws `.corruption` if an acknowledged record is damaged.
  mutating func next() throws(EngineError) -> Record? {
    let isFirst = position == ManifestFormat.headerSize
    switch frame(at: position) {
    case .valid(.mark, _):
      if isFirst { throw corruption("the MANIFEST has no snapshot") }
      try finish(after: position + ManifestFormat.recordHeaderSize, .marked(at: UInt64(position)))
      return nil
    case .valid(let kind, let payload):
      guard (kind == .snapshot) == isFirst else {
        throw corruption(
          "the record is \(kind == .snapshot ? "a snapshot" : "an edit"); the first record is a snapshot, and all others are edits"
        )
      }
      let offset = position
      let edit = try VersionEdit(
        decoding: payload, file: file, fileOffset: UInt64(offset + ManifestFormat.recordHeaderSize))
      let size = ManifestFormat.recordHeaderSize + ManifestFormat.paddedSize(payload.count)
      position += size
      return Record(kind: kind, offset: UInt64(offset), size: size, edit: edit)
    case .unknownKind(let kind):
      throw EngineError(
        .unsupportedFormat, "a MANIFEST record of unknown kind \(kind); a newer version wrote it",
        file: file, offset: UInt64(position))
    case .invalid:
      if isFirst { throw corruption("the MANIFEST's snapshot is damaged or missing") }
      try finish(after: position, .torn(at: UInt64(position)))
      return nil
    }
  }

  /// Ends the reading unless a valid record follows, in which case the bytes at the cursor are damaged.
  ///
  /// The rest of a torn append that overwrote the mark partially may follow a mark, but no record.
  private mutating func finish(after start: Int, _ ending: Ending) throws(EngineError) {
    var offset = start + (start == position ? ManifestFormat.alignment : 0)
    while offset + ManifestFormat.recordHeaderSize <= bytes.count {
      if hasValidHeader(at: offset) {
        throw corruption("a damaged MANIFEST record: the one at byte \(offset) was written after it was synced")
      }
      offset += ManifestFormat.alignment
    }
    self.ending = ending
  }

  private func hasValidHeader(at offset: Int) -> Bool {
    let head = bytes.slice(offset + 4, offset + ManifestFormat.recordHeaderSize)
    let seed = CRC32C.seed(header.fileID, UInt64(offset))
    return bytes.load(offset, as: UInt32.self) == CRC32C.extend(seed, head)
  }

  /// Returns the frame that begins at an offset.
  func frame(at offset: Int) -> Frame {
    let bodyStart = offset + ManifestFormat.recordHeaderSize
    guard bodyStart <= bytes.count, hasValidHeader(at: offset) else { return .invalid }
    let size = Int(bytes.load(offset + 8, as: UInt32.self))
    guard let kind = ManifestRecordKind(rawValue: bytes[offset + 12]) else {
      return .unknownKind(bytes[offset + 12])
    }
    guard size <= ManifestFormat.payloadSizeMaximum, kind != .mark || size == 0 else { return .invalid }
    let paddedSize = ManifestFormat.paddedSize(size)
    guard bytes.count - bodyStart >= paddedSize else { return .invalid }
    let body = bytes.slice(bodyStart, bodyStart + paddedSize)
    let seed = CRC32C.seed(header.fileID, UInt64(offset))
    guard bytes.load(offset + 4, as: UInt32.self) == CRC32C.extend(seed, body) else { return .invalid }
    return .valid(kind, body.slice(0, size))
  }

  private func corruption(_ message: String) -> EngineError {
    .corruption(message, file: file, offset: UInt64(position))
  }
}
