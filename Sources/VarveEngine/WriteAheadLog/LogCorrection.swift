/// Corrects single wrong bytes of a log record by its checksums: one of the header, one of the payload, and any of the
/// padding.
enum LogCorrection {
  /// Corrects the record at `start`, which must end at `end` or before. Returns the corrected bytes, or `nil` if no
  /// record can be read there; the content is then unchanged.
  ///
  /// Only for bytes that are certainly a record, because other records follow, or a durable mark covers them. A record
  /// that was being written when the power was lost must not be completed.
  static func correct(
    _ content: inout FileContents, from start: Int, to end: Int, lifeID: UInt64
  ) -> [UnreadablePart]? {
    let body = start + LogFormat.recordHeaderSize
    guard body <= end else { return nil }
    var parts: [UnreadablePart] = []
    var fixes: [ByteCorrection.Fix] = []
    func flip(_ fix: ByteCorrection.Fix, _ content: inout FileContents) {
      parts.append(fix.part(found: content.view[fix.offset]))
      fixes.append(fix)
      content.flip(fix.bits, at: fix.offset)
    }
    let seed = CRC32C.seed(lifeID, UInt64(start))
    if LogRecordHeader.decode(content.view, at: start, seed: seed) == nil,
      let fix = ByteCorrection.locate(in: content.view, checksumAt: start, message: (start + 4)..<body, seed: seed)
    {
      flip(fix, &content)
    }
    if let header = LogRecordHeader.decode(content.view, at: start, seed: seed), start + header.recordSize <= end {
      let padding = body + header.payloadSize
      let payload = content.view.slice(body, padding)
      if let fix = ByteCorrection.locate(payload, seed: seed, stored: header.payloadChecksum) {
        flip(ByteCorrection.Fix(offset: body + fix.offset, bits: fix.bits), &content)
      }
      for offset in padding..<(start + header.recordSize) where content.view[offset] != 0 {
        flip(ByteCorrection.Fix(offset: offset, bits: content.view[offset]), &content)
      }
    }
    if let record = LogReader.record(in: content.view, at: start, lifeID: lifeID),
      start + record.header.recordSize <= end
    {
      return parts
    }
    for fix in fixes { content.flip(fix.bits, at: fix.offset) }
    return nil
  }
}
