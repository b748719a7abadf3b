/// A reusable encoder for one value at a time, which containers reference and which calls the user's code.
///
/// It is used by one thread at a time. Containers that are kept for their next use retain the core, which retains them,
/// so it has to be ended by `destroy`.
final class EncodingCore {
  let state: StatePointer<EncodingState>
  private let shapes: ShapeCache

  private let outcome: EncodingOutcome

  init(
    _ shapes: ShapeCache, _ outcome: EncodingOutcome = EncodingOutcome(), isDetached: Bool = false, depthAbove: Int = 0,
    pathAbove: [any CodingKey] = []
  ) {
    self.shapes = shapes
    self.outcome = outcome
    state = StatePointer(
      EncodingState(shapes, outcome, isDetached: isDetached, depthAbove: depthAbove, pathAbove: pathAbove))
  }

  deinit { state.destroy() }

  /// Releases the containers that retain the core.
  func destroy() {
    state.pointee.discardAttachments(from: 0)
    state.pointee.tables.removeBoxes()
  }

  /// The encoded bytes, which are valid until the next value is encoded.
  @unsafe
  var content: UnsafeRawBufferPointer { unsafe state.pointee.output.content }

  /// Encodes a value into the buffer, and returns the number of its shape.
  func encode<T: Encodable>(_ value: T) throws -> UInt32 {
    var modes: EncodingModes = []
    for _ in 0..<CoderLimits.attemptsMaximum {
      state.pointee.reset(modes)
      outcome.reset()
      var thrown: (any Error)?
      do { try encodeOnce(value) } catch { thrown = error }
      if !outcome.isClean || thrown != nil {
        if outcome.mustRepeat {
          modes.formUnion(outcome.wantedModes)
          continue
        }
        if let failure = outcome.failure ?? thrown { throw failure }
      }
      guard state.pointee.output.count <= CoderLimits.valueSizeMaximum else {
        throw state.pointee.error(0, "the value takes more than \(CoderLimits.valueSizeMaximum) bytes")
      }
      return state.pointee.rootShape
    }
    throw state.pointee.error(0, "the type encodes its fields in ever new orders")
  }

  private func encodeOnce<T: Encodable>(_ value: T) throws {
    let special = SpecialType.of(T.self)
    if special.fits(value) { return state.pointee.output.write(special: value, special) }
    let (slot, id) = try state.pointee.push()
    try value.encode(to: EncodingHandle(core: self, slot: slot, id: id))
    try state.pointee.close(above: slot)
    guard state.pointee.frames[slot].kind != .pending || !state.pointee.attachments.isEmpty else {
      throw state.pointee.error(0, "\(T.self) encoded nothing")
    }
    try state.pointee.close(slot)
  }

  /// Ends the value of a container with its own buffer, and returns its bytes.
  func finish() throws -> [UInt8] {
    if state.pointee.frames.count > 0 { try state.pointee.close(0) }
    return state.pointee.output.bytes
  }

  /// Encodes a value without a special encoding, in a frame of its own.
  @inline(__always)
  func encodeNested<T: Encodable>(_ value: T) throws {
    let (slot, id) = try state.pointee.push()
    do {
      try value.encode(to: EncodingHandle(core: self, slot: slot, id: id))
      try state.pointee.close(slot)
    } catch {
      state.pointee.abandon(slot)
      throw error
    }
  }

  // MARK: - Containers

  /// Returns the keyed container of a frame.
  @inline(__always)
  func keyed<Key: CodingKey>(_ slot: Int, _ id: UInt32, _ type: Key.Type) -> KeyedEncodingContainer<Key> {
    let table = state.pointee.tables.table(type)
    do { try state.pointee.openKeyed(slot, id, table) } catch { outcome.fail(error) }
    for index in table.pointee.boxes.indices {
      guard let box = table.pointee.boxes[index].use(slot, id) else { continue }
      return unsafe unsafeBitCast(box, to: KeyedEncodingContainer<Key>.self)
    }
    return makeKeyed(ContainerCell(slot: slot, id: id, table: table), type)
  }

  @inline(never)
  private func makeKeyed<Key: CodingKey>(_ cell: ContainerCell, _ type: Key.Type) -> KeyedEncodingContainer<Key> {
    let owner = CellOwner(self, cell)
    let container = KeyedEncodingContainer(KeyedEncoding<Key>(owner))
    if cell.table.pointee.boxes.count < CoderLimits.pooledContainers, let box = ContainerBox.make(container, owner) {
      cell.table.pointee.boxes.append(box)
    }
    return container
  }

  /// Returns the array container of a frame.
  func unkeyed(_ slot: Int, _ id: UInt32) -> UnkeyedEncoding {
    do { try state.pointee.openArray(slot, id) } catch { outcome.fail(error) }
    return UnkeyedEncoding(core: self, slot: slot, id: id)
  }

  /// Returns a handle of a child of a frame. The position of the child was already written.
  func child(_ slot: Int, _ key: any CodingKey) -> EncodingHandle {
    do {
      if let core = try state.pointee.detach(slot, shapes, key: key) {
        return EncodingHandle(core: core, slot: 0, id: core.state.pointee.frames[0].id)
      }
      let (slot, id) = try state.pointee.push()
      return EncodingHandle(core: self, slot: slot, id: id)
    } catch {
      return failed(error)
    }
  }

  /// Returns a handle that refuses everything, for methods that cannot throw. The whole value fails with the error.
  func failed(_ error: any Error) -> EncodingHandle {
    outcome.fail(error)
    return EncodingHandle(core: self, slot: 0, id: 0)
  }
}

/// The encoder that a type receives: a reference to a frame.
struct EncodingHandle: Encoder {
  let core: EncodingCore
  let slot: Int
  let id: UInt32

  var codingPath: [any CodingKey] { core.state.pointee.path(to: slot) }
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> { core.keyed(slot, id, type) }
  func unkeyedContainer() -> any UnkeyedEncodingContainer { core.unkeyed(slot, id) }
  func singleValueContainer() -> any SingleValueEncodingContainer {
    SingleValueEncoding(core: core, slot: slot, id: id)
  }
}
