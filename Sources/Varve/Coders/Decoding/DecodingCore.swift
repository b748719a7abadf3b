/// A reusable decoder for one value at a time, which containers reference and which calls the user's code.
///
/// It is used by one thread at a time. Containers that are kept for their next use retain the core, which retains them,
/// so it has to be ended by `destroy`.
final class DecodingCore {
  let state: StatePointer<DecodingState>
  private let shapes: ShapeCache

  init(_ shapes: ShapeCache) {
    self.shapes = shapes
    state = StatePointer(DecodingState(shapes))
  }

  deinit { state.destroy() }

  /// Releases the containers that retain the core.
  func destroy() { state.pointee.tables.removeBoxes() }

  /// Decodes a value. If `shape` is not 0, the bytes are the fields of a record of that shape.
  func decode<T: Decodable>(_ type: T.Type, _ source: ByteSource, shape: UInt32) throws -> T {
    defer { state.pointee.end() }
    do {
      let value = try decodeOnce(type, source, shape, keepsFrames: false)
      if !state.pointee.wasLate { return value }
    } catch {
      if !state.pointee.wasLate { throw state.pointee.damage ?? error }
    }
    return try decodeOnce(type, source, shape, keepsFrames: true)
  }

  private func decodeOnce<T: Decodable>(
    _ type: T.Type, _ source: ByteSource, _ shape: UInt32, keepsFrames: Bool
  ) throws -> T {
    state.pointee.begin(source, keepsFrames: keepsFrames)
    var known: ShapeReference?
    do throws(ReadFailure) {
      guard source.count <= CoderLimits.valueSizeMaximum else { throw .damaged }
      if shape != 0 { known = try state.pointee.shapes.shape(shape) }
      let special = SpecialType.of(type)
      if shape == 0, special.reads(try source.byte(0)) {
        var offset = 0
        let value = try source.special(&offset, special, as: type)
        guard offset == source.count else { throw .damaged }
        return value
      }
    } catch {
      throw state.pointee.error(error, type, 0, [])
    }
    let (value, end, owed) = try decodeNested(type, parent: -1, part: 0, start: 0, shape: known)
    // The remaining values, which the type did not decode, are skipped: the bytes of a row have to be complete and
    // valid.
    var offset = end
    do throws(ReadFailure) {
      if owed > 0 { try source.skip(&offset, count: owed, state.pointee.shapes) }
      guard offset == source.count else { throw .damaged }
    } catch {
      throw state.pointee.error(error, type, 0, [])
    }
    if let damage = state.pointee.damage { throw damage }
    return value
  }

  /// Lets a type decode itself from a part of a frame. The value ends `owed` values after `end`.
  @inline(__always)
  func decodeNested<T: Decodable>(
    _ type: T.Type, parent: Int, part: Int, start: Int, shape: ShapeReference?
  ) throws -> (value: T, end: Int, owed: Int) {
    let (slot, id) = try state.pointee.push(parent: parent, part: part, start: start, shape: shape)
    do {
      let value = try T(from: DecodingHandle(core: self, slot: slot, id: id))
      guard state.pointee.isLive(slot, id) else { throw state.pointee.late() }
      let (end, owed) = state.pointee.pop(slot)
      return (value, end, owed)
    } catch {
      if state.pointee.isLive(slot, id) { state.pointee.drop(slot) }
      throw error
    }
  }

  /// Decodes an element of bytes as a type that wraps an integer, as if the integer was stored by itself.
  func decodeByte<T: Decodable>(_ byte: UInt8, as type: T.Type) throws -> T {
    var integer = CodingBuffer()
    integer.write(integer: Int64(byte))
    let core = DecodingCore(shapes)
    defer { core.destroy() }
    return try unsafe integer.bytes.withUnsafeBytes { try unsafe core.decode(type, ByteSource($0), shape: 0) }
  }

  // MARK: - Containers

  /// Returns the keyed container of a frame.
  @inline(__always)
  func keyed<Key: CodingKey>(_ slot: Int, _ id: UInt32, _ type: Key.Type) throws -> KeyedDecodingContainer<Key> {
    guard state.pointee.isLive(slot, id) else { throw state.pointee.late() }
    do throws(ReadFailure) {
      try state.pointee.open(slot)
      guard state.pointee.frames[slot].kind == .record || state.pointee.frames[slot].kind == .map else {
        throw state.pointee.frames[slot].kind == .nothing ? .null : .mismatch
      }
    } catch {
      throw state.pointee.error(
        error, [String: Any].self, state.pointee.frames[slot].start, state.pointee.path(to: slot))
    }
    let table = state.pointee.tables.table(type)
    if table.pointee.isByte, let shape = state.pointee.frames[slot].shape {
      state.pointee.frames[slot].table = table
      state.pointee.frames[slot].positions = table.pointee.positions(in: shape)
    }
    for index in table.pointee.boxes.indices {
      guard let box = table.pointee.boxes[index].use(slot, id) else { continue }
      return unsafe unsafeBitCast(box, to: KeyedDecodingContainer<Key>.self)
    }
    return makeKeyed(ContainerCell(slot: slot, id: id, table: table), type)
  }

  @inline(never)
  private func makeKeyed<Key: CodingKey>(_ cell: ContainerCell, _ type: Key.Type) -> KeyedDecodingContainer<Key> {
    let owner = CellOwner(self, cell)
    let container = KeyedDecodingContainer(KeyedDecoding<Key>(owner))
    if cell.table.pointee.boxes.count < CoderLimits.pooledContainers, let box = ContainerBox.make(container, owner) {
      cell.table.pointee.boxes.append(box)
    }
    return container
  }

  /// Returns the array container of a frame.
  func unkeyed(_ slot: Int, _ id: UInt32) throws -> UnkeyedDecoding {
    guard state.pointee.isLive(slot, id) else { throw state.pointee.late() }
    do throws(ReadFailure) {
      try state.pointee.open(slot)
      switch state.pointee.frames[slot].kind {
      case .array, .uniformArray, .bytes: break
      case .nothing: throw .null
      case .value, .record, .map: throw .mismatch
      }
    } catch {
      throw state.pointee.error(error, [Any].self, state.pointee.frames[slot].start, state.pointee.path(to: slot))
    }
    return UnkeyedDecoding(core: self, slot: slot, id: id, body: state.pointee.frames[slot].body)
  }

  /// Returns a handle of a part of a frame.
  func child(_ parent: Int, part: Int, start: Int, shape: ShapeReference?) throws -> DecodingHandle {
    let (slot, id) = try state.pointee.push(parent: parent, part: part, start: start, shape: shape)
    return DecodingHandle(core: self, slot: slot, id: id)
  }
}

/// The decoder that a type receives: a reference to a frame.
struct DecodingHandle: Decoder {
  let core: DecodingCore
  let slot: Int
  let id: UInt32

  var codingPath: [any CodingKey] { core.state.pointee.path(to: slot) }
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
    try core.keyed(slot, id, type)
  }

  func unkeyedContainer() throws -> any UnkeyedDecodingContainer { try core.unkeyed(slot, id) }

  func singleValueContainer() throws -> any SingleValueDecodingContainer {
    guard core.state.pointee.isLive(slot, id) else { throw core.state.pointee.late() }
    return SingleValueDecoding(core: core, slot: slot, id: id)
  }
}
