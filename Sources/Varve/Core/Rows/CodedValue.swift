/// An object or metadata as written by the coder of its collection, with the catalog's numbers for its version and its
/// shape.
package struct CodedValue: Sendable {
  package let version: UInt32
  package let shape: UInt32
  package let bytes: [UInt8]
  /// The number of the coder, or `nil` for the coder with which the collection was made.
  package let coder: UInt8?

  package init(coder: UInt8? = nil, version: UInt32, shape: UInt32, bytes: [UInt8]) {
    self.coder = coder
    self.version = version
    self.shape = shape
    self.bytes = bytes
  }

  /// The value as a row of the family `metadata`.
  var metadataRow: [UInt8] {
    var row: [UInt8] = []
    row.reserveCapacity(bytes.count + 4)
    RowHeader.appendMetadata(coder: coder, version: version, shape: shape, to: &row)
    return row + bytes
  }
}

extension WriteTransaction {
  /// Sets a row from bytes in the form of its collection's coder. A row that exists keeps its row id.
  package func setCoded(
    _ object: CodedValue, metadata: CodedValue?, storageKey key: [UInt8], _ info: CollectionInfo
  ) throws {
    try check()
    let old = try present(key, info)
    var header = RowHeader(
      hasMetadata: metadata != nil, coder: object.coder, version: object.version, shape: object.shape)
    header.id = try old?.header.id ?? database.catalog.nextRowID()
    let bytes = unsafe header.row(object.bytes.span.bytes)
    // Extensions receive the object, so bytes that the definition can't read are refused instead of stored.
    let isDelivered = hasExternalListeners(info) && info.definition != nil
    let known: (any Codable)? = isDelivered ? try database.coding.definedObject(try stored(key, bytes, info)) : nil
    let metadata = metadata.map { EncodedMetadata(bytes: $0.metadataRow) }
    try put(bytes, id: header.id, of: known, metadata, key, info, over: old, namesVersions: true)
  }
}
