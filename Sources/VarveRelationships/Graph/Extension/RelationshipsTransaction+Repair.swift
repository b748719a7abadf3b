internal import Varve

/// Repairs edges that were added by hand, after damaged blocks of their families were given up.
extension RelationshipsTransaction {
  /// Completes a build in which all rows were passed to the extension, because it is new, has another version, or may
  /// be damaged.
  ///
  /// Declared edges are then correct. An edge that was added by hand may lack one of its entries: it is created again
  /// from the other one. The attribute of an edge whose entry by source is lost is lost, too.
  ///
  /// Complexity: one lookup for each entry of such edges.
  @_spi(Extensions) public func didFinishBuild() throws {
    let family = families.manual
    var missing: [(key: [UInt8], value: [UInt8])] = []
    var cursor = try family.from.cursor()
    while let (bytes, valueBytes) = try cursor.next() {
      let key = try EdgeKey(bytes, bySource: true)
      var value = try EdgeValue(valueBytes, bySource: true)
      value.order = key.order
      var toKey: [UInt8] = []
      EdgeFormat.appendToKey(key.second, key.name, key.first, to: &toKey)
      if try family.to.get(toKey) == nil { missing.append((toKey, value.toBytes)) }
    }
    for (key, value) in missing { try family.to.put(key, value) }
    missing.removeAll()
    cursor = try family.to.cursor()
    while let (bytes, valueBytes) = try cursor.next() {
      let value = try EdgeValue(valueBytes, bySource: false)
      let fromKey = try Self.fromKey(bytes, value.order)
      guard try family.from.get(fromKey) == nil else { continue }
      missing.append((fromKey, [value.rules.rawValue, value.dangling.rawValue]))
    }
    for (key, value) in missing {
      try family.from.put(key, value)
      // The edge has no attribute any more.
      let entry = try EdgeKey(key, bySource: true)
      var value = try EdgeValue(value, bySource: true)
      value.order = entry.order
      var toKey: [UInt8] = []
      EdgeFormat.appendToKey(entry.second, entry.name, entry.first, to: &toKey)
      try family.to.put(toKey, value.toBytes)
    }
  }
}
