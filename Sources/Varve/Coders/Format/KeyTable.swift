/// What one encoder or decoder knows of one type of coding keys: the positions of its keys in the shapes that were
/// met with it, and containers that wait for their next use.
///
/// # Keys by their byte
/// The keys of a type are nearly always an enum of at most 256 cases, and then a value of it is one byte, or none. The
/// name and the position of a key are looked up once for each byte; from then on a key costs one load from a table. So
/// a key type whose values fit a byte has to give the same name for the same value always, as enums do.
///
/// # Containers
/// `KeyedEncodingContainer` and its counterpart allocate a box for each record, and look the box's type up at run time:
/// together as much as four fields. So boxes are kept, and one that no one else holds is used again.
struct KeyTable: ~Copyable {
  /// The address of the type.
  let type: UInt
  /// Whether the values of the type are a byte at most.
  let isByte: Bool
  /// The table of the shape that was met last.
  private(set) var last: PositionTable?
  private var others: [UInt32: PositionTable] = [:]

  // For encoders.
  /// By the byte of the key that a record begins with: the shape that the last such record had.
  private var expected: [PositionTable?] = []
  /// Whether records of this type are maps: their fields came in too many orders.
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

  /// The positions of the keys in a shape.
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

  /// The shape that a record has which begins with this key, so far as is known.
  @inline(__always)
  mutating func expectation(_ first: UInt8, _ shapes: borrowing ShapeLookup) -> PositionTable? {
    if !expected.isEmpty, let known = expected[Int(first)] { return known }
    return newestExpectation(first, shapes)
  }

  /// The same, as the other encoders have it.
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

  /// Keeps what shape a record had which began with this key. False where there were too many.
  mutating func learn(_ first: UInt8, _ table: PositionTable, _ shapes: borrowing ShapeLookup) -> Bool {
    expect(first, table)
    isDisorderly = !shapes.learn(type, first, table.shape)
    return !isDisorderly
  }
}

/// The positions of keys in one shape, by the keys' bytes. Filled as keys are met.
///
/// # Safety
/// The key table frees it, with the encoder or decoder. It has an entry for each byte.
@safe
struct PositionTable: BitwiseCopyable {
  /// The key is not in the shape.
  static let missing: UInt16 = 0xffff
  /// The key was not met yet.
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

  /// The position of a key that is a byte; nil where the shape does not have it.
  func position<Key: CodingKey>(of key: Key, byte: UInt8) -> Int? {
    if self[byte] == PositionTable.unknown {
      self[byte] = shape.position(of: key.stringValue).map(UInt16.init) ?? PositionTable.missing
    }
    let position = self[byte]
    return position == PositionTable.missing ? nil : Int(position)
  }
}

/// A key table by its key type.
///
/// # Safety
/// The only owner of its tables, which stay where they are until it ends.
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

  /// The table of a type, made where there is none.
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

  /// Lets go of all containers. They hold the core, and the core holds them.
  mutating func removeBoxes() {
    for index in 0..<slotCount {
      unsafe slots[index]?.pointee.boxes = []
    }
  }
}

/// # Safety
/// The tables that it is of keep it until they end, with the encoder or decoder.
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
