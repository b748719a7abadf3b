/// Compares the stored fields of a row before and after a change.
enum ChangedFields {
  /// Returns the coding keys of the fields that differ between two rows.
  ///
  /// Returns nil if the rows do not have fields: another coder than the binary one has written them, or the object is
  /// not a record. Fields are compared as bytes: equal sets and dictionaries may store their elements in different
  /// orders, and then differ.
  static func between(
    _ before: [UInt8], _ now: [UInt8], _ info: CollectionInfo, _ coder: BinaryCoder
  ) throws -> Set<String>? {
    let shapes = coder.makeShapeLookup()
    guard let old = try Fields(before, info, shapes), let new = try Fields(now, info, shapes) else { return nil }
    var changed: Set<String> = []
    for (name, value) in new.values where old.values[name] != value { changed.insert(name) }
    for name in old.values.keys where new.values[name] == nil { changed.insert(name) }
    return changed
  }

  /// The stored fields of a row, without those that have no value.
  private struct Fields {
    private(set) var values: [String: ArraySlice<UInt8>] = [:]

    init?(_ row: [UInt8], _ info: CollectionInfo, _ shapes: borrowing ShapeLookup) throws {
      let (header, start) = try unsafe RowHeader.read(row.span.bytes)
      guard try info.coder(marked: header.coder) == .binary, header.shape != 0 else { return nil }
      let names = try shapes.shape(header.shape).fields
      try unsafe row.withUnsafeBytes { bytes in
        let source = unsafe ByteSource(UnsafeRawBufferPointer(rebasing: bytes[start...]))
        var offset = 0
        for name in names {
          let begin = offset
          try source.skip(&offset, count: 1, shapes)
          if try source.byte(begin) != ValueTag.absent { values[name] = row[start + begin..<start + offset] }
        }
      }
    }
  }
}
