/// Handles rows that had the same value of a unique index before it was ready.
extension IndexesTransaction {
  /// Returns the stored collisions of an index, or nil if there are none.
  func collisions(of index: Int) throws -> IndexCollisions? {
    if let known = knownCollisions[index] { return known }
    // Collisions are found by the commit that ends a build. An index without collisions has none until it is built
    // again.
    let since = context.readySince(part: index)
    if let since, definition.isClean(index, since: since) { return nil }
    let named = definition.indexes[index]
    let found = try part(definition.collisionsPart).get(named.collisionsKey).map {
      try IndexCollisions($0, index: named.name, collection: definition.collection)
    }
    knownCollisions[index] = found
    if found == nil, let since { definition.setClean(index, since: since) }
    return found
  }

  /// Removes the stored collisions of an index that is built again.
  func forgetCollisions(of index: Int) throws {
    knownCollisions[index] = nil
    try part(definition.collisionsPart).delete(definition.indexes[index].collisionsKey)
  }

  /// Scans the entries of an index that has all rows now, and stores the values that several rows have. Complexity:
  /// O(n).
  func findCollisions(of index: Int) throws {
    var previous: (value: [UInt8], row: [UInt8])?
    var isNil = false
    var count = 0
    var pairs: [[[UInt8]]] = []
    var cursor = try part(index).cursor(keysOnly: true)
    while try cursor.withNext({ key, _ in
      let range = try IndexEntry.rowKey(in: key)
      let value = key.extracting(0..<range.lowerBound)
      let isSame = previous.map { unsafe ByteOrder.compare($0.value.span.bytes, value) == 0 } ?? false
      guard isSame, let first = previous else {
        previous = (value.copied, key.extracting(range).copied)
        isNil = false
        return
      }
      if isNil { return }
      if count == 0 || pairs.last?[0] != first.value { isNil = try KeyPart.hasNil(first.value) }
      if isNil { return }
      count += 1
      if pairs.count < IndexCollisions.pairsMaximum {
        pairs.append([first.value, first.row, key.extracting(range).copied])
      }
    }) != nil {}
    let named = definition.indexes[index]
    knownCollisions[index] = nil
    if count == 0 { return try part(definition.collisionsPart).delete(named.collisionsKey) }
    try part(definition.collisionsPart).put(named.collisionsKey, IndexCollisions.bytes(count: count, pairs))
  }
}

extension KeyPart {
  /// Returns whether a part of a key is nil.
  static func hasNil(_ key: [UInt8]) throws -> Bool {
    try parts(of: key).contains { $0 == .null || $0 == .descending(.null) }
  }
}
