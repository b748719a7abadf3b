/// A keyed container from which a type decodes the fields of a record, or the entries of a map.
///
/// # Safety
/// `cell` belongs to `owner`, which is retained.
@safe
struct KeyedDecoding<Key: CodingKey>: KeyedDecodingContainerProtocol {
  private let owner: CellOwner<DecodingCore>
  private let state: StatePointer<DecodingState>
  private let cell: UnsafeMutablePointer<ContainerCell>

  init(_ owner: CellOwner<DecodingCore>) {
    self.owner = owner
    state = owner.core.state
    unsafe cell = owner.cell
  }

  private var slot: Int { unsafe cell.pointee.slot }

  var codingPath: [any CodingKey] { state.pointee.path(to: slot) }

  var allKeys: [Key] {
    do throws(ReadFailure) {
      return unsafe try state.pointee.names(slot, cell.pointee.id).compactMap { Key(stringValue: $0) }
    } catch {
      // This property cannot throw, and the caller may read nothing more, so the error is kept until the end.
      _ = state.pointee.error(error, Any.self, state.pointee.source.count, codingPath)
      return []
    }
  }

  func contains(_ key: Key) -> Bool {
    guard let location = try? location(key) else { return false }
    return (try? state.pointee.source.byte(location.start)) != ValueTag.absent
  }

  @inline(__always)
  private func location(_ key: Key) throws -> DecodingPosition? { try unsafe state.pointee.location(cell.pointee, key) }

  /// Returns the position of a field, or throws if there is none. The tag tells whether the field is absent.
  @inline(__always)
  private func existing(_ key: Key) throws -> DecodingPosition {
    guard let location = try location(key) else { throw missing(key) }
    return location
  }

  private func missing(_ key: Key) -> any Error {
    let context = DecodingError.Context(
      codingPath: codingPath, debugDescription: "no value exists for key \(key.stringValue)")
    return DecodingError.keyNotFound(key, context)
  }

  /// Returns the error for a field that could not be read.
  private func error(_ failure: ReadFailure, _ type: Any.Type, _ location: DecodingPosition, _ key: Key) -> any Error {
    if case .mismatch = failure, (try? state.pointee.source.byte(location.start)) == ValueTag.absent {
      return missing(key)
    }
    return state.pointee.error(failure, type, location.start, codingPath + [key])
  }

  /// Reads a value that is not a container.
  @inline(__always)
  func read<Value>(
    _ key: Key, _ body: (ByteSource, inout Int) throws(ReadFailure) -> Value
  ) throws -> Value {
    var location = try existing(key)
    do throws(ReadFailure) {
      let value = try body(state.pointee.source, &location.offset)
      state.pointee.finish(location)
      return value
    } catch {
      throw self.error(error, Value.self, location, key)
    }
  }

  /// Reads a value that is not a container, or returns nil if it is absent or null.
  @inline(__always)
  func readIfPresent<Value>(
    _ key: Key, _ body: (ByteSource, inout Int) throws(ReadFailure) -> Value
  ) throws -> Value? {
    guard var location = try presentLocation(key) else { return nil }
    do throws(ReadFailure) {
      let value = try body(state.pointee.source, &location.offset)
      state.pointee.finish(location)
      return value
    } catch {
      throw self.error(error, Value.self, location, key)
    }
  }

  /// Returns the position of a value, or nil if it is absent or null.
  @inline(__always)
  private func presentLocation(_ key: Key) throws -> DecodingPosition? {
    guard var location = try location(key) else { return nil }
    guard let tag = try? state.pointee.source.byte(location.offset) else {
      throw error(.damaged, Any.self, location, key)
    }
    guard tag == ValueTag.absent || tag == ValueTag.null else { return location }
    location.offset &+= 1
    state.pointee.finish(location)
    return nil
  }

  func decodeNil(forKey key: Key) throws -> Bool {
    let location = try existing(key)
    let tag = try? state.pointee.source.byte(location.start)
    if tag == ValueTag.absent { throw missing(key) }
    return tag == ValueTag.null
  }

  func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T { try decode(type, key, try existing(key)) }

  func decodeIfPresent<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T? {
    guard let location = try presentLocation(key) else { return nil }
    return try decode(type, key, location)
  }

  @inline(__always)
  private func decode<T: Decodable>(_ type: T.Type, _ key: Key, _ found: DecodingPosition) throws -> T {
    var location = found
    let special = SpecialType.of(type)
    do throws(ReadFailure) {
      let tag = try state.pointee.source.byte(location.start)
      if special.reads(tag) {
        let value = try state.pointee.source.special(&location.offset, special, as: type)
        state.pointee.finish(location)
        return value
      }
      if tag == ValueTag.absent { throw .mismatch }
    } catch {
      throw self.error(error, type, location, key)
    }
    let (value, end, owed) = try owner.core.decodeNested(
      type, parent: location.slot, part: location.part, start: location.start, shape: nil)
    location.offset = end
    state.pointee.finish(location, owed: owed)
    return value
  }

  // MARK: - Containers

  func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type, forKey key: Key
  ) throws -> KeyedDecodingContainer<Nested> {
    try child(key).container(keyedBy: type)
  }

  func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
    try child(key).unkeyedContainer()
  }

  func superDecoder(forKey key: Key) throws -> any Decoder { try child(key) }

  func superDecoder() throws -> any Decoder {
    let table = state.pointee.tables.table(PathKey.self)
    let id = unsafe cell.pointee.id
    let found = try state.pointee.location(ContainerCell(slot: slot, id: id, table: table), PathKey.super)
    if let found, (try? state.pointee.source.byte(found.start)) != ValueTag.absent {
      return try owner.core.child(found.slot, part: found.part, start: found.start, shape: nil)
    }
    let (child, childID) = try state.pointee.pushNothing(parent: slot)
    return DecodingHandle(core: owner.core, slot: child, id: childID)
  }

  private func child(_ key: Key) throws -> DecodingHandle {
    let location = try existing(key)
    if (try? state.pointee.source.byte(location.start)) == ValueTag.absent { throw missing(key) }
    return try owner.core.child(location.slot, part: location.part, start: location.start, shape: nil)
  }
}
