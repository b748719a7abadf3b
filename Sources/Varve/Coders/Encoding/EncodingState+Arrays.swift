/// Encodes values and arrays, and opens records.
extension EncodingState {
  /// Prepares to write a value without parts as the whole content of the frame.
  @inline(__always)
  mutating func beginValue(_ slot: Int, _ id: UInt32) throws {
    try enter(slot, id)
    guard frames[slot].kind == .pending else {
      throw error(slot, "a second value in a container that holds one")
    }
    try leaveUniform(slot)
    frames[slot].kind = .value
  }

  /// Prepares to write an element without parts. The caller that writes it increments the count.
  @inline(__always)
  mutating func beginElement(_ slot: Int, _ id: UInt32) throws {
    try enter(slot, id)
    guard frames[slot].kind == .array else { throw error(slot, "the value is not an array") }
    if frames[slot].isUniform { _ = try tagElements(slot) }
  }

  /// Opens a frame as an array.
  mutating func openArray(_ slot: Int, _ id: UInt32) throws {
    try enter(slot, id)
    switch frames[slot].kind {
    case .array: return
    case .pending: try open(slot, as: .array, headerSize: 1)
    case .value, .record, .map: throw error(slot, "an array instead of another value")
    }
  }

  /// Opens a frame as a record or a map.
  @inline(__always)
  mutating func openKeyed(_ slot: Int, _ id: UInt32, _ table: KeyTablePointer) throws {
    try enter(slot, id)
    switch frames[slot].kind {
    case .record, .map: return
    case .pending:
      if modes.contains(.maps) || !table.pointee.isByte || table.pointee.isDisorderly {
        try open(slot, as: .map, headerSize: 2)
      } else {
        openRecord(slot)
      }
    case .value, .array: throw error(slot, "fields instead of another value")
    }
  }

  private mutating func openRecord(_ slot: Int) {
    frames[slot].kind = .record
    if slot == 0 {
      frames[slot].isBare = !isDetached
    } else if frames[slot &- 1].kind == .array && frames[slot &- 1].next == 0 && !frames[slot &- 1].isUniform {
      // The first element is a record. The array's header reserves space for a shape of one byte, and the elements have
      // no headers.
      output.append(repeating: 0, count: 2)
      frames[slot &- 1].body = output.count
      frames[slot &- 1].isUniform = true
      frames[slot].isBare = true
    } else {
      frames[slot].isBare = frames[slot &- 1].isUniform
    }
    frames[slot].start = output.count
    if !frames[slot].isBare { output.append(repeating: 0, count: 2) }
    frames[slot].body = output.count
  }

  private mutating func open(_ slot: Int, as kind: EncodingFrame.Kind, headerSize: Int) throws {
    try leaveUniform(slot)
    output.append(repeating: 0, count: headerSize)
    frames[slot].body = output.count
    frames[slot].entries = entryStarts.count
    frames[slot].kind = kind
  }

  /// Gives elements their own headers before a value that is not a record is added to an array of records.
  @inline(__always)
  private mutating func leaveUniform(_ slot: Int) throws {
    guard slot > 0, frames[slot &- 1].isUniform else { return }
    _ = try tagElements(slot &- 1)
    frames[slot].start = output.count
  }

  mutating func finishArray(_ slot: Int) {
    let frame = frames[slot]
    let shape = frame.isUniform && frame.elementShape != 0 ? frame.elementShape : nil
    output.writeArrayHeader(frame.next, shape: shape, at: frame.start, size: frame.body - frame.start)
  }

  /// Ends a record whose shape the array does not have yet, or that has another shape than the array.
  mutating func sealElement(_ slot: Int, _ shape: UInt32) throws {
    let parent = slot - 1
    if frames[parent].elementShape == 0 {
      frames[parent].elementShape = shape
      return
    }
    let start = frames[slot].start + (try tagElements(parent))
    output.resize(at: start, from: 0, to: 2)
    output.writeRecordHeader(shape, at: start, size: 2)
  }

  /// Gives each complete element of an array its own header. Returns the number of bytes by which the content after
  /// them has moved.
  mutating func tagElements(_ slot: Int) throws -> Int {
    let frame = frames[slot]
    frames[slot].isUniform = false
    guard frame.next > 0 else { return 0 }
    var header = CodingBuffer(capacity: 16)
    header.append(repeating: 0, count: 2)
    header.writeRecordHeader(frame.elementShape, at: 0, size: 2)
    let headerBytes = header.bytes
    let old = output.copy(frame.body..<output.count)
    output.truncate(to: frame.body)
    var offset = 0
    for _ in 0..<frame.next {
      let start = offset
      offset = try endOfRecord(old, start, frame.elementShape)
      output.append(headerBytes)
      output.append(old[start..<offset])
    }
    output.append(old[offset...])
    return frame.next * headerBytes.count
  }

  /// Returns the offset at which the fields of a record end that was just written.
  private func endOfRecord(_ bytes: [UInt8], _ start: Int, _ number: UInt32) throws -> Int {
    let outcome: Result<Int, ReadFailure> = unsafe bytes.withUnsafeBytes { content in
      do throws(ReadFailure) {
        var offset = start
        try unsafe ByteSource(content).skip(&offset, count: shapes.shape(number).fieldCount, shapes)
        return .success(offset)
      } catch {
        return .failure(error)
      }
    }
    switch outcome {
    case .success(let end): return end
    case .failure(.other(let error)): throw error
    case .failure:
      throw DatabaseError(.encodingFailed, "an array could not be rewritten for an element of another shape")
    }
  }

  /// Writes a record without fields, or a value that encoded nothing, as an empty map.
  mutating func writeEmptyMap(_ slot: Int) throws {
    output.truncate(to: frames[slot].start)
    try leaveUniform(slot)
    output.append(byte: ValueTag.map)
    output.append(byte: 0)
  }
}
