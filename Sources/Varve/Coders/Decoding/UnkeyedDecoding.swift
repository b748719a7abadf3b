/// A container from which a type decodes the elements of an array. It is a value: a copy continues independently.
///
/// Its size is 24 bytes, so that it needs no box as `any UnkeyedDecodingContainer`.
struct UnkeyedDecoding: UnkeyedDecodingContainer {
  private let core: DecodingCore
  private let slotNumber: Int32
  private let id: UInt32
  private var index: Int32 = 0
  private var location: Int32

  /// Creates a container. Slots and offsets fit 32 bits: a value has at most 2³¹ − 1 bytes, and each frame needs at
  /// least one of them.
  init(core: DecodingCore, slot: Int, id: UInt32, body: Int) {
    self.core = core
    slotNumber = Int32(truncatingIfNeeded: slot)
    self.id = id
    location = Int32(truncatingIfNeeded: body)
  }

  private var slot: Int { Int(slotNumber) }
  private var offset: Int { Int(location) }
  var currentIndex: Int { Int(index) }

  var codingPath: [any CodingKey] { core.state.pointee.path(to: slot) }

  var count: Int? { core.state.pointee.isLive(slot, id) ? core.state.pointee.frames[slot].count : nil }

  var isAtEnd: Bool {
    // A container that is used too late throws when it decodes.
    guard core.state.pointee.isLive(slot, id) else { return false }
    return currentIndex >= core.state.pointee.frames[slot].count
  }

  // MARK: - Elements

  /// Returns the kind of the array, or throws if it has no further element.
  @inline(__always)
  private func begin(_ type: Any.Type) throws -> DecodingFrame.Kind {
    guard core.state.pointee.isLive(slot, id) else { throw core.state.pointee.late() }
    guard currentIndex < core.state.pointee.frames[slot].count else {
      let context = DecodingError.Context(codingPath: elementPath, debugDescription: "the array has no more elements")
      throw DecodingError.valueNotFound(type, context)
    }
    return core.state.pointee.frames[slot].kind
  }

  private var elementPath: [any CodingKey] { codingPath + [PathKey(intValue: currentIndex)] }

  private func error(_ failure: ReadFailure, _ type: Any.Type) -> any Error {
    // An element of an array of records has no tag, and is a record.
    let isRecord = core.state.pointee.frames[slot].kind == .uniformArray
    guard isRecord, case .mismatch = failure else {
      return core.state.pointee.error(failure, type, offset, elementPath)
    }
    let context = DecodingError.Context(codingPath: elementPath, debugDescription: "expected \(type), found a record")
    return DecodingError.typeMismatch(type, context)
  }

  /// Advances to the next element at an offset.
  @inline(__always)
  private mutating func advance(to offset: Int) {
    index &+= 1
    location = Int32(truncatingIfNeeded: offset)
    if currentIndex > core.state.pointee.frames[slot].next {
      core.state.pointee.frames[slot].next = currentIndex
      core.state.pointee.frames[slot].cursor = offset
    }
  }

  /// Reads an element that is not a container.
  @inline(__always)
  private mutating func read<Value>(
    _ body: (ByteSource, inout Int) throws(ReadFailure) -> Value
  ) throws -> Value {
    let kind = try begin(Value.self)
    do throws(ReadFailure) {
      if kind == .bytes { return try readByte(as: Value.self) }
      guard kind == .array else { throw .mismatch }
      var end = offset
      let value = try body(core.state.pointee.source, &end)
      advance(to: end)
      return value
    } catch {
      throw self.error(error, Value.self)
    }
  }

  /// Reads an element of bytes as any integer type.
  private mutating func readByte<Value>(as type: Value.Type) throws(ReadFailure) -> Value {
    guard let integer = type as? any FixedWidthInteger.Type else { throw .mismatch }
    guard let value = integer.init(exactly: try core.state.pointee.source.byte(offset)) as? Value else {
      throw .doesNotFit
    }
    advance(to: offset + 1)
    return value
  }

  /// Decodes an element of bytes as a type that wraps an integer.
  private mutating func decodeByte<T: Decodable>(_ type: T.Type) throws -> T {
    let byte = try tag()
    do {
      let value = try core.decodeByte(byte, as: type)
      advance(to: offset + 1)
      return value
    } catch is DecodingError {
      throw error(.mismatch, type)
    }
  }

  mutating func decodeNil() throws -> Bool {
    guard try begin(Any?.self) == .array, try tag() == ValueTag.null else { return false }
    advance(to: offset + 1)
    return true
  }

  private func tag() throws -> UInt8 {
    do throws(ReadFailure) {
      return try core.state.pointee.source.byte(offset)
    } catch {
      throw self.error(error, Any.self)
    }
  }

  mutating func decode<T: Decodable>(_ type: T.Type) throws -> T {
    let kind = try begin(type)
    if kind == .bytes, !(type is any FixedWidthInteger.Type) { return try decodeByte(type) }
    let special = SpecialType.of(type)
    let isSpecial = kind == .array ? special.reads(try tag()) : kind == .bytes
    if isSpecial {
      return try read { source, offset throws(ReadFailure) in try source.special(&offset, special, as: type) }
    }
    let shape = kind == .uniformArray ? core.state.pointee.frames[slot].shape : nil
    let (value, end, owed) = try core.decodeNested(
      type, parent: slot, part: currentIndex, start: offset, shape: shape)
    try advance(over: owed, from: end)
    return value
  }

  /// Skips what remains of an element that was not read completely.
  private mutating func advance(over owed: Int, from start: Int) throws {
    var end = start
    do throws(ReadFailure) {
      if owed > 0 { try core.state.pointee.source.skip(&end, count: owed, core.state.pointee.shapes) }
    } catch {
      throw self.error(error, Any.self)
    }
    advance(to: end)
  }

  // MARK: - Containers

  mutating func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type
  ) throws -> KeyedDecodingContainer<Nested> {
    let container = try child().container(keyedBy: type)
    try pass()
    return container
  }

  mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
    let container = try child().unkeyedContainer()
    try pass()
    return container
  }

  mutating func superDecoder() throws -> any Decoder {
    let decoder = try child()
    try pass()
    return decoder
  }

  private func child() throws -> DecodingHandle {
    let kind = try begin(Any.self)
    guard kind != .bytes else { throw error(.mismatch, Any.self) }
    let shape = kind == .uniformArray ? core.state.pointee.frames[slot].shape : nil
    return try core.child(slot, part: currentIndex, start: offset, shape: shape)
  }

  /// Skips an element for which a container was created.
  private mutating func pass() throws {
    let frame = core.state.pointee.frames[slot]
    try advance(over: frame.kind == .uniformArray ? frame.fieldCount : 1, from: offset)
  }

  // MARK: - Values

  mutating func decode(_ type: Bool.Type) throws -> Bool {
    try read { source, offset throws(ReadFailure) in try source.bool(&offset) }
  }

  mutating func decode(_ type: String.Type) throws -> String {
    try read { source, offset throws(ReadFailure) in try source.string(&offset) }
  }

  mutating func decode(_ type: Double.Type) throws -> Double {
    try read { source, offset throws(ReadFailure) in try source.double(&offset) }
  }

  mutating func decode(_ type: Float.Type) throws -> Float {
    try read { source, offset throws(ReadFailure) in try source.float(&offset) }
  }

  @inline(__always)
  mutating func decode<Integer: FixedWidthInteger & Decodable>(_ type: Integer.Type) throws -> Integer {
    try read { source, offset throws(ReadFailure) in try source.integer(&offset, as: Integer.self) }
  }

  mutating func decode(_ type: Int128.Type) throws -> Int128 {
    try read { source, offset throws(ReadFailure) in try source.integer(&offset, as: Int128.self) }
  }

  mutating func decode(_ type: UInt128.Type) throws -> UInt128 {
    try read { source, offset throws(ReadFailure) in try source.integer(&offset, as: UInt128.self) }
  }
}
