/// A keyed container to which a type encodes the fields of a record.
///
/// # Safety
/// `cell` belongs to `owner`, which is retained.
@safe
struct KeyedEncoding<Key: CodingKey>: KeyedEncodingContainerProtocol {
  private let owner: CellOwner<EncodingCore>
  let state: StatePointer<EncodingState>
  private let cell: UnsafeMutablePointer<ContainerCell>

  init(_ owner: CellOwner<EncodingCore>) {
    self.owner = owner
    state = owner.core.state
    unsafe cell = owner.cell
  }

  var codingPath: [any CodingKey] { unsafe state.pointee.path(to: cell.pointee.slot) }

  /// Prepares to write the value of a field.
  @inline(__always)
  func begin(_ key: Key) throws { try unsafe state.pointee.beginField(cell.pointee, key) }

  func encodeNil(forKey key: Key) throws {
    try begin(key)
    state.pointee.output.append(byte: ValueTag.null)
  }

  /// Encodes a field without a value, so that all values of a type have the same shape.
  func encodeAbsent(_ key: Key) throws {
    try unsafe state.pointee.writeAbsent(cell.pointee, key)
  }

  func encode<T: Encodable>(_ value: T, forKey key: Key) throws {
    try begin(key)
    let special = SpecialType.of(T.self)
    if special.fits(value) { return state.pointee.output.write(special: value, special) }
    try owner.core.encodeNested(value)
  }

  func encodeIfPresent<T: Encodable>(_ value: T?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) } else { try encodeAbsent(key) }
  }

  func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type, forKey key: Key
  ) -> KeyedEncodingContainer<Nested> {
    child(key).container(keyedBy: type)
  }

  func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { child(key).unkeyedContainer() }

  func superEncoder(forKey key: Key) -> any Encoder { child(key) }

  func superEncoder() -> any Encoder {
    // The key is found by name, because `super` is rarely a key of the type itself.
    let slot = unsafe cell.pointee.slot
    let id = unsafe cell.pointee.id
    do {
      let table = state.pointee.tables.table(PathKey.self)
      try state.pointee.beginField(ContainerCell(slot: slot, id: id, table: table), PathKey.super)
      return owner.core.child(slot, PathKey.super)
    } catch {
      return owner.core.failed(error)
    }
  }

  private func child(_ key: Key) -> EncodingHandle {
    do {
      try begin(key)
      return unsafe owner.core.child(cell.pointee.slot, key)
    } catch {
      return owner.core.failed(error)
    }
  }
}
