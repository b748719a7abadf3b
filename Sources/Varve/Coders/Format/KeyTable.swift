/// The data of one encoder or decoder for one type of coding keys: the positions of its keys in the shapes that were
/// used with it, and idle containers.
///
/// # Keys by their byte
/// The keys of a type are nearly always an enum of at most 256 cases, whose values are one byte or none. The name and
/// the position of a key are looked up once for each byte; after that, a key costs one load from a table. So a key type
/// whose values fit a byte must always return the same name for the same value, as enums do.
///
/// # Containers
/// `KeyedEncodingContainer` and its counterpart allocate a box for each record, and look the box's type up at run time:
/// together as expensive as four fields. So boxes are kept, and one without other references is used again.
struct KeyTable: ~Copyable {
  /// The address of the type.
  let type: UInt
  /// Whether the values of the type are at most one byte.
  let isByte: Bool
  /// The table of the shape that was used last.
  private(set) var last: PositionTable?
  private var others: [UInt32: PositionTable] = [:]

  // The following properties are used by encoders only.
  /// The shape of the last record that began with a key, by the byte of the key.
  private var expected: [PositionTable?] = []
  /// Whether records of this type are written as maps because their fields were encoded in too many orders.
  private(set) var isDisorderly: Bool

  var boxes: [ContainerBox] = []

  init<Key: CodingKey>(_ key: Key.Type, _ shapes: ShapeCache) {
    type = KeyTables.address(key)
    isDisorderly = shapes.isDisorderly(type)
    isByte = MemoryLayout<Key>.size <= 1
  }

  deinit {
    for table in others.values { table.free() }
  }

  /// Returns the positions of the keys in a shape.
  @inline(__always)
  mutating func positions(in shape: ShapeReference) -> PositionTable {
    if let last, last.shape == shape { return last }
    return find(shape)
  }

  @inline(never)
  private mutating func find(_ shape: ShapeReference) -> PositionTable {
    let table = others[shape.number] ?? PositionTable(shape)
    others[shape.number] = table
    last = table
    return table
  }

  /// Returns the expected shape of a record that begins with a key, or nil if none is known.
  @inline(__always)
  mutating func expectation(_ first: UInt8, _ shapes: borrowing ShapeLookup) -> PositionTable? {
    if !expected.isEmpty, let known = expected[Int(first)] { return known }
    return newestExpectation(first, shapes)
  }

  /// Returns the expected shape of a record that begins with a key, as all encoders have last learned it.
  @inline(never)
  mutating func newestExpectation(_ first: UInt8, _ shapes: borrowing ShapeLookup) -> PositionTable? {
    guard let shape = shapes.expectation(type, first) else { return nil }
    let table = positions(in: shape)
    expect(first, table)
    return table
  }

  private mutating func expect(_ first: UInt8, _ table: PositionTable) {
    if expected.isEmpty { expected = Array(repeating: nil, count: 256) }
    expected[Int(first)] = table
  }

  /// Notes the shape of a record that began with a key. Returns false if there were too many shapes.
  mutating func learn(_ first: UInt8, _ table: PositionTable, _ shapes: borrowing ShapeLookup) -> Bool {
    expect(first, table)
    isDisorderly = !shapes.learn(type, first, table.shape)
    return !isDisorderly
  }
}

/// The positions of keys in one shape, by the keys' bytes. Entries are added as keys are used.
///
/// # Safety
/// The table has an entry for each byte. The key table frees it together with the encoder or decoder.
@safe
struct PositionTable: BitwiseCopyable {
  /// The entry of a key that is not in the shape.
  static let missing: UInt16 = 0xffff
  /// The entry of a key that was not used yet.
  static let unknown: UInt16 = 0xfffe

  let shape: ShapeReference
  let number: UInt32
  let fieldCount: Int
  private let entries: UnsafeMutablePointer<UInt16>

  init(_ shape: ShapeReference) {
    self.shape = shape
    number = shape.number
    fieldCount = shape.fieldCount
    unsafe entries = .allocate(capacity: 256)
    unsafe entries.initialize(repeating: PositionTable.unknown, count: 256)
  }

  func free() { unsafe entries.deallocate() }

  @inline(__always)
  subscript(byte: UInt8) -> UInt16 {
    get { unsafe entries[Int(byte)] }
    nonmutating set { unsafe entries[Int(byte)] = newValue }
  }

  /// Returns the position of a key that is a byte, or nil if the shape does not have it.
  func position<Key: CodingKey>(of key: Key, byte: UInt8) -> Int? {
    if self[byte] == PositionTable.unknown {
      self[byte] = shape.position(of: key.stringValue).map(UInt16.init) ?? PositionTable.missing
    }
    let position = self[byte]
    return position == PositionTable.missing ? nil : Int(position)
  }
}

/// The key tables by their key types.
///
/// # Safety
/// It is the only owner of its tables, which keep their addresses until it ends.
@safe
struct KeyTables: ~Copyable {
  private var slots: UnsafeMutablePointer<UnsafeMutablePointer<KeyTable>?>
  private var slotCount = 32
  private var count = 0
  private let shapes: ShapeCache

  init(_ shapes: ShapeCache) {
    self.shapes = shapes
    unsafe slots = .allocate(capacity: slotCount)
    unsafe slots.initialize(repeating: nil, count: slotCount)
  }

  deinit {
    for index in 0..<slotCount {
      guard let table = unsafe slots[index] else { continue }
      unsafe table.deinitialize(count: 1)
      unsafe table.deallocate()
    }
    unsafe slots.deallocate()
  }

  @inline(__always)
  static func address(_ type: Any.Type) -> UInt { UInt(bitPattern: ObjectIdentifier(type)) }

  /// Returns the table of a type, and creates it if there is none.
  @inline(__always)
  mutating func table<Key: CodingKey>(_ key: Key.Type) -> KeyTablePointer {
    let address = KeyTables.address(key)
    var index = slot(address)
    while let table = unsafe slots[index] {
      if unsafe table.pointee.type == address { return unsafe KeyTablePointer(table) }
      index = (index &+ 1) & (slotCount &- 1)
    }
    return insert(key)
  }

  @inline(__always)
  private func slot(_ address: UInt) -> Int {
    Int(truncatingIfNeeded: (UInt64(address) &* 0x9e37_79b9_7f4a_7c15) >> 40) & (slotCount &- 1)
  }

  @inline(never)
  private mutating func insert<Key: CodingKey>(_ key: Key.Type) -> KeyTablePointer {
    let table = UnsafeMutablePointer<KeyTable>.allocate(capacity: 1)
    unsafe table.initialize(to: KeyTable(key, shapes))
    if count >= slotCount / 2 { grow() }
    unsafe insert(table)
    count += 1
    return unsafe KeyTablePointer(table)
  }

  @unsafe
  private func insert(_ table: UnsafeMutablePointer<KeyTable>) {
    var index = unsafe slot(table.pointee.type)
    while unsafe slots[index] != nil { index = (index + 1) & (slotCount - 1) }
    unsafe slots[index] = table
  }

  private mutating func grow() {
    let old = unsafe slots
    let oldCount = slotCount
    slotCount *= 2
    unsafe slots = .allocate(capacity: slotCount)
    unsafe slots.initialize(repeating: nil, count: slotCount)
    for index in 0..<oldCount {
      if let table = unsafe old[index] { unsafe insert(table) }
    }
    unsafe old.deallocate()
  }

  /// Releases all containers. They retain the core, which retains them.
  mutating func removeBoxes() {
    for index in 0..<slotCount {
      unsafe slots[index]?.pointee.boxes = []
    }
  }
}

/// A pointer to a key table.
///
/// # Safety
/// The `KeyTables` of the encoder or decoder keep the table until they end.
@safe
struct KeyTablePointer: BitwiseCopyable, Equatable {
  private let pointer: UnsafeMutablePointer<KeyTable>

  @unsafe
  init(_ pointer: UnsafeMutablePointer<KeyTable>) { unsafe self.pointer = pointer }

  var pointee: KeyTable {
    @inline(__always) unsafeAddress { unsafe UnsafePointer(pointer) }
    @inline(__always) nonmutating unsafeMutableAddress { unsafe pointer }
  }

  @inline(__always)
  static func == (left: KeyTablePointer, right: KeyTablePointer) -> Bool { unsafe left.pointer == right.pointer }
}
