/// Which fields of a row are stored otherwise than they were.
enum ChangedFields {
  /// The coding keys of the fields that differ between two rows; nil where the rows don't say: another coder than the
  /// binary one has written them, or the object is not a record.
  ///
  /// Fields are compared as bytes: equal sets and dictionaries may have their elements in another order, and differ.
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

  /// The stored fields of a row. Those that have no value are left out.
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
