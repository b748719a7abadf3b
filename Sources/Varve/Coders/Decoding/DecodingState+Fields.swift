/// Fields of records, and entries of maps.
extension DecodingState {
  /// Finds the value of a key; nil where the value has no such field. It may still be absent.
  @inline(__always)
  mutating func place<Key: CodingKey>(_ cell: ContainerCell, _ key: Key) throws -> DecodingPlace? {
    let slot = cell.slot
    if isLive(slot, cell.id), frames[slot].table == cell.table, let positions = frames[slot].positions {
      let next = frames[slot].next
      if Int(positions[EncodingState.byte(key)]) == next && frames[slot].owed == 0 {
        let start = frames[slot].cursor
        offsets[frames[slot].offsets &+ next] = start
        return DecodingPlace(slot: slot, part: next, start: start, isNext: true)
      }
    }
    return try placeElsewhere(cell, key)
  }

  @inline(never)
  private mutating func placeElsewhere<Key: CodingKey>(_ cell: ContainerCell, _ key: Key) throws -> DecodingPlace? {
    let slot = cell.slot
    guard isLive(slot, cell.id) else { throw late() }
    do throws(ReadFailure) {
      if frames[slot].kind == .map { return try placeInMap(slot, key.stringValue) }
      guard frames[slot].kind == .record, let shape = frames[slot].shape else { return nil }
      guard cell.table.pointee.isByte else {
        guard let position = shape.position(of: key.stringValue) else {
          return nil
        }
        return try place(slot, position)
      }
      let positions = cell.table.pointee.positions(in: shape)
      frames[slot].table = cell.table
      frames[slot].positions = positions
      guard let position = positions.position(of: key, byte: EncodingState.byte(key)) else { return nil }
      return try place(slot, position)
    } catch {
      throw self.error(error, Any.self, frames[slot].cursor, path(to: slot) + [key])
    }
  }

  /// The value at a position of a record.
  private mutating func place(_ slot: Int, _ position: Int) throws(ReadFailure) -> DecodingPlace {
    if position < frames[slot].next {
      let start = offsets[frames[slot].offsets + position]
      return DecodingPlace(slot: slot, part: position, start: start, isNext: false)
    }
    try settle(slot)
    while frames[slot].next < position {
      offsets[frames[slot].offsets + frames[slot].next] = frames[slot].cursor
      try source.skip(&frames[slot].cursor, count: 1, shapes)
      frames[slot].next += 1
    }
    let start = frames[slot].cursor
    offsets[frames[slot].offsets + position] = start
    return DecodingPlace(slot: slot, part: position, start: start, isNext: true)
  }

  /// Passes what a part of the frame left unread.
  private mutating func settle(_ slot: Int) throws(ReadFailure) {
    let owed = frames[slot].owed
    guard owed > 0 else { return }
    var cursor = frames[slot].cursor
    try source.skip(&cursor, count: owed, shapes)
    frames[slot].cursor = cursor
    frames[slot].owed = 0
  }

  /// Notes that the value of a place was read: it ends after `owed` values after the place's offset.
  @inline(__always)
  mutating func finish(_ place: DecodingPlace, owed: Int = 0) {
    guard place.isNext else { return }
    frames[place.slot].cursor = place.offset
    frames[place.slot].owed = owed
    frames[place.slot].next &+= 1
  }

  // MARK: - Maps

  private mutating func placeInMap(_ slot: Int, _ name: String) throws(ReadFailure) -> DecodingPlace? {
    if let index = indexes[slot], index.id == frames[slot].id { return place(slot, index, name) }
    try settle(slot)
    // Usually the keys are asked for in their own order: a dictionary asks which there are, then for each.
    if frames[slot].next < frames[slot].count {
      let part = frames[slot].cursor
      var offset = part
      if try source.string(&offset) == name {
        return DecodingPlace(slot: slot, part: part, start: offset, isNext: true)
      }
    }
    let index = Index(id: frames[slot].id, places: try entries(slot))
    indexes[slot] = index
    return place(slot, index, name)
  }

  private func place(_ slot: Int, _ index: Index, _ name: String) -> DecodingPlace? {
    guard let found = index.places[name] else { return nil }
    return DecodingPlace(slot: slot, part: found.part, start: found.start, isNext: false)
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

  /// The names of the fields and entries that have a value, in their order.
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
