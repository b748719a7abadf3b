/// How entries come into a batch: by the families that the engine gave out. The batch itself knows their
/// numbers only, and stands on a lower floor.
extension WriteBatch {
  /// Sets the value of a key. Throws `.limitExceeded`, and adds nothing, where the key, the value or
  /// the batch would be too large.
  public mutating func put(_ key: RawSpan, _ value: RawSpan, in family: ColumnFamily? = nil) throws(EngineError) {
    try key.withByteView { (key) throws(EngineError) in
      try value.withByteView { (value) throws(EngineError) in try append(.put, family?.id ?? 0, key, value) }
    }
  }

  /// Removes a key, whether it is there or not. Throws like `put`.
  public mutating func delete(_ key: RawSpan, in family: ColumnFamily? = nil) throws(EngineError) {
    try key.withByteView { (key) throws(EngineError) in try append(.delete, family?.id ?? 0, key, ByteView()) }
  }

  /// Sets the value of a key, as above.
  public mutating func put(_ key: [UInt8], _ value: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try unsafe put(key.span.bytes, value.span.bytes, in: family)
  }

  /// Removes a key, as above.
  public mutating func delete(_ key: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try unsafe delete(key.span.bytes, in: family)
  }
}
