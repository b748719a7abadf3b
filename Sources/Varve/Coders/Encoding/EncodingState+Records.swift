/// Encodes records, whose fields are identified by position.
extension EncodingState {
  /// Returns the byte of a key whose size is at most one byte.
  @inline(__always)
  static func byte<Key>(_ key: Key) -> UInt8 {
    if MemoryLayout<Key>.size == 0 { return 0 }
    return unsafe unsafeBitCast(key, to: UInt8.self)
  }

  /// Returns the order of a key among those of its type if it is a byte: the cases of an enum are numbered as declared.
  private static func order<Key>(_ key: Key) -> UInt8? { MemoryLayout<Key>.size <= 1 ? byte(key) : nil }

  /// Prepares to write the value of a field, which has to be written next.
  @inline(__always)
  mutating func beginField<Key: CodingKey>(_ cell: ContainerCell, _ key: Key) throws {
    if isLive(cell.slot, cell.id), frames.count == cell.slot &+ 1, frames[cell.slot].table == cell.table,
      let positions = frames[cell.slot].positions
    {
      let next = frames[cell.slot].next
      if Int(positions[EncodingState.byte(key)]) == next {
        frames[cell.slot].next = next &+ 1
        return
      }
    }
    try beginUnexpectedField(cell, key)
  }

  /// Writes that a field has no value. It keeps its position in a record, and has no entry in a map.
  mutating func writeAbsent<Key: CodingKey>(_ cell: ContainerCell, _ key: Key) throws {
    try enter(cell.slot, cell.id)
    if frames[cell.slot].kind == .map { return }
    try beginField(cell, key)
    output.append(byte: ValueTag.absent)
  }

  @inline(never)
  private mutating func beginUnexpectedField<Key: CodingKey>(_ cell: ContainerCell, _ key: Key) throws {
    let slot = cell.slot
    try enter(slot, cell.id)
    switch frames[slot].kind {
    case .map: return beginEntry(slot, key.stringValue)
    case .record: break
    case .pending, .value, .array: throw error(slot, key: key, "the value is none with fields")
    }
    let byte = cell.table.pointee.isByte ? EncodingState.byte(key) : nil
    if frames[slot].positions == nil && !frames[slot].isLearning { beginRecord(slot, cell.table, byte) }
    guard let positions = frames[slot].positions else { return try learn(slot, key) }
    try beginField(slot, key, byte, cell.table, positions)
  }

  /// Determines the expected shape by the first key.
  private mutating func beginRecord(_ slot: Int, _ table: KeyTablePointer, _ byte: UInt8?) {
    if let byte {
      frames[slot].firstTable = table
      frames[slot].firstByte = byte
      frames[slot].hasFirstByte = true
    }
    if !modes.contains(.exact), let byte, let expected = table.pointee.expectation(byte, shapes) {
      frames[slot].positions = expected
      frames[slot].table = table
      guard !frames[slot].isBare else { return }
      // The body is still empty, so the header can get its exact size without moving anything.
      let size = 1 + CodingBuffer.varintSize(UInt64(expected.number))
      output.truncate(to: frames[slot].start)
      output.append(repeating: 0, count: size)
      frames[slot].body = output.count
    } else {
      frames[slot].isLearning = true
      learnedShapes[slot] = LearnedShape([], base: nil)
    }
  }

  /// Begins a field of a record whose fields match its shape so far.
  private mutating func beginField<Key: CodingKey>(
    _ slot: Int, _ key: Key, _ byte: UInt8?, _ table: KeyTablePointer, _ positions: PositionTable
  ) throws {
    var positions = positions
    if byte != nil && frames[slot].table != table {
      // The key belongs to another key type of the same record, such as that of a subclass and its superclass.
      positions = table.pointee.positions(in: positions.shape)
      frames[slot].table = table
      frames[slot].positions = positions
    }
    let next = frames[slot].next
    let position = byte.map { positions.position(of: key, byte: $0) } ?? positions.shape.position(of: key.stringValue)
    guard let position else {
      if let newer = newerExpectation(slot, key, positions) {
        frames[slot].positions = newer
        frames[slot].table = frames[slot].firstTable
        return try beginField(slot, key, byte, table, newer)
      }
      // The field is not in the shape, so the record has another one.
      frames[slot].isLearning = true
      frames[slot].positions = nil
      frames[slot].table = nil
      learnedShapes[slot] = positions.shape.learnedShape(next)
      return try learn(slot, key)
    }
    guard position >= next else { throw repeated(slot, key) }
    if position > next {
      output.append(repeating: ValueTag.absent, count: position - next)
      frames[slot].isFilled = true
    }
    frames[slot].next = position + 1
  }

  /// Returns the shape that another encoder has learned meanwhile, if it begins like the record and has the field.
  private func newerExpectation<Key: CodingKey>(_ slot: Int, _ key: Key, _ old: PositionTable) -> PositionTable? {
    let next = frames[slot].next
    guard frames[slot].hasFirstByte, let first = frames[slot].firstTable,
      let newer = first.pointee.newestExpectation(frames[slot].firstByte, shapes), newer.number != old.number,
      newer.fieldCount > next, newer.shape.fields[..<next] == old.shape.fields[..<next],
      let position = newer.shape.position(of: key.stringValue), position >= next
    else { return nil }
    return newer
  }

  private mutating func learn<Key: CodingKey>(_ slot: Int, _ key: Key) throws {
    let name = key.stringValue
    guard let learned = learnedShapes[slot], Shape.isField(name) else { throw outcome.again(.maps) }
    let byte = EncodingState.order(key)
    let added = learned.add(name) { other in
      guard let byte, let otherKey = Key(stringValue: other) else { return false }
      return EncodingState.order(otherKey).map { $0 < byte } ?? false
    }
    switch added {
    case .repeated: throw repeated(slot, key)
    case .next(let absent):
      guard learned.fields.count <= CoderLimits.fieldCountMaximum else { throw outcome.again(.maps) }
      output.append(repeating: ValueTag.absent, count: absent)
      if absent > 0 { frames[slot].isFilled = true }
    }
  }

  /// Returns the error for a field that the record already has. If fields were written as absent, the field may only be
  /// in a different order, and the value is encoded again.
  private mutating func repeated(_ slot: Int, _ key: any CodingKey) -> any Error {
    if frames[slot].isFilled { return outcome.again(.exact) }
    let error = error(slot, key: key, EncodingState.repeatedKey)
    outcome.fail(error)
    return error
  }

  /// Ends a record, and writes its shape.
  @inline(__always)
  mutating func finishRecord(_ slot: Int) throws {
    guard let positions = frames[slot].positions else { return try finishLearning(slot) }
    let absent = positions.fieldCount &- frames[slot].next
    if absent > 0 { output.append(repeating: ValueTag.absent, count: absent) }
    try seal(slot, positions.number)
  }

  private mutating func finishLearning(_ slot: Int) throws {
    guard let learned = learnedShapes.removeValue(forKey: slot) else { return try writeEmptyMap(slot) }
    output.append(repeating: ValueTag.absent, count: learned.finish())
    if learned.fields.isEmpty { return try writeEmptyMap(slot) }
    if learned.fields.count > CoderLimits.fieldCountMaximum { throw outcome.again(.maps) }
    let shape = try shapes.known(Shape(fields: learned.fields))
    if frames[slot].hasFirstByte, let table = frames[slot].firstTable {
      let positions = table.pointee.positions(in: shape)
      if !table.pointee.learn(frames[slot].firstByte, positions, shapes) { throw outcome.again([]) }
    }
    try seal(slot, shape.number)
  }

  /// Writes the number of a record's shape to its header, the row's or the array's.
  @inline(__always)
  private mutating func seal(_ slot: Int, _ shape: UInt32) throws {
    guard frames[slot].isBare else {
      let frame = frames[slot]
      return output.writeRecordHeader(shape, at: frame.start, size: frame.body &- frame.start)
    }
    if slot == 0 {
      rootShape = shape
    } else if frames[slot &- 1].elementShape == shape && frames[slot &- 1].isUniform {
      return
    } else {
      try sealElement(slot, shape)
    }
  }
}
