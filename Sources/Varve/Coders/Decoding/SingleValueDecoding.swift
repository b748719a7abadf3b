/// A container of a value without parts, or of a value that another type represents.
struct SingleValueDecoding: SingleValueDecodingContainer {
  let core: DecodingCore
  let slot: Int
  let id: UInt32

  var codingPath: [any CodingKey] { core.state.pointee.path(to: slot) }

  func decodeNil() -> Bool {
    guard core.state.pointee.isLive(slot, id) else {
      // This method cannot throw. The next call that can throws the error; the value is decoded again in any case.
      _ = core.state.pointee.late()
      return false
    }
    let frame = core.state.pointee.frames[slot]
    if frame.kind == .nothing { return true }
    guard frame.kind == .value, (try? core.state.pointee.source.byte(frame.start)) == ValueTag.null else {
      return false
    }
    note(frame.start + 1)
    return true
  }

  /// Notes the end of the value.
  @inline(__always)
  private func note(_ end: Int) {
    core.state.pointee.frames[slot].next = 1
    core.state.pointee.frames[slot].cursor = end
  }

  @inline(__always)
  private func read<Value>(
    _ body: (ByteSource, inout Int) throws(ReadFailure) -> Value
  ) throws -> Value {
    guard core.state.pointee.isLive(slot, id) else { throw core.state.pointee.late() }
    let start = core.state.pointee.frames[slot].start
    do throws(ReadFailure) {
      switch core.state.pointee.frames[slot].kind {
      case .value: break
      case .nothing: throw .null
      // The value is known to be a container.
      case .record, .map, .array, .uniformArray, .bytes: throw .mismatch
      }
      var offset = start
      let value = try body(core.state.pointee.source, &offset)
      note(offset)
      return value
    } catch {
      throw self.error(error, Value.self, start)
    }
  }

  private func error(_ failure: ReadFailure, _ type: Any.Type, _ start: Int) -> any Error {
    let path = codingPath
    // A record in an array of records, or at the top level, has no tag.
    if case .mismatch = failure, core.state.pointee.frames[slot].kind == .record {
      let context = DecodingError.Context(codingPath: path, debugDescription: "expected \(type), found a record")
      return DecodingError.typeMismatch(type, context)
    }
    return core.state.pointee.error(failure, type, start, path)
  }

  func decode<T: Decodable>(_ type: T.Type) throws -> T {
    guard core.state.pointee.isLive(slot, id) else { throw core.state.pointee.late() }
    let special = SpecialType.of(type)
    let frame = core.state.pointee.frames[slot]
    let tag = frame.kind == .value ? (try? core.state.pointee.source.byte(frame.start)) : nil
    if let tag, special.reads(tag) {
      return try read { source, offset throws(ReadFailure) in try source.special(&offset, special, as: type) }
    }
    // The type uses this frame.
    return try T(from: DecodingHandle(core: core, slot: slot, id: id))
  }

  func decode(_ type: Bool.Type) throws -> Bool {
    try read { source, offset throws(ReadFailure) in try source.bool(&offset) }
  }

  func decode(_ type: String.Type) throws -> String {
    try read { source, offset throws(ReadFailure) in try source.string(&offset) }
  }

  func decode(_ type: Double.Type) throws -> Double {
    try read { source, offset throws(ReadFailure) in try source.double(&offset) }
  }

  func decode(_ type: Float.Type) throws -> Float {
    try read { source, offset throws(ReadFailure) in try source.float(&offset) }
  }

  @inline(__always)
  func decode<Integer: FixedWidthInteger & Decodable>(_ type: Integer.Type) throws -> Integer {
    try read { source, offset throws(ReadFailure) in try source.integer(&offset, as: Integer.self) }
  }

  func decode(_ type: Int128.Type) throws -> Int128 {
    try read { source, offset throws(ReadFailure) in try source.integer(&offset, as: Int128.self) }
  }

  func decode(_ type: UInt128.Type) throws -> UInt128 {
    try read { source, offset throws(ReadFailure) in try source.integer(&offset, as: UInt128.self) }
  }
}
