/// A container to which a type encodes the elements of an array.
struct UnkeyedEncoding: UnkeyedEncodingContainer {
  let core: EncodingCore
  let slot: Int
  let id: UInt32

  var codingPath: [any CodingKey] { core.state.pointee.path(to: slot) }

  var count: Int {
    guard core.state.pointee.isLive(slot, id) else { return 0 }
    // An element that is still open counts as well.
    let isOpen = core.state.pointee.frames.count > slot + 1
    return core.state.pointee.frames[slot].next + (isOpen ? 1 : 0)
  }

  /// Writes an element without parts.
  @inline(__always)
  private func element(_ write: (inout CodingBuffer) -> Void) throws {
    try core.state.pointee.beginElement(slot, id)
    write(&core.state.pointee.output)
    core.state.pointee.frames[slot].next &+= 1
  }

  func encodeNil() throws { try element { $0.append(byte: ValueTag.null) } }

  func encode<T: Encodable>(_ value: T) throws {
    let special = SpecialType.of(T.self)
    if special.fits(value) { return try element { $0.write(special: value, special) } }
    try core.state.pointee.enter(slot, id)
    try core.encodeNested(value)
  }

  func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
    child().container(keyedBy: type)
  }

  func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { child().unkeyedContainer() }

  func superEncoder() -> any Encoder { child() }

  private func child() -> EncodingHandle {
    do {
      try core.state.pointee.enter(slot, id)
      return core.child(slot, PathKey(intValue: core.state.pointee.frames[slot].next))
    } catch {
      return core.failed(error)
    }
  }

  func encode(_ value: Bool) throws { try element { $0.write(value) } }
  func encode(_ value: String) throws { try element { $0.write(value) } }
  func encode(_ value: Double) throws { try element { $0.write(value) } }
  func encode(_ value: Float) throws { try element { $0.write(value) } }
  @inline(__always)
  func encode<Integer: FixedWidthInteger & Encodable>(_ value: Integer) throws { try element { $0.write(value) } }
  func encode(_ value: Int128) throws { try element { $0.write(value) } }
  func encode(_ value: UInt128) throws { try element { $0.write(value) } }
}
