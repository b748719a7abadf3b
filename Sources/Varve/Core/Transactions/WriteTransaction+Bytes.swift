/// Setting rows as bytes: for tools, and for callers that have encoded objects already.
extension WriteTransaction {
  /// Sets the object and the metadata of a row to bytes as the collection's coder would write them.
  ///
  /// It is for collections whose coder is `.raw`, `.json`, `.propertyList` or the program's own. The bytes of `.binary`
  /// can't be interpreted without their shape, so the method throws `.invalidArgument` for them, and also for metadata
  /// with `.raw`, which are binary. Rules for objects (`sanitized`) are not applied. If an extension receives the
  /// changes of the collection and the program has defined it, bytes that can't be decoded are refused with
  /// `.decodingFailed`. Otherwise it throws as `set` does.
  public func setBytes(
    _ object: [UInt8], metadata: [UInt8]? = nil, key: some KeyCodable, in collection: String
  ) throws {
    // This is checked before the collection is made, which would use that coder.
    let coder = try info(collection)?.coder ?? database.options.coder
    guard coder != .binary, metadata == nil || coder.ofMetadata != .binary else {
      let part = coder == .binary ? "objects" : "metadata"
      throw DatabaseError(
        .invalidArgument, "\(part) of the collection are binary, and mean nothing without their shape; set objects",
        collection: collection)
    }
    let (info, key) = try location(key, collection)
    let old = try present(key, info)
    var header = RowHeader(hasMetadata: metadata != nil, coder: info.coderMark, version: info.versions.current)
    header.id = try old?.header.id ?? database.catalog.nextRowID()
    let row = unsafe header.row(object.span.bytes)
    let stored = try self.stored(key, row, info)
    let known: (any Codable)? =
      hasExternalListeners(info) && info.definition != nil ? try database.coding.definedObject(stored) : nil
    let metadataRow = metadata.map { RowHeader.metadataRow(coder: info.coderMark, version: header.version, $0) }
    try put(row, id: header.id, of: known, metadataRow.map { EncodedMetadata(bytes: $0) }, key, info, over: old)
  }
}

extension RowHeader {
  /// Returns a row of the family `metadata`, from bytes without a shape.
  static func metadataRow(coder: UInt8?, version: UInt32, _ metadata: [UInt8]) -> [UInt8] {
    var row: [UInt8] = []
    appendMetadata(coder: coder, version: version, shape: 0, to: &row)
    return row + metadata
  }
}
