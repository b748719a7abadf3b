/// Adds entries by column family. The batch itself is on a lower layer and knows only the families' numbers.
extension WriteBatch {
  /// Sets the value of a key.
  ///
  /// Throws `.limitExceeded` and adds no entry if the key, the value or the batch would exceed its limit.
  public mutating func put(_ key: RawSpan, _ value: RawSpan, in family: ColumnFamily? = nil) throws(EngineError) {
    try key.withByteView { (key) throws(EngineError) in
      try value.withByteView { (value) throws(EngineError) in try append(.put, family?.id ?? .default, key, value) }
    }
  }

  /// Removes a key, whether it is there or not. Throws like `put`.
  public mutating func delete(_ key: RawSpan, in family: ColumnFamily? = nil) throws(EngineError) {
    try key.withByteView { (key) throws(EngineError) in try append(.delete, family?.id ?? .default, key, ByteView()) }
  }

  /// Sets the value of a key; key and value are arrays.
  public mutating func put(_ key: [UInt8], _ value: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try unsafe put(key.span.bytes, value.span.bytes, in: family)
  }

  /// Removes a key given as an array.
  public mutating func delete(_ key: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try unsafe delete(key.span.bytes, in: family)
  }

  /// Removes a key that was put exactly once since it was last removed, by a single delete or a range delete:
  /// never by `delete`, and never merged.
  ///
  /// Cheaper than `delete` if this holds: a compaction removes the put and its removal together as soon as it merges
  /// both. If it does not hold, the result of reads of the key is undefined: an older put can be visible again. Builds
  /// with `assert` stop when a compaction detects this. Throws the errors of `put`.
  public mutating func singleDelete(_ key: RawSpan, in family: ColumnFamily? = nil) throws(EngineError) {
    try key.withByteView { (key) throws(EngineError) in
      try append(.singleDelete, family?.id ?? .default, key, ByteView())
    }
  }

  /// Removes a key, given as an array, that was put exactly once since it was last removed.
  public mutating func singleDelete(_ key: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try unsafe singleDelete(key.span.bytes, in: family)
  }

  /// Removes all keys from `lower` (included) to `upper` (excluded), including those that this batch put before.
  ///
  /// Adds one entry, however many keys exist. Equal bounds remove nothing. Throws `.invalidArgument` if `upper` is
  /// before `lower`, and `.limitExceeded`.
  public mutating func deleteRange(
    from lower: RawSpan, to upper: RawSpan, in family: ColumnFamily? = nil
  ) throws(EngineError) {
    try lower.withByteView { (lower) throws(EngineError) in
      try upper.withByteView { (upper) throws(EngineError) in try appendRange(family?.id ?? .default, lower, upper) }
    }
  }

  /// Removes all keys from `lower` (included) to `upper` (excluded), given as arrays.
  public mutating func deleteRange(
    from lower: [UInt8], to upper: [UInt8], in family: ColumnFamily? = nil
  ) throws(EngineError) {
    try unsafe deleteRange(from: lower.span.bytes, to: upper.span.bytes, in: family)
  }

  /// The greatest key that the batch puts into a family, with `StampLocation.pending` for a stamp, or `nil` if there is
  /// none.
  ///
  /// Complexity: O(n).
  public func lastKey(in family: ColumnFamily) -> [UInt8]? { lastKey(in: family.id) }

  /// Adds an operand for the family's merge operator. The write throws `.invalidArgument` if the family has none.
  /// Throws like `put`.
  public mutating func merge(_ key: RawSpan, _ operand: RawSpan, in family: ColumnFamily? = nil) throws(EngineError) {
    try key.withByteView { (key) throws(EngineError) in
      try operand.withByteView { (operand) throws(EngineError) in
        try append(.merge, family?.id ?? .default, key, operand)
      }
    }
  }

  /// Adds an operand for the family's merge operator; key and operand are arrays.
  public mutating func merge(_ key: [UInt8], _ operand: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try unsafe merge(key.span.bytes, operand.span.bytes, in: family)
  }

  /// Sets the value of a key, with the sequence of the batch's commit, as eight bytes big-endian, replacing the bytes
  /// at `position`.
  ///
  /// With it, keys can ascend in commit order, and rows can name the commit that made them. The sequence number is the
  /// one that `write` returns. Throws `.invalidArgument` if the eight bytes do not lie inside the key or value.
  public mutating func putStamped(
    _ key: RawSpan, _ value: RawSpan, at position: StampLocation, in family: ColumnFamily? = nil
  ) throws(EngineError) {
    try position.check(keySize: key.byteCount, valueSize: value.byteCount)
    try key.withByteView { (key) throws(EngineError) in
      try value.withByteView { (value) throws(EngineError) in
        try appendStamped(family?.id ?? .default, key, value, at: position)
      }
    }
  }

  /// Sets the value of a key, with the commit's sequence in it; key and value are arrays.
  public mutating func putStamped(
    _ key: [UInt8], _ value: [UInt8], at position: StampLocation, in family: ColumnFamily? = nil
  ) throws(EngineError) {
    try unsafe putStamped(key.span.bytes, value.span.bytes, at: position, in: family)
  }
}
