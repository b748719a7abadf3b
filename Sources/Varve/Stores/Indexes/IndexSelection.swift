/// The entries of an index that a call of a store selects.
struct IndexSelection<Format: StoreFormat>: Sendable {
  private let slot: Result<Int, any Error>
  private let bounds: Result<(lower: [UInt8], upper: [UInt8]?), any Error>
  var isDescending = false
  var limit: Int?

  /// Selects the entries with some values. Invalid arguments are thrown by `begin` and `count`.
  init<Index: StoreIndex>(
    _ values: IndexValues<Index.Value>, _ path: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil
  ) {
    let slot = Result { try DeclaredIndexes<Format>.found().slot(of: path) }
    self.slot = slot
    bounds = Result { try values.bounds(DeclaredIndexes<Format>.found().list[slot.get()].foldedParts) }
    isDescending = descending
    self.limit = limit
  }

  /// Returns the check of the rows' values, or nil if none is needed. It is needed if the index has only prefixes of
  /// values.
  func check(_ declaration: IndexDeclaration<Format.Instance>) throws -> ValueCheck<Format.Instance>? {
    if declaration.prefix == nil { return nil }
    let (lower, upper) = try bounds.get()
    return ValueCheck(declaration.fields.compactMap(\.encoder), lower: lower, upper: upper)
  }

  /// Returns the index, and the range of its entries. Throws `.invalidArgument`, `.invalidKey`, `.notReady`,
  /// `.notUnique`, `.unknownExtension`.
  func part(
    _ indexes: IndexesTransaction<Format.Instance>
  ) throws -> (part: Part, index: CheckedIndex<Format.Instance>, range: StorageRange) {
    if let limit, limit < 0 {
      throw DatabaseError(.invalidArgument, "the limit is \(limit); it must not be negative")
    }
    let slot = try slot.get()
    let (lower, upper) = try bounds.get()
    let part = try indexes.readable(slot)
    let index = indexes.definition.indexes[slot]
    return (part, index, StorageRange(lower: index.declaration.lowerEnd(lower), upper: upper))
  }
}

/// Checks whether the values of instances are in a range, for an index that has only prefixes of values.
struct ValueCheck<Instance> {
  private let encoders: [FieldEncoder]
  var lower: [UInt8]
  var upper: [UInt8]?

  init(_ encoders: [FieldEncoder], lower: [UInt8], upper: [UInt8]?) {
    self.encoders = encoders
    self.lower = lower
    self.upper = upper
  }

  func holds(for instance: Instance) throws -> Bool {
    var key = KeyEncoder()
    try unsafe withUnsafePointer(to: instance) { pointer in
      let address = unsafe InstanceAddress(UnsafeRawPointer(pointer))
      for encoder in encoders { try encoder.append(address, to: &key) }
    }
    let isBefore = upper.map { ByteOrder.precedes(key.bytes, $0) } ?? true
    return isBefore && !ByteOrder.precedes(key.bytes, lower)
  }
}

extension IndexDeclaration {
  /// Returns the lower bound of the entries for a lower bound of values.
  func lowerEnd(_ bound: [UInt8]) -> [UInt8] {
    prefix?.lower(bound, after: fields.count - 1) ?? bound
  }
}
