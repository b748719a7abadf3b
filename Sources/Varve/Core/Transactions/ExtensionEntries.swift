/// What a part of an extension has, byte by byte, for comparisons in tests.
package struct ExtensionEntries: Equatable {
  /// The name of the part.
  package let part: String
  /// Whether the part's content is derived from rows.
  package let isDerived: Bool
  /// The entries in order.
  package var entries: [Entry] = []

  /// An entry of a part.
  package struct Entry: Equatable {
    package let key: [UInt8]
    package let value: [UInt8]
  }
}

extension ReadTransaction {
  /// Returns what an extension keeps, part by part. In a write transaction parts that can't be read there, because they
  /// are append-only, are left out.
  package final func entries(ofExtension name: String) throws -> [ExtensionEntries] {
    guard let registered = try find(name) else {
      throw DatabaseError(.unknownExtension, "no extension is registered as \"\(name)\"")
    }
    let open = try open(registered)
    return try registered.traits.parts.enumerated().compactMap { slot, definition in
      if definition.form == .scratch || (isWritable && definition.form == .appendOnly) { return nil }
      var entries = ExtensionEntries(part: definition.name, isDerived: definition.isDerived)
      var cursor = try Part(open, slot).cursor()
      while let (key, value) = try cursor.next() { entries.entries.append(.init(key: key, value: value)) }
      return entries
    }
  }
}
