public import Varve

/// Reading the rows of a list, at the snapshot of its mapping.
extension ListMapping {
  /// Reads the snapshot of the mapping. Throws `.invalidArgument` before the first step, and what `body` throws.
  public func read<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result {
    guard let snapshot else {
      throw DatabaseError(.invalidArgument, "the mapping has no snapshot yet; it gets one by advance(to:after:)")
    }
    return try snapshot.read(body)
  }

  /// Returns the identities of the rows of a section at a range of offsets, which is clamped to the section; none for a
  /// section that does not exist.
  public func ids(inSection section: Int, at offsets: Range<Int>) throws -> [ID] {
    guard picture.sections.indices.contains(section) else { return [] }
    let start = picture.starts[section]
    let rows = offsets.clamped(to: 0..<picture.rowCount(ofSection: section))
    return try read { tx in try ids(atFlat: (start + rows.lowerBound)..<(start + rows.upperBound), tx) }
  }

  /// Returns the identity of a row, or `nil` if there is no such row.
  public func id(at index: ListIndex) throws -> ID? {
    guard picture.contains(index) else { return nil }
    return try ids(inSection: index.section, at: index.offset..<(index.offset + 1)).first
  }

  /// Returns the element of a row, or `nil` if there is no such row. Throws `.decodingFailed` for a row that can't be
  /// decoded.
  public func element(at index: ListIndex) throws -> Source.Element? {
    guard let id = try id(at: index) else { return nil }
    return try read { tx in try source.element(id, tx) }
  }

  /// Returns the place of an element, or `nil` if it is not shown. With a condition, its complexity is linear in the
  /// matches of the group.
  public func index(of id: ID) throws -> ListIndex? {
    guard snapshot != nil else { return nil }
    return try read { tx in try index(of: id, tx) }
  }

  // MARK: - Inside

  func index(of id: ID, _ tx: ReadTransaction) throws -> ListIndex? {
    guard let matches else {
      guard let group = try source.group(of: id, tx), picture.slotNumbers[group] != nil,
        let place = try source.place(of: id, tx)
      else { return nil }
      return picture.index(of: place.offset, in: place.group)
    }
    guard let group = try source.group(of: id, tx), let offset = matches.ids[group]?.firstIndex(of: id) else {
      return nil
    }
    return picture.index(of: offset, in: group)
  }

  /// Returns the identities of a range of rows, counted through all sections.
  func ids(atFlat rows: Range<Int>, _ tx: ReadTransaction) throws -> [ID] {
    try picture.parts(rows).flatMap { part in
      let ids: [ID]
      if let matches {
        let all = matches.ids[part.slot.group] ?? []
        ids = Array(all[part.offsets.clamped(to: all.indices)])
      } else {
        ids = try source.ids(in: part.slot.group, at: part.offsets, tx)
      }
      return part.slot.isReversed ? ids.reversed() : ids
    }
  }
}
