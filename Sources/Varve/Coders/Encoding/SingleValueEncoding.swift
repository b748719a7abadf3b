/// A container of a value without parts, or of a value that another type represents.
struct SingleValueEncoding: SingleValueEncodingContainer {
  let core: EncodingCore
  let slot: Int
  let id: UInt32

  var codingPath: [any CodingKey] { core.state.pointee.path(to: slot) }

  @inline(__always)
  private func value(_ write: (inout CodingBuffer) -> Void) throws {
    try core.state.pointee.beginValue(slot, id)
    write(&core.state.pointee.output)
  }

  func encodeNil() throws { try value { $0.append(byte: ValueTag.null) } }

  func encode<T: Encodable>(_ value: T) throws {
    let special = SpecialType.of(T.self)
    if special.fits(value) { return try self.value { $0.write(special: value, special) } }
    // The type uses this frame.
    try core.state.pointee.enter(slot, id)
    try value.encode(to: EncodingHandle(core: core, slot: slot, id: id))
  }

  func encode(_ value: Bool) throws { try self.value { $0.write(value) } }
  func encode(_ value: String) throws { try self.value { $0.write(value) } }
  func encode(_ value: Double) throws { try self.value { $0.write(value) } }
  func encode(_ value: Float) throws { try self.value { $0.write(value) } }
  @inline(__always)
  func encode<Integer: FixedWidthInteger & Encodable>(_ value: Integer) throws { try self.value { $0.write(value) } }
  func encode(_ value: Int128) throws { try self.value { $0.write(value) } }
  func encode(_ value: UInt128) throws { try self.value { $0.write(value) } }
}
