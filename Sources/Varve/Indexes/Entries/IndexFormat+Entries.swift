/// The content of the parts of indexes, for tools.
extension IndexFormat {
  /// Returns the key of a row's entry for a value.
  package static func entry(value: some Collection<UInt8>, row: [UInt8]) -> [UInt8] {
    var entry = Array(value)
    IndexEntry.append(row, to: &entry)
    return entry
  }

  /// Returns the value and the row's key of an entry. Throws `.corruption`.
  package static func parts(ofEntry key: [UInt8]) throws -> (value: [UInt8], row: [UInt8]) {
    let range = try unsafe IndexEntry.rowKey(in: key.span.bytes)
    return (Array(key[..<range.lowerBound]), Array(key[range]))
  }

  /// Returns the values that a row has emitted, by the numbers of their indexes. Throws `.corruption`.
  package static func emitted(_ bytes: [UInt8]) throws -> [(index: UInt32, values: [ArraySlice<UInt8>])] {
    try EmittedValues.groups(bytes).values
  }

  /// Returns the number of rows with the value of another row, from an entry of the part `collisions`. Throws
  /// `.corruption`.
  package static func collisionCount(_ bytes: [UInt8], index: String, collection: String) throws -> Int {
    try IndexCollisions(bytes, index: index, collection: collection).count
  }
}
