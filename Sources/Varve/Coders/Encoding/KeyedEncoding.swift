/// The fields of a record, as its type encodes them.
///
/// # Safety
/// `cell` is that of `owner`, which is held.
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

  /// Makes room for the value of a field.
  @inline(__always)
  func begin(_ key: Key) throws { try unsafe state.pointee.beginField(cell.pointee, key) }

  func encodeNil(forKey key: Key) throws {
    try begin(key)
    state.pointee.output.append(byte: ValueTag.null)
  }

  /// So all values of a type have one shape.
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
    // A key by name: `super` is rarely one of the type's own.
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
