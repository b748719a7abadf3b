/// The bytes of a damaged MANIFEST in which single wrong bytes are corrected by their checksums.
///
/// Each unit that has a checksum can be corrected in one byte: the header of the file, the header of a record, and the
/// payload of a record. The bytes after the first unit that cannot be corrected are left as they are.
struct ManifestCorrection {
  private(set) var bytes: [UInt8]
  /// The bytes that were corrected.
  private(set) var parts: [UnreadablePart] = []

  /// Corrects the bytes of the MANIFEST with the given number. Returns `nil` if no byte can be corrected.
  init?(_ damaged: ByteView, number: FileNumber, file: String) {
    bytes = damaged.bytes
    guard let header = correctHeader(number, file) else { return nil }
    var offset = ManifestFormat.headerSize
    while let size = correctRecord(at: offset, header, file) { offset += size }
    if parts.isEmpty { return nil }
  }

  /// Returns the header of the file, corrected if necessary.
  private mutating func correctHeader(_ number: FileNumber, _ file: String) -> ManifestFormat.Header? {
    let size = ManifestFormat.headerSize
    guard bytes.count >= size else { return nil }
    if let header = header(number, file) { return header }
    correct(checksumAt: size - 4, message: 0..<(size - 4), seed: 0)
    return header(number, file)
  }

  private func header(_ number: FileNumber, _ file: String) -> ManifestFormat.Header? {
    bytes.withByteView { view in
      do throws(EngineError) { return try ManifestFormat.decodeHeader(view, number: number, file: file) } catch {
        return nil
      }
    }
  }

  /// Returns the size of the record at an offset, corrected if necessary, or `nil` if no record can
  /// be read there.
  private mutating func correctRecord(at offset: Int, _ header: ManifestFormat.Header, _ file: String) -> Int? {
    if let size = recordSize(at: offset, header, file) { return size }
    let body = offset + ManifestFormat.recordHeaderSize
    guard body <= bytes.count else { return nil }
    let before = bytes
    let count = parts.count
    let seed = CRC32C.seed(header.fileID, UInt64(offset))
    correct(checksumAt: offset, message: (offset + 4)..<body, seed: seed)
    let size = bytes.withByteView { Int($0.load(offset + 8, as: UInt32.self)) }
    if size <= ManifestFormat.payloadSizeMaximum, ManifestFormat.paddedSize(size) <= bytes.count - body {
      correct(checksumAt: offset + 4, message: body..<(body + ManifestFormat.paddedSize(size)), seed: seed)
    }
    if let size = recordSize(at: offset, header, file) { return size }
    bytes = before
    parts.removeSubrange(count...)
    return nil
  }

  /// Returns the size of the record at an offset if it can be read.
  private func recordSize(at offset: Int, _ header: ManifestFormat.Header, _ file: String) -> Int? {
    bytes.withByteView { view in
      guard case .valid(_, let payload) = ManifestReader(view, header: header, file: file).frame(at: offset) else {
        return nil
      }
      do throws(EngineError) { _ = try VersionEdit(decoding: payload) } catch { return nil }
      return ManifestFormat.recordHeaderSize + ManifestFormat.paddedSize(payload.count)
    }
  }

  /// Corrects one byte of a message, or of its checksum.
  private mutating func correct(checksumAt location: Int, message: Range<Int>, seed: UInt32) {
    let fix = bytes.withByteView {
      ByteCorrection.locate(in: $0, checksumAt: location, message: message, seed: seed)
    }
    guard let fix else { return }
    parts.append(fix.part(found: bytes[fix.offset]))
    bytes[fix.offset] ^= fix.bits
  }
}
