extension Part {
  /// Adds an entry to a counted part, whose key has no value yet.
  ///
  /// Throws as `put` does, and `.invalidArgument` for a part that is not counted. Debug builds stop if the key has a
  /// value.
  public func insert(_ key: [UInt8], _ value: [UInt8]) throws {
    try requireCounted()
    try put(key, value)
  }

  /// Removes an entry of a counted part, whose key has a value.
  ///
  /// Throws `.invalidArgument` for a part that is not counted. Debug builds stop if the key has no value.
  public func remove(_ key: [UInt8]) throws {
    try requireCounted()
    try delete(key)
  }

  /// Returns the number of entries of a range that come before a key, which need not have a value.
  public func offset(of key: [UInt8], in range: StorageRange = StorageRange()) throws -> Int {
    try requireCounted()
    var before = range
    if before.upper.map({ ByteOrder.precedes(key, $0) }) ?? true { before.upper = key }
    return try count(before)
  }

  /// Returns the entry at an offset of a range, or `nil` if the range has no such entry. With `isReverse` the offset
  /// counts from the end of the range.
  public func entry(
    at offset: Int, in range: StorageRange = StorageRange(), isReverse: Bool = false
  ) throws -> (key: [UInt8], value: [UInt8])? {
    var cursor = try cursor(from: offset, in: range, isReverse: isReverse)
    return try cursor.next()
  }

  /// Returns a cursor over the entries of a range from an offset on.
  public func cursor(
    from offset: Int, in range: StorageRange = StorageRange(), isReverse: Bool = false, keysOnly: Bool = false
  ) throws -> PartCursor {
    try requireCounted()
    var cursor = try cursor(range, isReverse: isReverse, keysOnly: keysOnly)
    guard offset >= 0 else { return PartCursor(nil, open) }
    for _ in 0..<offset { if try cursor.next() == nil { break } }
    return cursor
  }

  private func requireCounted() throws {
    guard open.registered.traits.parts[slot].isCounted else { throw wrongForm("is not counted") }
  }
}
