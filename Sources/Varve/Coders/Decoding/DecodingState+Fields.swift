/// Decodes fields of records, and entries of maps.
extension DecodingState {
  /// Returns the position of a key's value, or nil if the value has no such field. A field that is found may be absent.
  @inline(__always)
  mutating func location<Key: CodingKey>(_ cell: ContainerCell, _ key: Key) throws -> DecodingPosition? {
    let slot = cell.slot
    if isLive(slot, cell.id), frames[slot].table == cell.table, let positions = frames[slot].positions {
      let next = frames[slot].next
      if Int(positions[EncodingState.byte(key)]) == next && frames[slot].owed == 0 {
        let start = frames[slot].cursor
        offsets[frames[slot].offsets &+ next] = start
        return DecodingPosition(slot: slot, part: next, start: start, isNext: true)
      }
    }
    return try placeElsewhere(cell, key)
  }

  @inline(never)
  private mutating func placeElsewhere<Key: CodingKey>(_ cell: ContainerCell, _ key: Key) throws -> DecodingPosition? {
    let slot = cell.slot
    guard isLive(slot, cell.id) else { throw late() }
    do throws(ReadFailure) {
      if frames[slot].kind == .map { return try placeInMap(slot, key.stringValue) }
      guard frames[slot].kind == .record, let shape = frames[slot].shape else { return nil }
      guard cell.table.pointee.isByte else {
        guard let position = shape.position(of: key.stringValue) else {
          return nil
        }
        return try location(slot, position)
      }
      let positions = cell.table.pointee.positions(in: shape)
      frames[slot].table = cell.table
      frames[slot].positions = positions
      guard let position = positions.position(of: key, byte: EncodingState.byte(key)) else { return nil }
      return try location(slot, position)
    } catch {
      throw self.error(error, Any.self, frames[slot].cursor, path(to: slot) + [key])
    }
  }

  /// Returns the position of a record's field.
  private mutating func location(_ slot: Int, _ position: Int) throws(ReadFailure) -> DecodingPosition {
    if position < frames[slot].next {
      let start = offsets[frames[slot].offsets + position]
      return DecodingPosition(slot: slot, part: position, start: start, isNext: false)
    }
    try settle(slot)
    while frames[slot].next < position {
      offsets[frames[slot].offsets + frames[slot].next] = frames[slot].cursor
      try source.skip(&frames[slot].cursor, count: 1, shapes)
      frames[slot].next += 1
    }
    let start = frames[slot].cursor
    offsets[frames[slot].offsets + position] = start
    return DecodingPosition(slot: slot, part: position, start: start, isNext: true)
  }

  /// Skips the values that a part of the frame has left unread.
  private mutating func settle(_ slot: Int) throws(ReadFailure) {
    let owed = frames[slot].owed
    guard owed > 0 else { return }
    var cursor = frames[slot].cursor
    try source.skip(&cursor, count: owed, shapes)
    frames[slot].cursor = cursor
    frames[slot].owed = 0
  }

  /// Notes that the value of a position was read. It ends `owed` values after the position's offset.
  @inline(__always)
  mutating func finish(_ location: DecodingPosition, owed: Int = 0) {
    guard location.isNext else { return }
    frames[location.slot].cursor = location.offset
    frames[location.slot].owed = owed
    frames[location.slot].next &+= 1
  }

  // MARK: - Maps

  private mutating func placeInMap(_ slot: Int, _ name: String) throws(ReadFailure) -> DecodingPosition? {
    if let index = indexes[slot], index.id == frames[slot].id { return location(slot, index, name) }
    try settle(slot)
    // Keys are usually requested in their own order: a dictionary requests the list of keys, and then each one.
    if frames[slot].next < frames[slot].count {
      let part = frames[slot].cursor
      var offset = part
      if try source.string(&offset) == name {
        return DecodingPosition(slot: slot, part: part, start: offset, isNext: true)
      }
    }
    let index = Index(id: frames[slot].id, locations: try entries(slot))
    indexes[slot] = index
    return location(slot, index, name)
  }

  private func location(_ slot: Int, _ index: Index, _ name: String) -> DecodingPosition? {
    guard let found = index.locations[name] else { return nil }
    return DecodingPosition(slot: slot, part: found.part, start: found.start, isNext: false)
  }

  private func entries(_ slot: Int) throws(ReadFailure) -> [String: (part: Int, start: Int)] {
    var entries: [String: (part: Int, start: Int)] = [:]
    var offset = frames[slot].body
    for _ in 0..<frames[slot].count {
      let part = offset
      let name = try source.string(&offset)
      entries[name] = (part, offset)
      try source.skip(&offset, count: 1, shapes)
    }
    return entries
  }

  // MARK: - Names

  /// Returns the names of the fields and entries that have a value, in their order.
  mutating func names(_ slot: Int, _ id: UInt32) throws(ReadFailure) -> [String] {
    guard isLive(slot, id) else { throw .other(late()) }
    let frame = frames[slot]
    var names: [String] = []
    var offset = frame.body
    for position in 0..<frame.count {
      let name = frame.kind == .map ? try source.string(&offset) : frame.shape?.fields[position]
      if let name, try source.byte(offset) != ValueTag.absent { names.append(name) }
      try source.skip(&offset, count: 1, shapes)
    }
    return names
  }
}
